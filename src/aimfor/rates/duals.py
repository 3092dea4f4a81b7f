"""Optimizers of the multipliers. Their state is keyed by the constraint's name, so that a resume cannot mix them up.

All arithmetic is in Python floats: a handful of numbers, the same on every process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..checks import number, one_of


class DualOptimizer(ABC):
    """Raises the multiplier of a violated constraint and lowers that of a slack one; never below zero."""

    def __init__(self, rate: float) -> None:
        self.rate = number("rate", rate, above=0)
        self.memory: dict[str, float] = {}

    @abstractmethod
    def increment(self, name: str, violation: float) -> float:
        """The unprojected change of the multiplier."""

    def step(self, name: str, multiplier: float, violation: float) -> float:
        return max(multiplier + self.increment(name, violation), 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "memory": dict(self.memory)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        one_of("kind of dual optimizer in the saved state", state["kind"], [type(self).__name__])
        self.memory = dict(state["memory"])


class Ascent(DualOptimizer):
    """Projected gradient ascent: ``λ ← max(0, λ + rate·violation)``.

    Example:
        >>> from aimfor.rates import Ascent
        >>> Ascent(rate=0.5).step("precision >= 0.9", multiplier=1.0, violation=0.5)
        1.25
    """

    def increment(self, name: str, violation: float) -> float:
        return self.rate * violation


class MomentumAscent(DualOptimizer):
    """Ascent along a running sum of violations: ``v ← momentum·v + violation``, ``λ ← max(0, λ + rate·v)``.

    Example:
        >>> from aimfor.rates import MomentumAscent
        >>> dual = MomentumAscent(rate=0.5)
        >>> dual.step("precision >= 0.9", 1.0, 0.5), dual.step("precision >= 0.9", 1.25, 0.0)
        (1.25, 1.375)
    """

    def __init__(self, rate: float, momentum: float = 0.5) -> None:
        super().__init__(rate)
        self.momentum = number("momentum", momentum, at_least=0, below=1)

    def increment(self, name: str, violation: float) -> float:
        self.memory[name] = self.momentum * self.memory.get(name, 0.0) + violation
        return self.rate * self.memory[name]


class NuPI(DualOptimizer):
    """The νPI controller: ascent (the integral) plus a step along the change of a smoothed violation.

    With ``ξₜ = ν ξₜ₋₁ + (1 − ν) eₜ`` and ``ξ₀ = e₀``: ``λ ← max(0, λ + rate·eₜ + proportional·(ξₜ − ξₜ₋₁))``. The
    proportional part damps the oscillation that plain ascent shows around an active constraint.

    Example:
        >>> from aimfor.rates import NuPI
        >>> dual = NuPI(rate=0.5, proportional=1.0)
        >>> dual.step("precision >= 0.9", 1.0, 0.5), dual.step("precision >= 0.9", 1.25, 0.0)
        (1.25, 0.75)

    References:
        Sohrabi, Ramirez, Zhang, Lacoste-Julien, Gallego-Posada, On PI controllers for updating Lagrange multipliers
        in constrained optimization, 2024.
    """

    def __init__(self, rate: float, proportional: float, nu: float = 0.0) -> None:
        super().__init__(rate)
        self.proportional = number("proportional", proportional, at_least=0)
        self.nu = number("nu", nu, above=-1, below=1)

    def increment(self, name: str, violation: float) -> float:
        before = self.memory.get(name, violation)
        self.memory[name] = self.nu * before + (1.0 - self.nu) * violation
        return self.rate * violation + self.proportional * (self.memory[name] - before)


def dual_optimizer(choice: str | DualOptimizer, rate: float) -> DualOptimizer:
    """``"plain"``, ``"momentum"``, ``"nupi"`` with a common scale, or an optimizer made by hand."""
    if isinstance(choice, DualOptimizer):
        return choice
    one_of("dual", choice, ("plain", "momentum", "nupi"))
    if choice == "plain":
        return Ascent(rate)
    return MomentumAscent(rate) if choice == "momentum" else NuPI(rate, 4.0 * rate)
