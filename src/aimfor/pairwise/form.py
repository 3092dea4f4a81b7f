"""PairForm: a metric as weighted means over positive-negative pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from ..engine import Batch


@dataclass(frozen=True)
class PairProblem:
    """One binary ranking problem: every positive should score above every negative.

    Attributes:
        scores: ``(m,)``, attached to the graph.
        positive: ``(m,)`` bool.
        weights: ``(m,)`` or None; a pair weighs the product of its two weights.
        fresh: ``(m,)`` bool or None; pairs without a fresh member (both from the score bank) do not count.
        top: Fraction of the negatives' weight that counts, taken from the highest scores down (1 = all).
        scale: Factor on the mean, so that the sum of all problems is on the scale of 1 − metric.
    """

    scores: Tensor
    positive: Tensor
    weights: Tensor | None = None
    fresh: Tensor | None = None
    top: float = 1.0
    scale: float = 1.0


@dataclass(frozen=True)
class PairForm:
    """Sum of `PairProblem` terms; ``scores`` is the tensor the user passed, for degenerate batches."""

    scores: Tensor
    problems: tuple[PairProblem, ...]


class HasPairs(ABC):
    """Capability: the metric is a mean over ordered pairs."""

    @abstractmethod
    def pair_form(self, batch: Batch, fresh: Tensor | None = None) -> PairForm:
        """The batch as pair problems. ``fresh`` marks the rows that are not from the score bank."""
