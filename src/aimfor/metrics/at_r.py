"""Metrics of retrieval: each list judged by its first R places, R its number of positives, or by its first hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine, Number
from ..smooth import HasSmooth, QueriedItems, Ranking, SmoothEngine, queried_items
from .base import Metric
from .lists import (
    cut_width,
    defined_sum,
    engine_of_lists,
    list_weights,
    listwise,
    mean_over_lists,
    places_of,
    shares_of_lists,
    soft_cut,
    without_item_weights,
    worth_of_lists,
)


class _OfLists(Metric, HasSmooth):
    """What they share: lists of 0/1 items that count alike, and the mean over lists with a positive."""

    layout: ClassVar[str] = "lists"
    order_only: ClassVar[bool] = True

    def check(self, scores: object, targets: object, **rest: object) -> Batch:
        return without_item_weights(super().check(scores, targets, **rest), "places are whole items")

    def default_engine(self) -> Engine:
        """Ranks as fine as a fifth of the spread, which the first places need, and half softmax cross-entropy."""
        return SmoothEngine(0.2, relative=True, anchor=0.5)

    def engine_for_logits(self) -> Engine:
        return SmoothEngine(0.2, relative=True)


def _there(batch: Batch) -> tuple[Tensor, Tensor]:
    """``(b, l)`` float64 masks: the items that count, and the positives among them."""
    dtype = torch.float64
    counted = torch.ones_like(batch.scores, dtype=dtype) if batch.where is None else batch.where.to(dtype)
    return counted, counted * batch.targets


def _hits(batch: Batch) -> Tensor:
    """``(b, l)`` of the scores' dtype: 1 for the positives that count."""
    return (batch.targets if batch.where is None else batch.targets & batch.where).to(batch.scores.dtype)


class _AtR(_OfLists):
    """Σ over the positives in the first R places of a worth, divided by R."""

    precise: ClassVar[bool]

    def default_engine(self) -> Engine:
        return engine_of_lists()

    def exact(self, batch: Batch) -> Tensor:
        tied, positives = places_of(batch)
        worth = tied.within(positives) * (tied.precision if self.precise else 1.0)
        return mean_over_lists(worth.sum(1) / positives, positives > 0, list_weights(batch))

    def smooth_form(self, batch: Batch) -> Ranking:
        hit = _hits(batch)
        queries, by_list = queried_items(hit > 0), list_weights(batch)
        one_list = queries.counts is not None and len(hit) == 1 and by_list is None  # of one list all is a number

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            own = queries.ones(torch.float64)
            ranks, limit = above.sum(0), own.sum(1, keepdim=True)  # positives and others above an item
            return self._of_ranks(own, above[0], ranks, soft_cut(ranks, limit, relative), by_list)

        def priced(above: Tensor, relative: Tensor | float) -> tuple[Number, Tensor]:
            """``Σ share · inside · precision / R`` and its derivatives."""
            limit: Tensor | float
            share: Tensor | float
            if one_list and queries.counts is not None:
                limit, share = float(queries.counts[0]), 1.0 / max(1, queries.counts[0])
            else:
                own = queries.ones(torch.float64)
                limit = own.sum(1, keepdim=True)
                share = own * worth_of_lists(batch, limit[:, 0])
            ranks = (above.sum(0) if self.precise else above[0]).clamp_min(1.0)
            width = cut_width(limit, relative)
            inside = torch.sigmoid((limit + 0.5 - ranks) / width)
            worth = inside * share
            off = inside.sub_(1.0).div_(width)
            if self.precise:
                inverse = ranks.reciprocal()
                value = worth * above[0] * inverse
                steep = off.sub_(inverse).mul_(value)
                slopes = torch.stack((torch.addcmul(steep, worth, inverse), steep))
            else:
                value = worth
                slopes = off.mul_(value)[None]
            return defined_sum(value, hit, True), slopes

        counted = None if batch.where is None else batch.where.to(hit.dtype)
        everything = torch.ones_like(hit) if counted is None else counted
        # Without precisions nobody asks for the positives above an item.
        masses = (hit, everything - hit) if self.precise else (everything,)
        anchor = listwise(batch, hit, queries)
        return Ranking(
            batch.scores,
            queries,
            masses,
            measure,
            hit,
            counted,
            has_cut=True,
            hits=self.precise,
            companion=anchor,
            priced=priced,
            ones=counted is None and not self.precise,
        )

    def _of_ranks(self, hit: Tensor, tp: Tensor, ranks: Tensor, inside: Tensor, by_list: Tensor | None) -> Tensor:
        """The definition: for each positive, positives and items at or above it, and whether it is in the first R."""
        worth = hit * inside * (tp / ranks.clamp_min(1.0) if self.precise else 1.0)
        positives = hit.sum(1)
        return mean_over_lists(worth.sum(1) / positives, positives > 0, by_list)


@dataclass(frozen=True)
class MAPAtR(_AtR):
    """MAP@R: ``1/R Σ`` over the positives in the first R places of the precision there; R is the list's positives.

    Example:
        >>> import torch
        >>> from aimfor.metrics import MAPAtR
        >>> float(MAPAtR().value(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])))
        0.5

    References:
        Musgrave, Belongie, Lim, A metric learning reality check, 2020.
    """

    precise: ClassVar[bool] = True


@dataclass(frozen=True)
class RPrecision(_AtR):
    """R-precision: positives among the first R places, divided by R, the number of positives.

    Example:
        >>> import torch
        >>> from aimfor.metrics import RPrecision
        >>> float(RPrecision().value(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 1, 0])))
        0.5
    """

    precise: ClassVar[bool] = False


@dataclass(frozen=True)
class HitAtK(_OfLists):
    """The share of lists with a positive among their first k places: recall@k as retrieval of classes has it.

    (`RecallAtK` is the share of a list's positives that are there.) Tied items stand in random order, and the value is
    the mean over the orders. Soft, it is ``1 − Π (1 − [rank ≤ k])`` over the positives.

    Args:
        k: >= 1.

    Example:
        >>> import torch
        >>> from aimfor.metrics import HitAtK
        >>> float(HitAtK(1).value(torch.tensor([[2.0, 1.0], [1.0, 2.0]]), torch.tensor([[1, 0], [1, 0]])))
        0.5
    """

    k: int

    def __post_init__(self) -> None:
        checks.integer("k", self.k, at_least=1)

    def exact(self, batch: Batch) -> Tensor:
        tied, positives = places_of(batch)
        return mean_over_lists(tied.hit_within(self.k), positives > 0, list_weights(batch))

    def smooth_form(self, batch: Batch) -> Ranking:
        counted, hit = _there(batch)
        queries, by_list = queried_items(hit > 0), list_weights(batch)
        own, defined = queries.take(hit), hit.sum(1) > 0

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            inside = own * soft_cut(above[0], self.k, relative)
            return mean_over_lists(1.0 - (1.0 - inside).prod(1), defined, by_list)

        anchor = listwise(batch, hit)
        return Ranking(batch.scores, queries, (counted,), measure, hit, counted, has_cut=True, companion=anchor)


@dataclass(frozen=True)
class ReciprocalRank(_OfLists):
    """MRR: one over the place of the first positive, averaged over the lists that have one.

    Tied items stand in random order, and the value is the mean over the orders. Soft, it is
    ``1 / (1 + negatives above)`` of the positive that has the fewest.

    Example:
        >>> import torch
        >>> from aimfor.metrics import ReciprocalRank
        >>> scores, targets = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 1], [0, 1, 1]])
        >>> float(ReciprocalRank().value(scores, targets))
        0.75
    """

    def exact(self, batch: Batch) -> Tensor:
        tied, positives = places_of(batch)
        return mean_over_lists(tied.reciprocal_rank(), positives > 0, list_weights(batch))

    def smooth_form(self, batch: Batch) -> Ranking:
        hit, by_list = _hits(batch), list_weights(batch)
        defined, scores = hit.sum(1) > 0, batch.scores.detach()
        # The positive with the highest score has the fewest negatives above it, so that no other is asked about.
        first = (
            scores.masked_fill(hit == 0, -torch.inf).argmax(1, keepdim=True) if scores.numel() else hit[:, :1].long()
        )
        queries = QueriedItems(first, defined[:, None])

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            return mean_over_lists((1.0 / (1.0 + above[0])).sum(1), defined, by_list)

        def priced(above: Tensor, relative: Tensor | float) -> tuple[Number, Tensor]:
            shares = shares_of_lists(batch, defined)[:, None]
            inverse = 1.0 / (1.0 + above)
            worth = inverse * shares
            return defined_sum(worth, shares, False), -worth * inverse

        counted = None if batch.where is None else batch.where.to(hit.dtype)
        below = (1.0 if counted is None else counted) - hit
        anchor = listwise(batch, hit)
        return Ranking(batch.scores, queries, (below,), measure, hit, counted, companion=anchor, priced=priced)
