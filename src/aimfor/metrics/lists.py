"""What metrics of ranked lists share: one sort for all lists, ties, and the mean over the lists that count."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..engine import Batch, Engine
from ..errors import InputError
from ..smooth import QUICK, Asked, SmoothEngine, listwise_entropy, pairwise_logistic
from ..smooth.ledger import FEW, inverse_means
from ..smooth.sums import SMALL
from ..ties import last_places


def sorted_lists(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The order of each row of ``(b, l)`` scores, highest first, and for each place the last place of its tie."""
    descending, order = scores.detach().sort(dim=1, descending=True)
    return order, last_places(descending)


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


def worth_of_lists(batch: Batch, totals: Tensor | list[int]) -> Tensor | float:
    """``(b, 1)``: a list's share in the mean over its total ``(b,)``; lists whose total is 0 are undefined.

    Totals of unweighted lists may be plain numbers.
    """
    if isinstance(totals, list) or (len(totals) <= FEW and list_weights(batch) is None):
        listed = totals if isinstance(totals, list) else totals.tolist()
        worth = inverse_means([float(total) for total in listed])
        return (
            worth[0]
            if len(worth) == 1
            else torch.tensor([[one] for one in worth], dtype=torch.float64, device=batch.scores.device)
        )
    defined = totals > 0
    return (shares_of_lists(batch, defined) / torch.where(defined, totals, 1.0))[:, None]


def listwise(batch: Batch, grades: Tensor, asked: Asked | None = None) -> Callable[[Tensor], tuple[float, Tensor]]:
    """The anchor of metrics of lists: of scores ``(b, l)``, softmax cross-entropy against ``(b, l)`` grades' shares.

    Grades are >= 0; lists in which all are 0 have no part in it. ``asked`` are the others, where they are known.
    """

    def companion(scores: Tensor) -> tuple[float, Tensor]:
        if len(grades) != 1 or batch.weights is not None:
            return listwise_entropy(scores, grades, batch.where, shares_of_lists(batch, grades.sum(1) > 0))
        known = batch.where is None and asked is not None and 0 < asked.places.shape[1] < grades.shape[1]
        return listwise_entropy(scores, grades, batch.where, None, ordered=known)

    return companion


def pairwise(batch: Batch, hit: Tensor) -> Callable[[Tensor], tuple[float, Tensor]]:
    """The anchor of the first places: of scores ``(b, l)``, the logistic loss of each list's pairs of unlike items."""

    def companion(scores: Tensor) -> tuple[float, Tensor]:
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
