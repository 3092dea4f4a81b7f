"""Precision and recall of the first k places of a ranked list."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..direct import DirectEngine, HasArgmax, PositionForm
from ..engine import Batch, Engine
from ..smooth import QUICK, HasSmooth, Ranking, SmoothEngine, queried_items
from ..smooth.form import Later, LazyValue
from .base import Metric
from .lists import list_weights, mean_over_lists, pairwise, shares_of_lists, soft_cut, without_item_weights


class _AtK(Metric, HasArgmax, HasSmooth):
    """Positives among the first k, over a denominator: a discounted gain whose discount is 1 up to k and 0 beyond."""

    k: int

    layout: ClassVar[str] = "lists"
    order_only: ClassVar[bool] = True
    #: Whether softly there may be more than k items in the first k places, so that all of them share the room.
    crowded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.integer("k", self.k, at_least=1)

    @abstractmethod
    def _denominator(self, positives: Tensor) -> Tensor:
        """``(b,)`` what the positives in the first k places are divided by, given each list's positives."""

    def check(self, scores: object, targets: object, **rest: object) -> Batch:
        return without_item_weights(super().check(scores, targets, **rest), "the first k places are whole items")

    def exact(self, batch: Batch) -> Tensor:
        hit, worth, defined = self._hits(batch)
        return _mean_of_first(batch.scores.detach(), batch.where, self.k, hit, worth, defined, list_weights(batch))

    def argmax_form(self, batch: Batch) -> PositionForm:
        hit, worth, defined = self._hits(batch)
        discounts = (torch.arange(1, hit.shape[1] + 1, device=hit.device) <= self.k).double()
        gains, shares = hit * worth[:, None], shares_of_lists(batch, defined)
        return PositionForm(batch.scores, gains, discounts, batch.where, shares, self.k)

    def smooth_form(self, batch: Batch) -> Ranking:
        hit, worth, defined = self._hits(batch)
        gains = hit * worth[:, None]
        counted = torch.ones_like(gains) if batch.where is None else batch.where.double()
        by_list = list_weights(batch)
        queries = queried_items(counted > 0 if self.crowded else hit)
        own, there = queries.take(gains), queries.take(counted)
        room = counted.sum(1).clamp_max(float(self.k))

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            inside = there * soft_cut(above[0], self.k, relative)
            hits = (own * inside).sum(1)
            if self.crowded:
                hits = hits * room / inside.sum(1).clamp_min(torch.finfo(inside.dtype).tiny)
            return mean_over_lists(hits, defined, by_list)

        return Ranking(
            batch.scores,
            queries,
            (counted,),
            measure,
            gains,
            counted,
            has_cut=True,
            companion=pairwise(batch, hit),
            exact=lambda: self._exact_value(batch, hit, worth, defined, by_list),
        )

    def _exact_value(
        self, batch: Batch, hit: Tensor, worth: Tensor, defined: Tensor, by_list: Tensor | None
    ) -> LazyValue:
        """The exact value, found when it is read."""
        there = (defined if by_list is None else defined * by_list).any()
        if there.is_cpu and not there:
            return float("nan")
        keys, where, k = batch.scores.detach(), batch.where, self.k
        return Later(keys, lambda: _mean_of_first(keys, where, k, hit, worth, defined, by_list), there)

    def default_engine(self) -> Engine:
        """The pairs alone: from scratch neither the soft places nor the true ones' argmax were better."""
        return SmoothEngine(anchor=1.0, anchor_temperature=QUICK)

    def engine_for_logits(self) -> Engine:
        return DirectEngine()

    def _hits(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Positives ``(b, l)``; what one in the first k places is worth, and whether there is any, ``(b,)``."""
        hit = batch.targets if batch.where is None else batch.targets & batch.where
        positives = hit.sum(1).double()
        return hit, self._denominator(positives).clamp_min(1.0).reciprocal(), positives > 0


@dataclass(frozen=True)
class PrecisionAtK(_AtK):
    """Positives among the first k places, divided by k; averaged over the lists that have a positive.

    Items tied in score share their places. Soft, it is the positives' part of all that is softly in the first k places.

    Args:
        k: >= 1.

    Example:
        >>> import torch
        >>> from aimfor.metrics import PrecisionAtK
        >>> float(PrecisionAtK(2).value(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1, 0, 1])))
        0.5
    """

    k: int

    crowded: ClassVar[bool] = True

    def _denominator(self, positives: Tensor) -> Tensor:
        return torch.full_like(positives, self.k)


@dataclass(frozen=True)
class RecallAtK(_AtK):
    """Positives among the first k places, divided by all positives; averaged over the lists that have one.

    Args:
        k: >= 1.

    Example:
        >>> import torch
        >>> from aimfor.metrics import RecallAtK
        >>> float(RecallAtK(2).value(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1, 0, 1])))
        0.5
    """

    k: int

    def _denominator(self, positives: Tensor) -> Tensor:
        return positives


def _mean_of_first(
    scores: Tensor, where: Tensor | None, k: int, hit: Tensor, worth: Tensor, defined: Tensor, by_list: Tensor | None
) -> Tensor:
    """The mean over lists of the worth of positives in the first k places; the tie at the last of them shares it."""
    keys = scores if where is None else scores.masked_fill(~where, -torch.inf)
    if k >= keys.shape[1]:
        hits = hit.sum(1).double()
    else:
        last = keys.topk(k, dim=1).values[:, -1:]
        above, tied = keys > last, keys == last
        share = (k - above.sum(1)) / tied.sum(1).double()
        hits = (hit & above).sum(1) + (hit & tied).sum(1) * share
    return mean_over_lists(hits * worth, defined, by_list)
