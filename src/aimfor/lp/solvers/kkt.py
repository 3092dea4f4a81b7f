"""The linear system of an interior step, solved with one unknown per variable or one per row, whichever are fewer.

The unknowns stand in one tensor ``(b, n, k)``: the duals of bounds, of rows (inequalities, then equalities) and of
fixed variables, then x. So the cone is one slice, the rows are one slice, and a small program costs few operations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ..operators.base import RIDGE, Operator
from ..operators.dense import CholeskyFactor


def split(g: Operator, u: Tensor) -> tuple[Tensor, ...]:
    """Bounds, rows, fixed variables and x."""
    sizes = [g.bounds.columns.numel(), g.general + g.equal, g.pinned.columns.numel(), g.variables]
    return u.split_with_sizes(sizes, 1)


def product(g: Operator, u: Tensor) -> Tensor:
    """``[Gx, Ex, G'z + E'y]``, in the order of the unknowns."""
    bounds, rows, pins, x = split(g, u)
    parts = [g.bounds.rows(x), g.stacked(x), g.bounds.add_transposed(g.stacked_t(rows), bounds)]
    if g.pinned.columns.numel():
        parts[2:] = [g.pinned.rows(x), g.pinned.add_transposed(parts[2], pins)]
    return torch.cat(parts, 1)


class Kkt(ABC):
    """Solves ``Gx − z/weights = r, Ex = q, G'z + E'y = p``; ``weights`` ``(b, bounds + inequalities)``.

    Attributes:
        exact: How many of the first unknowns solve their own equation to rounding.
    """

    exact: int

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        self.operator, self.weights = operator, weights[:, :, None]
        self.bound_weights = self.weights[:, : operator.bounds.columns.numel()]

    @abstractmethod
    def once(self, right: Tensor) -> Tensor:
        """The unknowns for right-hand sides ``[r, q, p]`` in their order."""

    def solve(self, right: Tensor, *, refine: bool) -> Tensor:
        """One step of refinement is needed near the end of the path, where the regularised factor loses digits."""
        u = self.once(right)
        if refine:
            rest, cone = right - product(self.operator, u), self.weights.shape[1]
            rest[:, :cone] += u[:, :cone] / self.weights
            rest[:, : self.exact] = 0.0
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
        held = g.bounds.diagonal(weights[:, :bounds], g.variables)
        if g.pinned.columns.numel():
            held = held + g.pin_diagonal()
        self.row_weights = self.weights[:, bounds:]
        self.factor = g.gram_factor(weights[:, bounds:], held, RIDGE)
        if g.equalities:
            identity = torch.eye(g.equalities, dtype=weights.dtype, device=weights.device)
            columns = g.equality_t(identity.expand(weights.shape[0], -1, -1))
            self.schur = CholeskyFactor(g.equality(self.factor.solve(columns)))

    def once(self, right: Tensor) -> Tensor:
        g = self.operator
        bounds, rows, pins, p = split(g, right)
        general, w, wb = rows[:, : g.general], self.row_weights, self.bound_weights
        p = g.bounds.add_transposed(p + g.general_rows_t(w * general), wb * bounds)
        y = rows[:, g.general :]
        if g.equalities:
            q = torch.cat((y, pins), 1)
            p = p + g.equality_t(q)
            y = self.schur.solve(g.equality(self.factor.solve(p)) - q)
            p = p - g.equality_t(y)
        x = self.factor.solve(p)
        return torch.cat((wb * (g.bounds.rows(x) - bounds), w * (g.general_rows(x) - general), y, x), 1)


class RowKkt(Kkt):
    """Rows × rows: a bounded variable is divided out, which leaves ``S = diag(1/w, 0) + K Θ K'`` over the rows K.

    Θ is one over the bounds' weight. A fixed variable has Θ = 0 and takes its value. A variable that nothing holds
    (`Operator.loose`) has no such quotient: its row ``K_F'λ = p_F`` joins S with weight one (which changes nothing in
    the solution), and a Schur complement finds x_F.
    """

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        super().__init__(operator, weights)
        g, self.exact = operator, self.bound_weights.shape[1]
        held = g.bounds.diagonal(weights[:, : self.exact], g.variables)
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
        self.theta, self.factor = theta[:, :, None], g.row_factor(theta, spread)
        self.free: Tensor | None = None
        if g.loose.numel():
            self.free = free[:, g.loose, None]
            unit = weights.new_zeros(1, g.variables, g.loose.numel())
            unit[0, g.loose, torch.arange(g.loose.numel(), device=unit.device)] = 1.0
            columns = g.stacked(unit.expand(weights.shape[0], -1, -1)) * self.free.mT
            self.columns, self.reached = columns, self.factor.solve(columns)
            corner = columns.mT @ self.reached
            corner.diagonal(dim1=-2, dim2=-1).add_(1.0 - self.free[:, :, 0].to(corner.dtype))
            self.corner = CholeskyFactor(corner)

    def once(self, right: Tensor) -> Tensor:
        g, theta = self.operator, self.theta
        bounds, sides, pins, p = split(g, right)
        weighted = self.bound_weights * bounds
        p = g.bounds.add_transposed(p, weighted)
        known = theta * p
        if g.pinned.columns.numel():
            size = g.pinned.coefficients[:, :, None]
            fixed = torch.where(size > 0, pins / size, 0.0)
            known = known.index_add(1, g.pinned.columns, fixed)
        rows = self.factor.solve(g.stacked(known) - sides)
        if self.free is not None:
            over = torch.where(self.free, p[:, g.loose] - self.columns.mT @ rows, 0.0)
            loose = self.corner.solve(over)
            rows = rows + self.reached @ loose
        reached = g.stacked_t(rows)
        x = torch.addcmul(known, theta, reached, value=-1.0)
        if self.free is not None:
            x[:, g.loose] = torch.where(self.free, loose, x[:, g.loose])
        parts = [self.bound_weights * g.bounds.rows(x) - weighted, rows, x]
        if g.pinned.columns.numel():
            rest = (p - reached)[:, g.pinned.columns]
            parts.insert(2, torch.where(size > 0, rest / size, 0.0))
        return torch.cat(parts, 1)
