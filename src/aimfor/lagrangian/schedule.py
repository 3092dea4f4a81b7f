"""Step sizes: a number, or a function of the epoch (1, 2, …) such as these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import checks
from ..errors import InputError

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    """The same step always.

    Example:
        >>> [Constant(0.1)(epoch) for epoch in (1, 100)]
        [0.1, 0.1]
    """

    step: float

    def __call__(self, epoch: int) -> float:
        return self.step


@dataclass(frozen=True)
class PowerDecay:
    """``c / epoch**power``; power 1 is the papers' dual step c/e.

    Example:
        >>> PowerDecay(0.5)(4)
        0.125
    """

    c: float
    power: float = 1.0

    def __post_init__(self) -> None:
        checks.number("c", self.c, above=0)
        checks.number("power", self.power, at_least=0)

    def __call__(self, epoch: int) -> float:
        return float(self.c / epoch**self.power)


@dataclass(frozen=True)
class LinearDecay:
    """From ``step`` at the first epoch down to ``step / epochs`` at the last: for the last digits of an optimum.

    Example:
        >>> LinearDecay(0.2, 4)(3)
        0.1
    """

    step: float
    epochs: int

    def __post_init__(self) -> None:
        checks.number("step", self.step, above=0)
        checks.integer("epochs", self.epochs, at_least=1)

    def __call__(self, epoch: int) -> float:
        return self.step * max(1, self.epochs - epoch + 1) / self.epochs


def schedule(name: str, value: Any) -> Schedule:
    """A step size as a function of the epoch."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Constant(checks.number(name, value, above=0))
    if not callable(value):
        raise InputError(name, f"a {type(value).__name__}", "a number > 0, or a function of the epoch (1, 2, …)")
    checks.number(f"{name}(1)", value(1), above=0)
    return value  # type: ignore[no-any-return]
