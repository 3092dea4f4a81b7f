"""Average precision: the mean, over the positives, of the precision at each one's score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..direct import HasArgmax, RankingForm, rows_of
from ..engine import Batch, Engine, Number
from ..smooth import QUICK, HasSmooth, Ranking, SmoothEngine, queried_items
from ..smooth.sums import SMALL
from .base import Metric
from .lists import (
    defined_sum,
    list_weights,
    mean_over_lists,
    rows_of_numbers,
    shares_of_lists,
    sorted_lists,
    worth_of_lists,
)


@dataclass(frozen=True)
class AveragePrecision(Metric, HasArgmax, HasSmooth):
    """Average precision of one list, or its mean over many (MAP).

    ``AP = Σ_t (R_t − R_{t−1}) P_t`` over the distinct scores t, highest first, as scikit-learn has it: no
    interpolation, and items with equal scores enter together. With ``(b, l)`` scores it is the mean over the lists
    that have a positive; the others are undefined and left out, and the value is NaN if none is left.

    ``weights`` has one entry per item, ``(b, l)`` or ``(l,)``, or one per list, ``(b,)``.

    Example:
        >>> import torch, aimfor
        >>> scores, targets = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 1, 0, 1])
        >>> float(aimfor.AveragePrecision().value(scores, targets))
        1.0
    """

    layout: ClassVar[str] = "lists"
    order_only: ClassVar[bool] = True
    remembers: ClassVar[str] = "scores"
    copies_tie: ClassVar[bool] = True

    def exact(self, batch: Batch) -> Tensor:
        order, group_end = sorted_lists(batch.scores)
        mass = self._mass(batch).double().gather(1, order)
        hit = mass * batch.targets.gather(1, order)
        tp, decided = hit.cumsum(1).gather(1, group_end), mass.cumsum(1).gather(1, group_end)
        return self._of_counts(hit, tp, decided, list_weights(batch))

    def smooth_form(self, batch: Batch) -> Ranking:
        by_list, smallest = list_weights(batch), torch.finfo(torch.float64).tiny
        if batch.weights is None and batch.where is None:
            counted, hit = None, rows_of_numbers(batch.targets, batch.scores.dtype)
            by_rows = batch.targets.is_contiguous() or batch.targets.numel() <= SMALL
            queries, rest = queried_items(batch.targets if by_rows else hit > 0), 1.0 - hit
            own = None
        else:
            counted = self._mass(batch)
            hit = counted * batch.targets
            queries, rest = queried_items(hit > 0), counted - hit
            own = queries.take(hit).double()

        def measure(above: Tensor, relative: Tensor | float) -> Tensor:
            mass = queries.ones(torch.float64) if own is None else own
            return self._of_counts(mass, above[0], above[0] + above[1], by_list)

        def priced(above: Tensor, relative: Tensor | float) -> tuple[Number, Tensor]:
            """``Σ share · tp / (tp + fp)`` and its derivatives."""
            if own is None and queries.counts is not None:
                share = queries.of_lists(worth_of_lists(batch, queries.counts), torch.float64)
            else:
                mass = queries.ones(torch.float64) if own is None else own
                share = mass * worth_of_lists(batch, mass.sum(1))
            tp, fp = above.unbind(0)
            decided = (tp + fp).clamp_min(smallest)
            inverse = share / decided
            precisions = tp * inverse
            steep = precisions / decided
            return defined_sum(precisions, share, by_list is None), torch.stack((inverse - steep, -steep))

        return Ranking(batch.scores, queries, (hit, rest), measure, batch.targets, counted, hits=True, priced=priced)

    @staticmethod
    def _mass(batch: Batch) -> Tensor:
        """``(b, l)`` of the scores' dtype: what each item counts in its list."""
        by_item = batch.where if list_weights(batch) is not None else batch.effective_weights()
        return torch.ones_like(batch.scores) if by_item is None else by_item.to(batch.scores.dtype)

    @staticmethod
    def _of_counts(hit: Tensor, tp: Tensor, decided: Tensor, by_list: Tensor | None) -> Tensor:
        """The definition: positives' masses, and what stands at or above each of them, ``(b, items)``."""
        # An item without weight may stand first; its precision 0/0 is multiplied by nothing.
        precision = torch.where(decided > 0, tp / decided, 0.0)
        positives = hit.sum(1)
        return mean_over_lists((hit * precision).sum(1) / positives, positives > 0, by_list)

    def argmax_form(self, batch: Batch) -> RankingForm:
        rows = rows_of(batch, by_list=list_weights(batch) is not None)
        defined = (rows.positive & rows.counted()).any(1)
        by_list = list_weights(batch)

        def measure(hit: Tensor, tp: Tensor, decided: Tensor) -> Tensor:
            return self._of_counts(hit, tp, decided, by_list)

        return RankingForm(rows, shares_of_lists(batch, defined), measure)

    def default_engine(self) -> Engine:
        # Colder still, the ranks of a long list cost half as much again.
        return SmoothEngine(2 * QUICK, anchor=0.5, anchor_temperature=2 * QUICK)
