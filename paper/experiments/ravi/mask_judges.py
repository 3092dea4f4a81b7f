"""How masks are judged: counts of all labelled pixels summed first, then IoU; and the decision rule tuned for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from aimfor import Confusion, IoU
from aimfor.metrics import CountMetric
from aimfor.refit.choose import best_shift

from ...data.mask_data import IGNORED

#: A value, and what to add to the scores of each class before deciding.
Judged = tuple[float, list[float]]


@dataclass(frozen=True)
class Judge:
    """From scores ``(n, c, h, w)`` and masks to the metric, as they are or at the best rule for these masks."""

    value: Callable[[Tensor, Tensor], float]
    tune: Callable[[Tensor, Tensor], Judged]


def decided(scores: Tensor) -> Tensor:
    """Class ids ``(n, h, w)``: 1 where a single score is above 0, else the class of the highest score."""
    return (scores[:, 0] > 0).to(torch.uint8) if scores.shape[1] == 1 else scores.argmax(1).to(torch.uint8)


# ---------------------------------------------------------------- one score per pixel


def _mean_of_both(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    return (tp / (tp + fp + fn) + tn / (tn + fp + fn)) / 2


def binary(metric: CountMetric) -> Judge:
    """For one score per pixel, decided at 0; the rule is one shift, the best of all."""

    def flat(scores: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        inside = masks != IGNORED
        return scores.squeeze(1)[inside], masks[inside].long()

    def tune(scores: Tensor, masks: Tensor) -> Judged:
        pixels, truth = flat(scores, masks)
        shift = best_shift(metric, metric.check(pixels, truth))
        return float(metric.value(pixels + shift, truth)), [shift]

    return Judge(lambda scores, masks: float(metric.value(*flat(scores, masks))), tune)


SKY_JUDGES = {"mean_iou": binary(Confusion(_mean_of_both, name="mean IoU")), "sky_iou": binary(IoU())}


# ---------------------------------------------------------------- one score per class


def _mean_iou(scores: Tensor, masks: Tensor) -> float:
    inside = masks != IGNORED
    return float(IoU(classes="mean").value(scores, torch.where(inside, masks, 0).long(), where=inside))


def iou_of_table(table: Tensor) -> Tensor:
    """Mean IoU of confusion matrices ``(…, truth, decision)``; a class that is nowhere is left out of the mean."""
    table = table.double()
    hits = table.diagonal(dim1=-2, dim2=-1)
    return (hits / (table.sum(-1) + table.sum(-2) - hits)).nanmean(-1)


def best_offsets(scores: Tensor, truth: Tensor, sweeps: int = 2, steps: int = 80) -> list[float]:
    """What to add to each class's score so that the highest decides with a high mean IoU; by coordinate ascent.

    Raising one class moves pixels to it in the order of what they lack. So the confusion matrix at every step of a
    grid is a cumulated count, and one pass over the pixels tries them all. The grid holds 0: no step makes it worse.

    Args:
        scores: ``(n, c)`` of labelled pixels.
        truth: ``(n,)`` class ids.
        sweeps: Over the classes.
        steps: Of the grid, on either side of 0, to two standard deviations of what pixels lack.
    """
    classes = scores.shape[1]
    offsets = scores.new_zeros(classes)
    for _ in range(sweeps):
        for raised in range(classes):
            shifted = scores + offsets
            others = shifted.clone()
            others[:, raised] = -torch.inf
            top, other = others.max(1)
            lacking = top - shifted[:, raised]
            grid = torch.arange(-steps, steps + 1) * (2.0 * lacking.std() / steps)
            cell = torch.bucketize(lacking, grid) * classes + truth
            counts = torch.bincount(cell * classes + other, minlength=(len(grid) + 1) * classes**2)
            counts = counts.reshape(-1, classes, classes)
            moved = counts.cumsum(0)[:-1]
            table = counts.sum(0) - moved
            table[:, :, raised] += moved.sum(2)
            values = iou_of_table(table)
            best = int(values.argmax())
            if values[best] > values[steps]:
                offsets[raised] += grid[best]
    return [float(offset) for offset in offsets]


def _tune_classes(scores: Tensor, masks: Tensor) -> Judged:
    inside = masks != IGNORED
    flat, truth = scores.movedim(1, -1)[inside], masks[inside].long()
    offsets = best_offsets(flat[::THIN], truth[::THIN])
    return _mean_iou(scores + torch.tensor(offsets)[:, None, None], masks), offsets


def _as_they_are(scores: Tensor, masks: Tensor) -> Judged:
    return _mean_iou(scores, masks), [0.0] * scores.shape[1]


#: Offsets are tuned on every third labelled pixel; neighbours say the same.
THIN = 3
PLAIN = Judge(_mean_iou, _as_they_are)
TUNED = Judge(_mean_iou, _tune_classes)
