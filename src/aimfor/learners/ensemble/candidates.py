"""The exact metric of many candidate mixtures of the same rows in one pass: one sort for all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...metrics import AUROC, AveragePrecision
from ...metrics.lists import sorted_lists
from ...targets.objective import Objective


def side_by_side(objective: Objective) -> bool:
    """Whether `values_of` knows the metric: average precision and the whole AUROC of rows."""
    whole = isinstance(objective.metric, AUROC) and objective.metric.max_fpr in (None, 1.0)
    return whole or (isinstance(objective.metric, AveragePrecision) and not objective.ranked)


def values_of(objective: Objective, mixtures: Tensor, y: Tensor) -> list[float]:
    """What `Objective.value` gives for each row of ``(candidates, n)`` float64 scores, to the last bit.

    Both metrics are sums over places in the sorted rows, of whole counts that float64 holds exactly.

    Example:
        >>> scores = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
        >>> values_of(Objective.of("auroc"), scores, torch.tensor([1, 0, 0]))
        [1.0, 0.0]
    """
    positives = int((y > 0).sum())
    negatives = len(y) - positives
    order, last = sorted_lists(mixtures)
    hit = (y > 0).double()[order]
    found = hit.cumsum(1).gather(1, last)
    if isinstance(objective.metric, AUROC):
        if not positives or not negatives:
            return [float("nan")] * len(mixtures)
        # A negative is beaten by the positives above its tie, and half beaten by those inside.
        inside = torch.zeros_like(hit).scatter_add(1, last, hit).gather(1, last)
        won = ((1.0 - hit) * (2.0 * found - inside)).sum(1)
        return [float(one) for one in won / (2.0 * positives * negatives)]
    if not positives:
        return [float("nan")] * len(mixtures)
    values = (hit * (found / (last + 1))).sum(1) / positives
    return [float(one) for one in values]
