"""Average precision: the mean, over the positives, of the precision at each one's score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..direct import DirectEngine, HasArgmax, RankingForm, rows_of
from ..engine import Batch, Engine
from .base import Metric
from .lists import list_weights, mean_over_lists, shares_of_lists, sorted_lists


@dataclass(frozen=True)
class AveragePrecision(Metric, HasArgmax):
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

    def exact(self, batch: Batch) -> Tensor:
        by_list = list_weights(batch)
        by_item = batch.effective_weights() if by_list is None else batch.where
        order, group_end = sorted_lists(batch.scores)
        mass = torch.ones_like(batch.scores, dtype=torch.float64) if by_item is None else by_item.double()
        mass = mass.gather(1, order)
        hit = mass * batch.targets.gather(1, order)
        tp, decided = hit.cumsum(1).gather(1, group_end), mass.cumsum(1).gather(1, group_end)
        # An item without weight may stand first; its precision 0/0 is multiplied by nothing.
        precision = torch.where(decided > 0, tp / decided, 0.0)
        positives = hit.sum(1)
        return mean_over_lists((hit * precision).sum(1) / positives, positives > 0, by_list)

    def argmax_form(self, batch: Batch) -> RankingForm:
        rows = rows_of(batch, by_list=list_weights(batch) is not None)
        defined = (rows.positive & rows.counted()).any(1)
        return RankingForm(rows, shares_of_lists(batch, defined))

    def default_engine(self) -> Engine:
        return DirectEngine()
