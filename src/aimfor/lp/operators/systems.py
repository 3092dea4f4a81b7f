"""The linear systems of the solvers, with one unknown per variable or one per row, whichever are fewer.

`kkt` is the system of an interior step. Its unknowns stand in one tensor ``(…, b, n)``: the duals of bounds, of rows
(inequalities, then equalities) and of fixed variables, then x. So the cone is one slice, the rows are one slice, and a
small program costs few operations.

`face` is what some rows hold tight. With Ã the active inequalities and all equalities it gives the pseudo-inverse:
``Ã⁺ρ`` is the smallest step that changes the rows by ρ, ``Ã⁺ᵀg`` are the multipliers whose combination of rows is g.

`WoodburyFactor` is the Hessian of the exterior penalty where rows are fewer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from .base import RIDGE, Factor, Operator
from .dense import CholeskyFactor, times

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

    def multipliers(self, right: Tensor) -> Pair:
        """`weigh` with refinement, which removes the effect of the ridge."""
        g, (z, y) = self.operator, self.weigh(right)
        for _ in range(2):
            more, more_equal = self.weigh(right - g.combined(z, y))
            z, y = z + more, y + more_equal
        return z, y


def face(operator: Operator, active: Tensor, dtype: torch.dtype) -> Face:
    """The face that ``active`` ``(b, inequalities)`` names."""
    return (RowFace if operator.wide else GramFace)(operator, active, dtype)


class GramFace(Face):
    """By ``ÃᵀÃ``, variables × variables."""

    def __init__(self, operator: Operator, active: Tensor, dtype: torch.dtype) -> None:
        super().__init__(operator, active, dtype)
        self.factor = operator.factor(self.mask, RIDGE)

    def step(self, rows: Tensor, equal: Tensor) -> Tensor:
        return self.factor.solve(self.operator.combined(rows, equal))

    def weigh(self, right: Tensor) -> Pair:
        rows, equal = self.operator.at(self.factor.solve(right))
        return self.mask * rows, equal


class RowFace(Face):
    """By ``K P K'``, rows × rows: P drops the variables that a bound or a fixed value holds, K the inactive rows."""

    def __init__(self, operator: Operator, active: Tensor, dtype: torch.dtype) -> None:
        super().__init__(operator, active, dtype)
        b, m = active.shape[0], operator.general
        self.keep = torch.cat((self.mask[:, :m], self.mask.new_ones(b, operator.equal)), 1)
        self.tight = self.mask[:, m:] * operator.bounds.coefficients
        self.held = operator.bound_diagonal(self.mask) + operator.pin_diagonal()
        self.open = (self.held == 0).to(dtype)
        self.share = 1.0 / (self.held + self.open)
        self.factor = operator.row_factor(self.open, 1.0 - self.keep, self.keep)

    def _solve(self, rows: Tensor) -> Tensor:
        return self.keep * self.factor.solve(self.keep * rows)

    def step(self, rows: Tensor, equal: Tensor) -> Tensor:
        g, m = self.operator, self.operator.general
        moved = g.bounds.add_transposed(torch.zeros_like(self.open), rows[:, m:])
        moved = g.pinned.add_transposed(moved, equal[:, g.equal :]) * self.share
        over = torch.cat((rows[:, :m], equal[:, : g.equal]), 1) - g.stacked(moved)
        return moved + self.open * g.stacked_t(self._solve(over))

    def weigh(self, right: Tensor) -> Pair:
        g, m = self.operator, self.operator.general
        rows = self._solve(g.stacked(self.open * right))
        rest = (right - g.stacked_t(rows)) * self.share
        pinned = g.pinned.coefficients * rest[:, g.pinned.columns]
        bounds = self.tight * rest[:, g.bounds.columns]
        return torch.cat((rows[:, :m], bounds), 1), torch.cat((rows[:, m:], pinned), 1)


def split(g: Operator, u: Tensor) -> tuple[Tensor, ...]:
    """Bounds, rows, fixed variables and x."""
    sizes = [g.bounds.columns.numel(), g.general + g.equal, g.pinned.columns.numel(), g.variables]
    return u.split_with_sizes(sizes, -1)


def product(g: Operator, u: Tensor) -> Tensor:
    """``[Gx, Ex, G'z + E'y]``, in the order of the unknowns."""
    bounds, rows, pins, x = split(g, u)
    parts = [g.bounds.rows(x), g.stacked(x), g.bounds.add_transposed(g.stacked_t(rows), bounds)]
    if g.pinned.columns.numel():
        parts[2:] = [g.pinned.rows(x), g.pinned.add_transposed(parts[2], pins)]
    return torch.cat(parts, -1)


class Kkt(ABC):
    """Solves ``Gx − z/weights = r, Ex = q, G'z + E'y = p``; ``weights`` ``(b, bounds + inequalities)``.

    Attributes:
        exact: How many of the first unknowns solve their own equation to rounding.
    """

    exact: int

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        self.operator, self.weights = operator, weights
        self.bound_weights = self.weights[:, : operator.bounds.columns.numel()]

    @abstractmethod
    def once(self, right: Tensor) -> Tensor:
        """The unknowns for right-hand sides ``[r, q, p]`` in their order."""

    def solve(self, right: Tensor, *, refine: bool) -> Tensor:
        """One step of refinement is needed near the end of the path, where the regularised factor loses digits."""
        u = self.once(right)
        if refine:
            rest, cone = right - product(self.operator, u), self.weights.shape[1]
            rest[..., :cone].add_(u[..., :cone] / self.weights)
            rest[..., : self.exact].zero_()
            u = u + self.once(rest)
        return u


def kkt(operator: Operator, weights: Tensor) -> Kkt:
    """The system of the kind that suits the operator."""
    return RowKkt(operator, weights) if operator.wide else GramKkt(operator, weights)


class GramKkt(Kkt):
    """Variables × variables: one Gram factorisation, and a Schur complement for the equalities.

    ``E'E`` joins the Gram matrix (which changes nothing in the solution), so that variables which only equalities
    hold do not make it singular.
    """

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        super().__init__(operator, weights)
        g, bounds = operator, self.bound_weights.shape[1]
        self.exact = weights.shape[1]
        held = g.bounds.diagonal(self.bound_weights, g.variables)
        if g.pinned.columns.numel():
            held = held + g.pin_diagonal()
        self.row_weights = weights[:, bounds:]
        self.factor = g.gram_factor(self.row_weights, held, RIDGE)
        if g.equalities:
            unit = torch.eye(g.equalities, dtype=weights.dtype, device=weights.device)[:, None]
            columns = g.equality_t(unit.expand(-1, weights.shape[0], -1))
            self.schur = CholeskyFactor(g.equality(self.factor.solve(columns)).permute(1, 2, 0))

    def once(self, right: Tensor) -> Tensor:
        g = self.operator
        bounds, rows, pins, p = split(g, right)
        general, w, wb = rows[..., : g.general], self.row_weights, self.bound_weights
        p = g.bounds.add_transposed(p + g.general_rows_t(w * general), wb * bounds)
        y = rows[..., g.general :]
        if g.equalities:
            q = torch.cat((y, pins), -1)
            p = p + g.equality_t(q)
            y = self.schur.solve(g.equality(self.factor.solve(p)) - q)
            p = p - g.equality_t(y)
        x = self.factor.solve(p)
        return torch.cat((wb * (g.bounds.rows(x) - bounds), w * (g.general_rows(x) - general), y, x), -1)


class RowKkt(Kkt):
    """Rows × rows: a bounded variable is divided out, which leaves ``S = diag(1/w, 0) + K Θ K'`` over the rows K.

    Θ is one over the bounds' weight. A fixed variable has Θ = 0 and takes its value. A variable that nothing holds
    (`Operator.loose`) has no such quotient: its row ``K_F'λ = p_F`` joins S with weight one (which changes nothing in
    the solution), and a Schur complement finds x_F.
    """

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        super().__init__(operator, weights)
        g, self.exact = operator, self.bound_weights.shape[1]
        held = g.bounds.diagonal(self.bound_weights, g.variables)
        theta = held.reciprocal()
        if g.pinned.columns.numel():
            pins = g.pin_diagonal() > 0
            theta = torch.where(pins, 0.0, theta)
        if g.loose.numel():
            free = held == 0 if not g.pinned.columns.numel() else (held == 0) & ~pins
            theta = torch.where(free, 1.0, theta)
        spread = weights[:, self.exact :].reciprocal()
        if g.equal:
            spread = torch.cat((spread, weights.new_zeros(weights.shape[0], g.equal)), 1)
        self.theta, self.factor = theta, g.row_factor(theta, spread)
        self.free: Tensor | None = None
        if g.loose.numel():
            self.free = free[:, g.loose]
            unit = torch.eye(g.variables, dtype=weights.dtype, device=weights.device)[g.loose, None]
            columns = g.stacked(unit.expand(-1, weights.shape[0], -1)) * self.free.mT[:, :, None]
            self.columns, self.reached = columns.transpose(0, 1), self.factor.solve(columns).permute(1, 2, 0)
            corner = self.columns @ self.reached
            corner.diagonal(dim1=-2, dim2=-1).add_(1.0 - self.free.to(corner.dtype))
            self.corner = CholeskyFactor(corner)

    def once(self, right: Tensor) -> Tensor:
        g, theta = self.operator, self.theta
        bounds, sides, pins, p = split(g, right)
        weighted = self.bound_weights * bounds
        p = g.bounds.add_transposed(p, weighted)
        fixed_x = theta * p
        if g.pinned.columns.numel():
            size = g.pinned.coefficients
            values = torch.where(size > 0, pins / size, 0.0)
            fixed_x = fixed_x.index_add(-1, g.pinned.columns, values)
        rows = self.factor.solve(g.stacked(fixed_x) - sides)
        if self.free is not None:
            over = torch.where(self.free, p[..., g.loose] - times(self.columns, rows), 0.0)
            loose = self.corner.solve(over)
            rows = rows + times(self.reached, loose)
        reached = g.stacked_t(rows)
        x = torch.addcmul(fixed_x, theta, reached, value=-1.0)
        if self.free is not None:
            x[..., g.loose] = torch.where(self.free, loose, x[..., g.loose])
        parts = [self.bound_weights * g.bounds.rows(x) - weighted, rows, x]
        if g.pinned.columns.numel():
            rest = (p - reached)[..., g.pinned.columns]
            parts.insert(2, torch.where(size > 0, rest / size, 0.0))
        return torch.cat(parts, -1)


class WoodburyFactor(Factor):
    """``(K'WK + B + ρI)⁻¹ = Θ − Θ K'√W (I + √W K Θ K'√W)⁻¹ √W K Θ`` with ``Θ = (B + ρI)⁻¹``.

    W are 0/1 weights. A variable that no bound holds has Θ = 1/ρ, which costs as many digits as ρ has.
    """

    def __init__(self, operator: Operator, active: Tensor, ridge: float) -> None:
        self.operator = operator
        held = operator.bound_diagonal(active) + operator.pin_diagonal()
        self.theta = 1.0 / (held + ridge)
        self.keep = torch.cat((active[:, : operator.general], active.new_ones(active.shape[0], operator.equal)), 1)
        self.inner = operator.row_factor(self.theta, torch.ones_like(self.keep), self.keep)

    def pivot(self) -> Tensor:
        return self.inner.pivot()

    def solve(self, right: Tensor) -> Tensor:
        rows = self.keep * self.inner.solve(self.keep * self.operator.stacked(self.theta * right))
        return self.theta * (right - self.operator.stacked_t(rows))
