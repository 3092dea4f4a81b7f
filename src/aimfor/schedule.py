"""Schedules: a number that changes with the training steps."""

from __future__ import annotations

from dataclasses import dataclass

from . import checks

__all__ = ["Decay"]


@dataclass(frozen=True)
class Decay:
    """From ``start`` to ``end`` in ``steps`` training steps, by equal factors, then constant.

    Example:
        >>> from aimfor.schedule import Decay
        >>> [round(Decay(1.0, 0.01, 100)(step), 3) for step in (0, 50, 100, 1000)]
        [1.0, 0.1, 0.01, 0.01]
    """

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        checks.number("start", self.start, above=0)
        checks.number("end", self.end, above=0)
        checks.integer("steps", self.steps, at_least=1)

    def __call__(self, step: int) -> float:
        return float(self.start * (self.end / self.start) ** min(1.0, step / self.steps))
