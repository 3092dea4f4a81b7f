"""What metrics of two classes or of several share, where the highest score decides among several."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..direct import ArgmaxForm, ClassForm
from ..engine import Batch
from ..smooth import ClassDecisions, SmoothForm
from .confusion import CountMetric, check_by_shape, class_counts


class DecidedByClass(CountMetric):
    """A metric of counts, whose value for ``(n, c)`` scores is a mean of right decisions over shares of examples."""

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    @staticmethod
    @abstractmethod
    def of_class_counts(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """The metric of the counts of each class against the rest, ``(c,)``."""

    @abstractmethod
    def rivals(self, mass: Tensor, batch: Batch) -> Tensor:
        """What an example's mass is divided by to be its share of the metric."""

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        return check_by_shape(scores, targets, **rest)

    def exact(self, batch: Batch) -> Tensor:
        return super().exact(batch) if batch.scores.ndim == 1 else self.of_class_counts(*class_counts(batch))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        if batch.scores.ndim == 1:
            return super().smooth_form(batch)
        weights = batch.effective_weights()
        mass = None if weights is None else weights[None]
        return ClassDecisions(batch.scores, batch.scores[None], batch.targets[None], mass, self.of_class_counts)

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        """Of several classes: the 0-1 loss with each example's share."""
        if batch.scores.ndim == 1:
            return super().argmax_form(batch)
        weights = batch.effective_weights()
        mass = batch.scores.new_ones(batch.targets.shape) if weights is None else weights
        share = mass / self.rivals(mass, batch).clamp_min(torch.finfo(mass.dtype).tiny)
        return ClassForm(batch.scores, batch.targets, share, 1.0 - self.exact(batch))
