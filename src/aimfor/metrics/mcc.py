"""MCC: the correlation of decisions with truth, of two classes or of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from ..smooth import Correlation
from .confusion import DecidedByClass, binary_counts, class_counts


@dataclass(frozen=True)
class MCC(DecidedByClass):
    """Matthews' correlation coefficient: at ``score > threshold``, or by the highest of ``(n, c)`` scores.

    ``(tp·tn − fp·fn) / √((tp + fp)(tp + fn)(tn + fp)(tn + fn))``, and for several classes Gorodkin's R_K. From −1 to 1;
    0 is chance, and 0 is the value where all decisions, or all targets, are of one class, as in scikit-learn. As a loss
    it is undefined where all targets are of one class.

    Args:
        threshold: Scores above it are decided positive (binary scores only).

    Example:
        >>> import torch, aimfor
        >>> float(aimfor.metrics.MCC().value(torch.tensor([2.0, 1.0, -0.5, -3.0]), torch.tensor([1, 0, 1, 0])))
        0.0
        >>> float(aimfor.metrics.MCC().value(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])))
        1.0

    References:
        Matthews, Comparison of the predicted and observed secondary structure of T4 phage lysozyme, 1975. Gorodkin,
        Comparing two K-category assignments by a K-category correlation coefficient, 2004.
    """

    threshold: float = 0.0

    lowest: ClassVar[float] = -1.0
    curved: ClassVar[bool] = False
    span: ClassVar[float | None] = 2.0

    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        return _correlation(tp * tn - fp * fn, (tp + fp) * (tn + fn), (tp + fn) * (tn + fp))

    @staticmethod
    def of_class_counts(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """R_K from the counts of each class against the rest, ``(c,)``."""
        decided, there = tp + fp, tp + fn
        size = there.sum(-1)
        return _correlation(
            (size * tp.sum(-1) - (decided * there).sum(-1)).sum(),
            (size.square() - decided.square().sum(-1)).sum(),
            (size.square() - there.square().sum(-1)).sum(),
        )

    def as_ratio(self) -> Correlation:
        return Correlation()

    def exact(self, batch: Batch) -> Tensor:
        several = batch.scores.ndim == 2
        counts = class_counts(batch) if several else binary_counts(batch, self.threshold)
        value = self.of_class_counts(*counts) if several else self.of_counts(*counts)
        return torch.where(torch.stack(counts).sum() > 0, value.nan_to_num(0.0), torch.nan)

    def rivals(self, mass: Tensor, batch: Batch) -> Tensor:
        came = f"{batch.scores.shape[1]} classes"
        raise InputError("scores", came, "one score per example", "Leave the engine out for classes.")


def _correlation(covariance: Tensor, of_decisions: Tensor, of_truth: Tensor) -> Tensor:
    """Covariance over the root of both variances: 0 where nothing varies in the decisions, NaN where not in truth."""
    varies = (of_decisions > 0) & (of_truth > 0)
    root = torch.where(varies, of_decisions * of_truth, 1.0).sqrt()
    return torch.where(of_truth > 0, torch.where(varies, covariance / root, 0.0), torch.nan)
