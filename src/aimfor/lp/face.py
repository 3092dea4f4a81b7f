"""The face of the feasible set that some rows hold tight: steps onto it, and multipliers of its rows.

With Ã the active inequalities and all equalities, both are the pseudo-inverse: ``Ã⁺ρ`` is the smallest step that
changes the rows by ρ, ``Ã⁺ᵀg`` are the multipliers whose combination of rows is g. One factorisation serves both, with
one unknown per variable or one per row, whichever are fewer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from .operators.base import RIDGE, Factor, Operator

Pair = tuple[Tensor, Tensor]


#: A smallest pivot below this means rows that are parallel, or as good as (a condition of a million).
PARALLEL = 1e-12


class Face(ABC):
    """Multipliers and residuals stand over ``(b, inequalities)``, zero where inactive, and ``(b, equalities)``."""

    factor: Factor

    def __init__(self, operator: Operator, active: Tensor, dtype: torch.dtype) -> None:
        self.operator, self.mask = operator, active.to(dtype)

    @abstractmethod
    def step(self, rows: Tensor, equal: Tensor) -> Tensor:
        """``Ã⁺ρ``, ``(b, v)``."""

    @abstractmethod
    def weigh(self, right: Tensor) -> Pair:
        """``Ã⁺ᵀg`` for g ``(b, v)``: one multiplier per inequality and per equality."""

    def multipliers(self, right: Tensor, rounds: int = 2) -> Pair:
        """`weigh` with refinement, which removes the effect of the ridge."""
        g, (z, y) = self.operator, self.weigh(right)
        for _ in range(rounds):
            more, more_equal = self.weigh(right - g.combined(z, y))
            z, y = z + more, y + more_equal
        return z, y


def face(operator: Operator, active: Tensor, dtype: torch.dtype, ridge: float = RIDGE) -> Face:
    """The face that ``active`` ``(b, inequalities)`` names."""
    return (RowFace if operator.wide else GramFace)(operator, active, dtype, ridge)


class GramFace(Face):
    """By ``ÃᵀÃ``, variables × variables."""

    def __init__(self, operator: Operator, active: Tensor, dtype: torch.dtype, ridge: float) -> None:
        super().__init__(operator, active, dtype)
        self.factor = operator.factor(self.mask, ridge)

    def step(self, rows: Tensor, equal: Tensor) -> Tensor:
        return self.factor.solve(self.operator.combined(rows, equal)[:, :, None])[:, :, 0]

    def weigh(self, right: Tensor) -> Pair:
        rows, equal = self.operator.at(self.factor.solve(right[:, :, None])[:, :, 0])
        return self.mask * rows, equal


class RowFace(Face):
    """By ``K P K'``, rows × rows: P drops the variables that a bound or a fixed value holds, K the inactive rows."""

    def __init__(self, operator: Operator, active: Tensor, dtype: torch.dtype, ridge: float) -> None:
        super().__init__(operator, active, dtype)
        b, m = active.shape[0], operator.general
        self.keep = torch.cat((self.mask[:, :m], self.mask.new_ones(b, operator.equal)), 1)
        self.tight = self.mask[:, m:] * operator.bounds.coefficients
        self.held = operator.bound_diagonal(self.mask) + operator.pin_diagonal()
        self.open = (self.held == 0).to(dtype)
        self.share = 1.0 / (self.held + self.open)
        self.factor = operator.row_factor(self.open, 1.0 - self.keep, self.keep, ridge)

    def _solve(self, rows: Tensor) -> Tensor:
        return self.keep * self.factor.solve((self.keep * rows)[:, :, None])[:, :, 0]

    def step(self, rows: Tensor, equal: Tensor) -> Tensor:
        g, m = self.operator, self.operator.general
        moved = g.bounds.add_transposed(torch.zeros_like(self.open)[:, :, None], rows[:, m:, None])
        moved = g.pinned.add_transposed(moved, equal[:, g.equal :, None])[:, :, 0] * self.share
        over = torch.cat((rows[:, :m], equal[:, : g.equal]), 1) - g.stacked(moved[:, :, None])[:, :, 0]
        return moved + self.open * g.stacked_t(self._solve(over)[:, :, None])[:, :, 0]

    def weigh(self, right: Tensor) -> Pair:
        g, m = self.operator, self.operator.general
        rows = self._solve(g.stacked((self.open * right)[:, :, None])[:, :, 0])
        rest = (right - g.stacked_t(rows[:, :, None])[:, :, 0]) * self.share
        pinned = g.pinned.coefficients * rest[:, g.pinned.columns]
        bounds = self.tight * rest[:, g.bounds.columns]
        return torch.cat((rows[:, :m], bounds), 1), torch.cat((rows[:, m:], pinned), 1)
