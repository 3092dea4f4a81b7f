"""F_β: the weighted harmonic mean of precision and recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import checks
from ..engine import Batch
from ..lagrangian import ConstraintForm, HasConstraints, two_group_form
from .confusion import CountMetric
from .programs import Coefficients, RatioOfCounts


@dataclass(frozen=True)
class FBeta(RatioOfCounts, CountMetric, HasConstraints):
    """F_β: ``(1 + β²) tp / ((1 + β²) tp + β² fn + fp)``, the weighted harmonic mean of precision and recall.

    Undefined (NaN) when there is no positive and none is decided.

    Args:
        beta: > 0; recall counts β times as much as precision.
        threshold: Scores above it are decided positive.

    Example:
        >>> import torch, aimfor
        >>> float(aimfor.FBeta(1.0).value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0])))
        0.5

    References:
        van Rijsbergen, Information Retrieval, 1979.
    """

    beta: float
    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0
    group_count: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("beta", self.beta, above=0)

    def lines(self) -> tuple[Coefficients, Coefficients]:
        square = float(self.beta) ** 2
        return (1 + square, 0.0, 0.0, 0.0), (1 + square, 1.0, square, 0.0)

    def constraint_form(self, batch: Batch) -> ConstraintForm:
        return two_group_form(batch, self.threshold, float(self.beta))
