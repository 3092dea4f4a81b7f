"""NDCG: discounted gain of a ranking over that of the best ranking, for graded relevance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..direct import DirectEngine, HasArgmax, PositionForm
from ..engine import Batch, Engine, Number
from ..errors import InputError
from ..ordering import ordered, shared_worth
from ..smooth import QUICK, HasSmooth, Ranking, SmoothEngine, queried_items
from .base import Metric
from .lists import (
    cut_width,
    defined_sum,
    list_weights,
    listwise,
    mean_over_lists,
    shares_of_lists,
    soft_cut,
    worth_of_lists,
)

GAINS = ("linear", "exponential")
#: 2^grade leaves float64 beyond this.
HIGHEST_EXPONENT = 1000
#: So many places' discounts are kept.
FIRST = 1 << 10
#: Whole grades below this are counted in a long list instead of being sorted.
MOST_GRADES = 64


@dataclass(frozen=True)
class NDCG(Metric, HasArgmax, HasSmooth):
    """Normalised discounted cumulative gain, averaged over lists.

    ``DCG = Σ_i g(rel_i) / log₂(1 + rank_i)`` over the first k places, divided by the DCG of the ideal order. Items
    with equal scores share the mean of their places' discounts, as in scikit-learn. A list without relevant items
    has no ideal order to divide by: it is undefined and left out of the mean, and the value is NaN if none is left.

    ``weights`` has one entry per list, ``(b,)``.

    Args:
        k: Only the first k places count; None counts all. A k beyond the list counts all.
        gain: ``"linear"``: g = rel, as in scikit-learn. ``"exponential"``: g = 2^rel − 1, as in most of learning to
            rank (LambdaMART, XGBoost's and LightGBM's default).

    Example:
        >>> import torch, aimfor
        >>> scores, grades = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[0, 2, 1]])
        >>> [round(float(aimfor.NDCG(k).value(scores, grades)), 4) for k in (None, 1)]
        [0.6697, 0.0]

    References:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, 2002. McSherry and Najork,
        Computing information retrieval performance measures efficiently in the presence of tied scores, 2008.
    """

    k: int | None = None
    gain: str = "linear"

    layout: ClassVar[str] = "lists"
    order_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.k is not None:
            checks.integer("k", self.k, at_least=1)
        checks.one_of("gain", self.gain, GAINS)

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        batch = checks.lists(scores, targets, graded=True, **rest)
        if self.gain == "exponential" and rest.get("values", True) and batch.targets.numel():
            highest = float(batch.targets.max())
            if highest > HIGHEST_EXPONENT:
                raise InputError(
                    "targets",
                    f"a grade of {highest:g}",
                    f"grades up to {HIGHEST_EXPONENT} with the exponential gain 2^grade − 1",
                    'Use gain="linear" for amounts such as clicks or prices.',
                )
        return batch

    def gains(self, relevance: Tensor) -> Tensor:
        """Relevance grades to gains, in float64."""
        grades = relevance.double()
        return grades if self.gain == "linear" else torch.exp2(grades) - 1.0

    def discounts(self, length: int, device: torch.device | None = None) -> Tensor:
        """``1 / log₂(1 + rank)`` for ranks 1 to ``length``, zero beyond k; float64 ``(length,)``."""
        ranks = torch.arange(1, length + 1, dtype=torch.float64, device=device)
        discount = _discount(ranks)
        return discount if self.k is None else torch.where(ranks <= self.k, discount, 0.0)

    def exact(self, batch: Batch) -> Tensor:
        gains, discounts, ideal = self._ideal(batch)
        return mean_over_lists(self._dcg(batch, gains, discounts) / ideal, ideal > 0, list_weights(batch))

    def _ideal(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Gains ``(b, l)``, 0 where masked, discounts ``(l,)``, and the DCG ``(b,)`` of the ideal order."""
        gains = self.gains(batch.targets)
        gains = gains if batch.where is None else gains * batch.where
        discounts = self.discounts(gains.shape[1], gains.device)
        if len(gains) > 1:
            return gains, discounts, self._best(gains)
        counts = _counts_of_grades(batch.targets[0]) if gains.shape[1] > FIRST else None
        if counts is not None:
            return gains, discounts, self._ideal_of(counts, discounts)
        # Only items with a gain count. In one list they may be few, and sorting them is what the ideal costs.
        return gains, discounts, self._best(gains[gains > 0][None])

    def _ideal_of(self, counts: Tensor, discounts: Tensor) -> Tensor:
        """``(1,)`` the DCG of the ideal order, in which the items of a grade stand side by side; no sort."""
        highest_first = counts.flip(0)
        ends = highest_first.cumsum(0)
        through = torch.cat((discounts.new_zeros(1), discounts.cumsum(0)))
        gains = self.gains(torch.arange(len(counts), device=counts.device)).flip(0)
        return (gains * (through[ends] - through[ends - highest_first])).sum(0, keepdim=True)

    def _best(self, gains: Tensor) -> Tensor:
        """``(b,)`` the DCG of ``(b, p)`` gains in the ideal order."""
        if self.k is not None and self.k < gains.shape[1]:
            best = gains.topk(self.k, dim=1).values
        else:
            best = gains.sort(dim=1, descending=True).values
        if best.shape[1] <= FIRST:
            return best @ _first_discounts(best.device)[: best.shape[1]]
        return best @ self.discounts(best.shape[1], best.device)

    @staticmethod
    def _dcg(batch: Batch, gains: Tensor, discounts: Tensor) -> Tensor:
        """``(b,)``: the DCG of the order by scores; ties share the mean of their places' discounts."""
        scores = batch.scores.detach()
        if batch.where is not None:
            # Padding goes below every real item and ties with none; its gain is zero.
            scores = scores.masked_fill(~batch.where, -torch.inf)
        descending, order = ordered(scores, descending=True)
        return (gains.gather(1, order) * shared_worth(descending, discounts)).sum(1)

    def smooth_form(self, batch: Batch) -> Ranking:
        gains, by_list = self.gains(batch.targets), list_weights(batch)
        gains = gains if batch.where is None else gains * batch.where
        queries = queried_items(gains > 0)
        own = queries.take(gains)
        ideal = self._best(own)

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            discount = _discount(above[0])
            if self.k is not None:
                discount = discount * soft_cut(above[0], self.k, relative)
            return mean_over_lists((own * discount).sum(1) / ideal, ideal > 0, by_list)

        def priced(above: Tensor, relative: Tensor | float) -> tuple[Number, Tensor]:
            """``Σ share · gain · discount / ideal`` and its derivatives."""
            ranks = above[0].clamp_min(1.0)  # lists without an item ask for place 0
            worth, next_rank = own * worth_of_lists(batch, ideal), ranks + 1.0
            discount = next_rank.log2().reciprocal_()
            slope = (discount * discount).div_(next_rank.mul_(-math.log(2.0)))
            if self.k is None:
                value = worth * discount
                slope.mul_(worth)
            else:
                width = cut_width(self.k, relative)
                inside = torch.sigmoid((self.k + 0.5 - ranks) / width)
                worth = worth * inside
                value = worth * discount
                slope.mul_(worth).add_(inside.sub_(1.0).mul_(value).div_(width))
            return defined_sum(value, ideal > 0, True), slope[None]

        counted = None if batch.where is None else batch.where.to(batch.scores.dtype)
        masses = (torch.ones_like(batch.scores) if counted is None else counted,)
        return Ranking(
            batch.scores,
            queries,
            masses,
            measure,
            gains,
            counted,
            has_cut=self.k is not None,
            companion=listwise(batch, gains, queries),
            priced=priced,
            ones=counted is None,
        )

    def argmax_form(self, batch: Batch) -> PositionForm:
        gains, discounts, ideal = self._ideal(batch)
        defined = ideal > 0
        gains = torch.where(defined[:, None], gains / ideal[:, None], 0.0)
        return PositionForm(batch.scores, gains, discounts, batch.where, shares_of_lists(batch, defined))

    def default_engine(self) -> Engine:
        return SmoothEngine(2 * QUICK, anchor=0.5, anchor_temperature=QUICK)

    def engine_for_logits(self) -> Engine:
        return DirectEngine()


def _counts_of_grades(targets: Tensor) -> Tensor | None:
    """How many items of ``(l,)`` have the grades 0, 1, 2, …; None where grades are not few whole numbers."""
    if not float(targets.max()) < MOST_GRADES:
        return None
    whole = targets.long()
    return torch.bincount(whole) if torch.equal(whole.to(targets.dtype), targets) else None


@lru_cache(maxsize=4)
def _first_discounts(device: torch.device) -> Tensor:
    return _discount(torch.arange(1, FIRST + 1, dtype=torch.float64, device=device))


def _discount(ranks: Tensor) -> Tensor:
    return 1.0 / torch.log2(ranks + 1.0)
