"""Choosing on validation data: what is held out, and where a deciding metric puts its threshold."""

from __future__ import annotations

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from ..metrics.base import Metric

#: Thresholds tried at first, and again around the best of them.
GRID = 128


def held_out(targets: Tensor, layout: str, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions to fit on and positions to judge on, drawn class by class (list by list for ranked lists)."""
    generator = torch.Generator().manual_seed(seed)
    if layout == "lists":
        groups = [torch.arange(targets.shape[0])]
    else:
        labels = targets.detach().reshape(targets.shape[0], -1)[:, 0].cpu()
        groups = [(labels == label).nonzero().squeeze(1) for label in labels.unique()]
    kept, held = [], []
    for group in groups:
        shuffled = group[torch.randperm(group.numel(), generator=generator)]
        count = round(fraction * group.numel())
        if not 0 < count < group.numel():
            raise InputError(
                "validation",
                f"{fraction:g} of a class with {group.numel()} rows",
                "a fraction that leaves some on both sides",
                "Pass validation=(features, targets).",
            )
        held.append(shuffled[:count])
        kept.append(shuffled[count:])
    return torch.cat(kept).sort().values.to(targets.device), torch.cat(held).sort().values.to(targets.device)


def decides_at_zero(metric: Metric, scores: Tensor, batch: Batch) -> bool:
    """Whether adding a constant to all scores changes the metric: true of F_β and IoU, false of rankings."""
    if metric.layout != "binary":
        return False
    low, high = scores.aminmax()
    ends = (_value(metric, scores - low + 1.0, batch), _value(metric, scores - high - 1.0, batch))
    return ends[0] != ends[1]


def best_bias(metric: Metric, scores: Tensor, batch: Batch) -> float:
    """What to add to the scores so that deciding at 0 gives the highest metric.

    Searches the midpoints between neighbouring scores: all of them up to 2 · GRID, else a grid of ranks and then
    every rank, or a second grid, around the best of the first.
    """
    ranked = scores.detach().double().flatten().unique()
    if ranked.numel() < 2:
        return 0.0
    between = (ranked[1:] + ranked[:-1]) / 2
    low, high = 0, between.numel() - 1
    while True:
        step = max(1, (high - low) // (2 * GRID))
        ranks = torch.arange(low, high + 1, step)
        values = [_value(metric, scores - float(between[rank]), batch) for rank in ranks]
        best = int(ranks[max(range(len(values)), key=values.__getitem__)])
        if step == 1:
            return -float(between[best])
        low, high = max(0, best - step), min(between.numel() - 1, best + step)


def _value(metric: Metric, scores: Tensor, batch: Batch) -> float:
    return float(metric.value(scores, batch.targets, weights=batch.weights, where=batch.where))
