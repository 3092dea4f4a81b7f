"""The sweep over thresholds that most exact metrics share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch


@dataclass(frozen=True)
class Curve:
    """Weighted counts when predicting positive at ``score >= thresholds[i]``, thresholds descending and distinct.

    All float64 of shape ``(t,)``; ``positives`` and ``negatives`` are the totals.
    """

    tp: Tensor
    fp: Tensor
    thresholds: Tensor
    positives: Tensor
    negatives: Tensor


def threshold_curve(batch: Batch) -> Curve:
    """Cumulated true and false positives at each distinct score, highest first (layout "binary")."""
    weights = batch.effective_weights()
    positive = batch.targets.double()
    mass = torch.ones_like(positive) if weights is None else weights.double()
    thresholds, order = batch.scores.detach().sort(descending=True)
    weighted = mass[order]
    hit = weighted * positive[order]
    sums = torch.stack((hit, weighted - hit)).cumsum(1)
    if thresholds.numel() > 1:
        last = torch.cat((thresholds[1:] != thresholds[:-1], thresholds.new_ones(1, dtype=torch.bool)))
        sums, thresholds = sums[:, last], thresholds[last]
    totals = sums[:, -1] if thresholds.numel() else sums.new_zeros(2)
    return Curve(sums[0], sums[1], thresholds, totals[0], totals[1])


def nan_like(batch: Batch) -> Tensor:
    """The value of an undefined metric."""
    return torch.full((), float("nan"), dtype=torch.float64, device=batch.scores.device)
