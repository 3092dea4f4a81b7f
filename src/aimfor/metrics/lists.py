"""What metrics of ranked lists share: one sort for all lists, ties, and the mean over the lists that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..engine import Batch, Engine, Number
from ..errors import InputError
from ..ordering import first_places, last_places, ordered
from ..smooth import QUICK, QueriedItems, SmoothEngine, listwise_entropy, pairwise_logistic
from ..smooth.ledger import FEW, inverse_means
from ..smooth.sums import SMALL


def sorted_lists(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The order of each row of ``(b, l)`` scores, highest first, and for each place the last place of its tie."""
    descending, order = ordered(scores.detach(), descending=True)
    return order, last_places(descending)


class TiedPlaces(NamedTuple):
    """Hits by place when the items of every tie stand in random order: what list metrics take the mean of.

    Of a run of m tied items with h hits among them, its place j (from 0) holds a hit with probability h/m, and given
    one, (h − 1)/(m − 1) of the j places before it in the run do.

    Attributes:
        chance: ``(b, l)`` that the place holds a hit.
        precision: ``(b, l)`` the mean precision at the place, given a hit there.
        none_yet: ``(b, l)`` the probability of no hit at the place or before it.
    """

    chance: Tensor
    precision: Tensor
    none_yet: Tensor

    def within(self, sizes: Tensor) -> Tensor:
        """``(b, l)`` the chances of each list's first places, as many as ``(b,)`` sizes say."""
        ranks = torch.arange(self.chance.shape[1], device=sizes.device)
        return self.chance * (ranks < sizes[:, None])

    def hit_within(self, k: int) -> Tensor:
        """``(b,)`` the probability of a hit among the first k places."""
        length = self.none_yet.shape[1]
        return 1.0 - (self.none_yet[:, min(k, length) - 1] if length else self.none_yet.new_ones(len(self.none_yet)))

    def reciprocal_rank(self) -> Tensor:
        """``(b,)`` the mean of one over the place of the first hit."""
        before = torch.cat((self.none_yet.new_ones(len(self.none_yet), 1), self.none_yet), 1)
        ranks = torch.arange(1, before.shape[1], device=before.device)
        return ((before[:, :-1] - before[:, 1:]) / ranks).sum(1)


def tied_places(
    descending: Tensor, hit: Tensor, beyond: Tensor | float = 0.0, hits_beyond: Tensor | float = 0.0
) -> TiedPlaces:
    """From ``(b, l)`` sorted scores and their float64 hits; exact 0 and 1 where nothing ties.

    The last run may go on beyond the places that are given, ``(b,)`` items further with ``(b,)`` hits among them.
    """
    if not hit.shape[1]:
        return TiedPlaces(hit, hit, hit)
    first, last, hits_to_here = first_places(descending), last_places(descending), hit.cumsum(1)
    before = (hits_to_here - hit).gather(1, first)
    ends = (last == hit.shape[1] - 1).double()
    size = (last - first + 1) + ends * torch.as_tensor(beyond, device=hit.device).reshape(-1, 1)
    hits = hits_to_here.gather(1, last) - before + ends * torch.as_tensor(hits_beyond, device=hit.device).reshape(-1, 1)
    ranks = torch.arange(hit.shape[1], device=hit.device)
    within = ranks - first
    precision = (before + 1.0 + within * (hits - 1.0) / (size - 1.0).clamp_min(1.0)) / (ranks + 1.0)
    none_yet = (1.0 - hits / (size - within)).clamp_min(0.0).cumprod(1)
    return TiedPlaces(hits / size, precision, none_yet)


def places_of(batch: Batch) -> tuple[TiedPlaces, Tensor]:
    """The places of each list, and ``(b,)`` float64 how many positives it has; masked items stand last."""
    scores, hit = batch.scores.detach(), batch.targets
    if batch.where is not None:
        scores, hit = scores.masked_fill(~batch.where, -torch.inf), hit & batch.where
    descending, order = ordered(scores, descending=True)
    hit = hit.double()
    return tied_places(descending, hit.gather(1, order)), hit.sum(1)


def rows_of_numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 and 1, list after list in memory: lists that are columns of a table would be read across it again and again."""
    if mask.is_contiguous() or mask.numel() <= SMALL:
        return mask.to(dtype)
    return torch.empty(mask.shape, dtype=dtype, device=mask.device).copy_(mask)


def list_weights(batch: Batch) -> Tensor | None:
    """One float64 weight per list, ``(b,)``, if the weights are per list.

    In lists of one item a weight per item looks the same, and does the same: such a list is worth 1 or undefined.
    """
    if batch.weights is None or batch.weights.shape[1] != 1:
        return None
    return batch.weights[:, 0].double()


def without_item_weights(batch: Batch, reason: str) -> Batch:
    """The batch itself. Raises `InputError` for weights of single items, which have no meaning for the reason given."""
    if batch.weights is not None and list_weights(batch) is None:
        raise InputError("weights", "one weight per item", f"one per list: {reason}", "Leave them out.")
    return batch


def shares_of_lists(batch: Batch, defined: Tensor) -> Tensor:
    """What each list counts in the mean over the defined lists, ``(b,)``; all zero if there is none."""
    by_list = list_weights(batch)
    if by_list is None and len(defined) == 1:
        return defined.double()
    mass = defined.double() if by_list is None else defined * by_list
    return mass / mass.sum().clamp_min(torch.finfo(mass.dtype).tiny)


def defined_sum(terms: Tensor, shares: Tensor, all_count: bool) -> Number:
    """The sum of ``(b, p)`` terms, NaN if no query has a share; where all have one, there has to be a query."""
    if not terms.is_cpu:
        return torch.where(shares.any(), terms.sum(), torch.nan)
    there = terms.shape[1] > 0 if all_count else bool(shares.any())
    return float(terms.sum()) if there else float("nan")


def worth_of_lists(batch: Batch, totals: Tensor | list[int]) -> Tensor | float:
    """``(b, 1)``: a list's share in the mean over its total ``(b,)``; lists whose total is 0 are undefined.

    Totals of unweighted lists may be plain numbers.
    """
    if isinstance(totals, Tensor) and len(totals) <= FEW and list_weights(batch) is None and totals.is_cpu:
        totals = totals.tolist()
    if isinstance(totals, list):
        worth = inverse_means([float(total) for total in totals])
        return (
            worth[0]
            if len(worth) == 1
            else torch.tensor(worth, dtype=torch.float64, device=batch.scores.device)[:, None]
        )
    defined = totals > 0
    return (shares_of_lists(batch, defined) / torch.where(defined, totals, 1.0))[:, None]


def listwise(
    batch: Batch, grades: Tensor, queries: QueriedItems | None = None
) -> Callable[[Tensor], tuple[Number, Tensor]]:
    """The anchor of metrics of lists: of scores ``(b, l)``, softmax cross-entropy against ``(b, l)`` grades' shares.

    Grades are >= 0; lists in which all are 0 have no part in it. ``queries`` are the others, where they are known.
    """

    def companion(scores: Tensor) -> tuple[Number, Tensor]:
        if len(grades) != 1 or batch.weights is not None:
            return listwise_entropy(scores, grades, batch.where, shares_of_lists(batch, grades.sum(1) > 0))
        differ = batch.where is None and queries is not None and 0 < queries.positions.shape[1] < grades.shape[1]
        return listwise_entropy(scores, grades, batch.where, None, ordered=differ)

    return companion


def pairwise(batch: Batch, hit: Tensor) -> Callable[[Tensor], tuple[Number, Tensor]]:
    """The anchor of the first places: of scores ``(b, l)``, the logistic loss of each list's pairs of unlike items."""

    def companion(scores: Tensor) -> tuple[Number, Tensor]:
        rest = ~hit if batch.where is None else batch.where & ~hit
        return pairwise_logistic(scores, hit, rest, shares_of_lists(batch, hit.any(1)))

    return companion


def engine_of_lists() -> Engine:
    """Half the soft metric, half softmax cross-entropy of four times the scores, which learns in fewer steps."""
    return SmoothEngine(anchor=0.5, anchor_temperature=QUICK)


def soft_cut(ranks: Tensor, k: Tensor | float, relative: Tensor | float) -> Tensor:
    """The indicator of ``rank <= k``, made soft over a share ``relative`` of k places (of 10, for a smaller k)."""
    return torch.sigmoid((k + 0.5 - ranks) / cut_width(k, relative))


def cut_width(k: Tensor | float, relative: Tensor | float) -> Tensor | float:
    """In places: the temperature of the cut."""
    return relative * (k.clamp_min(10.0) if isinstance(k, Tensor) else max(k, 10.0))


def mean_over_lists(values: Tensor, defined: Tensor, weights: Tensor | None) -> Tensor:
    """Weighted mean of the defined lists' values; NaN (0/0) if there is none."""
    mass = defined.double() if weights is None else defined * weights
    return (mass * torch.where(defined, values, 0.0)).sum() / mass.sum()
