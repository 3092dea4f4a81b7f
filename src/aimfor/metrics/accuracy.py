"""Accuracy: the share of right decisions, of two classes or of many."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..engine import Batch, Engine
from ..smooth import SmoothEngine
from .by_class import DecidedByClass
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
