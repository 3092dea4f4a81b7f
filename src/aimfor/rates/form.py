"""RateForm: a metric at one or several operating points, each a best rate under a bound on another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Anchor:
    """One operating point: maximise ``gain·tpr − price·fpr`` subject to ``a·tpr − b·fpr + c >= 0``.

    Attributes:
        gain: Weight of the true positive rate in the objective.
        price: Weight of the false positive rate in the objective.
        a: Coefficient of tpr in the constraint.
        b: Coefficient of fpr in the constraint.
        c: Constant of the constraint.
        odds: Whether ``b`` is in units of negatives per positive (bounds on precision are).
    """

    gain: float
    price: float
    a: float
    b: float
    c: float
    odds: bool = False


def recall_at_precision(floor: float) -> Anchor:
    """``TP >= floor·(TP + FP)``, divided by the positives: ``(1 − floor)·tpr − floor·(N/P)·fpr >= 0``."""
    return Anchor(1.0, 0.0, 1.0 - floor, floor, 0.0, odds=True)


def precision_at_recall(floor: float) -> Anchor:
    """With recall held at its floor, the best precision is the smallest false positive rate."""
    return Anchor(0.0, 1.0, 1.0, 0.0, -floor)


def tpr_at_fpr(ceiling: float) -> Anchor:
    return Anchor(1.0, 0.0, 0.0, 1.0, ceiling)


@dataclass(frozen=True)
class RateForm:
    """Anchors that share the scores of one batch; the loss is the mean over them.

    Attributes:
        scores: ``(n,)``, attached to the graph.
        positive: ``(n,)`` bool.
        weights: ``(n,)`` or None.
        anchors: One threshold and one multiplier each.
        joined: The scores of all processes are in it already.
    """

    scores: Tensor
    positive: Tensor
    weights: Tensor | None
    anchors: tuple[Anchor, ...]
    joined: bool = False


class HasRates(ABC):
    """Capability: the metric is a best rate under a bound, or a mean of such."""

    @abstractmethod
    def anchors(self) -> tuple[Anchor, ...]:
        """The operating points whose mean the metric is."""


def grid(points: int, upper: float = 1.0) -> list[float]:
    """Midpoints of equal parts of [0, upper]: the integral over it becomes a mean over them (Nyström)."""
    return [(k + 0.5) / points * upper for k in range(points)]
