"""Balanced accuracy: the mean recall of the classes, of two or of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..direct import ArgmaxForm, ClassForm
from ..engine import Batch, Engine
from ..smooth import ClassDecisions, SmoothEngine, SmoothForm
from .confusion import CountMetric, check_by_shape, class_counts


@dataclass(frozen=True)
class BalancedAccuracy(CountMetric):
    """Mean recall of the classes: at ``score > threshold``, or by the highest of ``(n, c)`` scores.

    A constant decision reaches 1/2, or 1/c, however frequent its class. Of two classes both must be there, or the
    value is NaN; of several, those that are not there are left out.

    Args:
        threshold: Scores above it are decided positive (binary scores only).

    Example:
        >>> import torch, aimfor
        >>> balanced = aimfor.metrics.BalancedAccuracy()
        >>> float(balanced.value(torch.tensor([2.0, 1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0])))
        0.75
        >>> float(balanced.value(torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]), torch.tensor([0, 1])))
        0.5
    """

    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        return check_by_shape(scores, targets, **rest)

    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        return (tp / (tp + fn) + tn / (tn + fp)) / 2

    def exact(self, batch: Batch) -> Tensor:
        return super().exact(batch) if batch.scores.ndim == 1 else _mean_recall(*class_counts(batch))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        if batch.scores.ndim == 1:
            return super().smooth_form(batch)
        weights = batch.effective_weights()
        mass = None if weights is None else weights[None]
        return ClassDecisions(batch.scores, batch.scores[None], batch.targets[None], mass, _mean_recall)

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        """Of several classes: the 0-1 loss in which an example's share is one part in (classes · its class's mass)."""
        if batch.scores.ndim == 1:
            return super().argmax_form(batch)
        weights = batch.effective_weights()
        mass = batch.scores.new_ones(batch.targets.shape) if weights is None else weights
        of_class = mass.new_zeros(batch.scores.shape[1]).index_add_(0, batch.targets, mass)
        share = mass / (of_class[batch.targets] * (of_class > 0).sum()).clamp_min(torch.finfo(mass.dtype).tiny)
        return ClassForm(batch.scores, batch.targets, share, 1.0 - self.exact(batch))

    def default_engine(self) -> Engine:
        return SmoothEngine()


def _mean_recall(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    return (tp / (tp + fn)).nanmean()
