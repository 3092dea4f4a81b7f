"""Accuracy, the share of right decisions, and balanced accuracy, the mean recall of the classes; of two or of many."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch, Engine
from ..smooth import QUICK, MeanOfRatios, Ratio, SmoothEngine
from .confusion import DecidedByClass, binary_counts
from .programs import Coefficients, RatioOfCounts


@dataclass(frozen=True)
class Accuracy(RatioOfCounts, DecidedByClass):
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

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return (1.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0)

    @staticmethod
    def of_class_counts(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """Every example is decided once, for its own class (tp) or for another (fp)."""
        right, wrong = tp.sum(), fp.sum()
        return right / (right + wrong)

    def rivals(self, mass: Tensor, batch: Batch) -> Tensor:
        return mass.sum()

    def default_engine(self) -> Engine:
        """Cross-entropy, which is what the anchor is for accuracy: from scratch nothing did better."""
        return SmoothEngine(anchor=1.0)


#: Of the positives and of the negatives.
_RECALLS = MeanOfRatios((Ratio((1, 0, 0, 0), (1, 0, 1, 0)), Ratio((0, 0, 0, 1), (0, 1, 0, 1))))


@dataclass(frozen=True)
class BalancedAccuracy(DecidedByClass):
    """Mean recall of the classes: at ``score > threshold``, or by the highest of ``(n, c)`` scores.

    A constant decision reaches 1/2, or 1/c, however frequent its class. Classes that are not there are left out.
    As a loss of two classes it is undefined where one is missing, so that a batch does not push towards the other.

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

    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        return (tp / (tp + fn) + tn / (tn + fp)) / 2

    def exact(self, batch: Batch) -> Tensor:
        if batch.scores.ndim != 1:
            return super().exact(batch)
        tp, fp, fn, tn = binary_counts(batch, self.threshold)
        return torch.stack((tp / (tp + fn), tn / (tn + fp))).nanmean()

    def as_ratio(self) -> MeanOfRatios:
        return _RECALLS

    @staticmethod
    def of_class_counts(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        return (tp / (tp + fn)).nanmean()

    def default_engine(self) -> Engine:
        # Between `QUICK`, which is best for two classes, and 1, which is best for several.
        return SmoothEngine(2 * QUICK, anchor=0.5, anchor_temperature=2 * QUICK, bank=2048)

    def rivals(self, mass: Tensor, batch: Batch) -> Tensor:
        """The mass of an example's own class, times the classes that are there."""
        of_class = mass.new_zeros(batch.scores.shape[1]).index_add_(0, batch.targets, mass)
        return of_class[batch.targets] * (of_class > 0).sum()
