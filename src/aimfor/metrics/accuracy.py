"""Accuracy: the share of right decisions, of two classes or of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..direct import ArgmaxForm, ClassForm
from ..engine import Batch, Engine
from ..smooth import ClassDecisions, SmoothEngine, SmoothForm
from .confusion import CountMetric, check_by_shape, class_counts
from .programs import Coefficients, RatioOfCounts


@dataclass(frozen=True)
class Accuracy(RatioOfCounts, CountMetric):
    """Weighted fraction of right decisions: at ``score > threshold``, or by the highest of ``(n, c)`` scores.

    With several classes the first of equal highest scores decides.

    Args:
        threshold: Scores above it are decided positive (binary scores only).

    Example:
        >>> import torch, aimfor
        >>> float(aimfor.Accuracy().value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0])))
        0.5
        >>> float(aimfor.Accuracy().value(torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]), torch.tensor([0, 1])))
        0.5
    """

    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        return check_by_shape(scores, targets, **rest)

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return (1.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0)

    def exact(self, batch: Batch) -> Tensor:
        if batch.scores.ndim == 1:
            return super().exact(batch)
        return _of_class_counts(*class_counts(batch))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        if batch.scores.ndim == 1:
            return super().smooth_form(batch)
        weights = batch.effective_weights()
        mass = None if weights is None else weights[None]
        return ClassDecisions(batch.scores, batch.scores[None], batch.targets[None], mass, _of_class_counts)

    def default_engine(self) -> Engine:
        """Cross-entropy, which is what the anchor is for accuracy: from scratch nothing did better."""
        return SmoothEngine(anchor=1.0)

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        if batch.scores.ndim == 1:
            return super().argmax_form(batch)
        weights = batch.effective_weights()
        mass = batch.scores.new_ones(batch.targets.shape) if weights is None else weights
        share = mass / mass.sum().clamp_min(torch.finfo(mass.dtype).tiny)
        return ClassForm(batch.scores, batch.targets, share, 1.0 - self.exact(batch))


def _of_class_counts(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    """Every example is decided once, for its own class (tp) or for another (fp)."""
    right, wrong = tp.sum(), fp.sum()
    return right / (right + wrong)
