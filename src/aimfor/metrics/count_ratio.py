"""CountRatio: any ratio of linear functions of the counts, which is what the linear-programming engine can bound."""

from __future__ import annotations

from dataclasses import dataclass

from .. import checks
from ..errors import InputError
from .confusion import CountMetric
from .programs import Coefficients, RatioOfCounts


@dataclass(frozen=True)
class CountRatio(RatioOfCounts, CountMetric):
    """Any ratio of linear functions of the counts: precision, specificity, Tversky's index, balanced costs, …

    Args:
        numerator: Coefficients of (tp, fp, fn, tn).
        denominator: The same, below the line.
        name: How the metric prints.
        threshold: Scores above it are decided positive.

    Example:
        >>> import torch, aimfor
        >>> tversky = aimfor.CountRatio((1, 0, 0, 0), (1, 0.3, 0.7, 0), name="tversky")
        >>> round(float(tversky.value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0]))), 6)
        0.5
    """

    numerator: Coefficients
    denominator: Coefficients
    name: str = "ratio"
    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in ("numerator", "denominator"):
            given = getattr(self, part)
            if not isinstance(given, (tuple, list)) or len(given) != 4:
                raise InputError(part, repr(given), "four numbers, for (tp, fp, fn, tn)")
            object.__setattr__(self, part, tuple(checks.number(part, float(k)) for k in given))

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return self.numerator, self.denominator
