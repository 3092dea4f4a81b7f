"""The linear system of an interior step, solved with one unknown per variable or one per row, whichever are fewer."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ..operators.base import Operator
from ..operators.dense import CholeskyFactor

Triple = tuple[Tensor, Tensor, Tensor]


class Kkt(ABC):
    """Solves ``G'z + E'y = p, Ex = q, Gx − z/weights = r`` for x, y and z; all ``(b, ·, k)``."""

    @abstractmethod
    def once(self, p: Tensor, q: Tensor, r: Tensor) -> Triple: ...

    @abstractmethod
    def residual(self, p: Tensor, q: Tensor, r: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Triple: ...

    def solve(self, p: Tensor, q: Tensor, r: Tensor, *, refine: bool) -> Triple:
        """One step of refinement is needed near the end of the path, where the regularised factor loses digits."""
        x, y, z = self.once(p, q, r)
        if refine:
            dx, dy, dz = self.once(*self.residual(p, q, r, x, y, z))
            x, y, z = x + dx, y + dy, z + dz
        return x, y, z


def kkt(operator: Operator, weights: Tensor) -> Kkt:
    """The system for ``weights`` ``(b, inequalities)``."""
    return RowKkt(operator, weights) if operator.wide else GramKkt(operator, weights)


class GramKkt(Kkt):
    """Variables × variables: one Gram factorisation, and a Schur complement for the equalities.

    ``E'E`` joins the Gram matrix (which changes nothing in the solution), so that variables which only equalities
    hold do not make it singular.
    """

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        self.operator, self.weights = operator, weights[:, :, None]
        self.factor = operator.factor(weights)
        if operator.equalities:
            identity = torch.eye(operator.equalities, dtype=weights.dtype, device=weights.device)
            columns = operator.equality_t(identity.expand(weights.shape[0], -1, -1))
            self.schur = CholeskyFactor(operator.equality(self.factor.solve(columns)))

    def once(self, p: Tensor, q: Tensor, r: Tensor) -> Triple:
        g, right = self.operator, p + self.operator.inequality_t(self.weights * r)
        if not g.equalities:
            x, y = self.factor.solve(right), q
        else:
            right = right + g.equality_t(q)
            y = self.schur.solve(g.equality(self.factor.solve(right)) - q)
            x = self.factor.solve(right - g.equality_t(y))
        return x, y, self.weights * (g.inequality(x) - r)

    def residual(self, p: Tensor, q: Tensor, r: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Triple:
        # z solves its own row exactly, so only the first two rows can have a residual.
        g = self.operator
        rest = p - g.inequality_t(z)
        return rest - g.equality_t(y) if g.equalities else rest, q - g.equality(x), torch.zeros_like(r)


class RowKkt(Kkt):
    """Rows × rows: a bounded variable is divided out, which leaves ``S = diag(1/w, 0) + K Θ K'`` over the rows K.

    Θ is one over the bounds' weight. A fixed variable has Θ = 0 and takes its value. A variable that nothing holds
    (`Operator.loose`) has no such quotient: its row ``K_F'λ = p_F`` joins S with weight one (which changes nothing in
    the solution), and a Schur complement finds x_F.
    """

    def __init__(self, operator: Operator, weights: Tensor) -> None:
        self.operator, g = operator, operator
        self.bound_weights = weights[:, g.general :, None]
        held = g.bound_diagonal(weights)
        pins = g.pin_diagonal() > 0
        self.theta = torch.where(pins, 0.0, torch.where(held > 0, 1.0 / held, 1.0))
        self.spread = torch.cat((1.0 / weights[:, : g.general], weights.new_zeros(weights.shape[0], g.equal)), 1)
        self.factor = g.row_factor(self.theta, self.spread)
        self.free: Tensor | None = None
        if g.loose.numel():
            self.free = ((held == 0) & ~pins)[:, g.loose, None]
            unit = weights.new_zeros(1, g.variables, g.loose.numel())
            unit[0, g.loose, torch.arange(g.loose.numel(), device=unit.device)] = 1.0
            columns = g.stacked(unit.expand(weights.shape[0], -1, -1)) * self.free.mT
            self.columns, self.reached = columns, self.factor.solve(columns)
            corner = columns.mT @ self.reached
            corner.diagonal(dim1=-2, dim2=-1).add_(1.0 - self.free[:, :, 0].to(corner.dtype))
            self.corner = CholeskyFactor(corner)

    def once(self, p: Tensor, q: Tensor, r: Tensor) -> Triple:
        g, theta = self.operator, self.theta[:, :, None]
        p = g.bounds.add_transposed(p, self.bound_weights * r[:, g.general :])
        known = theta * p
        if g.pinned.columns.numel():
            size = g.pinned.coefficients[:, :, None]
            pinned = torch.where(size > 0, q[:, g.equal :] / size, 0.0)
            known = known.index_add(1, g.pinned.columns, pinned)
        rows = self.factor.solve(g.stacked(known) - torch.cat((r[:, : g.general], q[:, : g.equal]), 1))
        if self.free is not None:
            over = torch.where(self.free, p[:, g.loose] - self.columns.mT @ rows, 0.0)
            loose = self.corner.solve(over)
            rows = rows + self.reached @ loose
        rest = p - g.stacked_t(rows)
        x = known + theta * (rest - p)
        if self.free is not None:
            x[:, g.loose] = torch.where(self.free, loose, x[:, g.loose])
        y = rows[:, g.general :]
        if g.pinned.columns.numel():
            y = torch.cat((y, torch.where(size > 0, rest[:, g.pinned.columns] / size, 0.0)), 1)
        bounds = self.bound_weights * (g.bounds.rows(x) - r[:, g.general :])
        return x, y, torch.cat((rows[:, : g.general], bounds), 1)

    def residual(self, p: Tensor, q: Tensor, r: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Triple:
        g, m = self.operator, self.operator.general
        rows = r[:, :m] - g.general_rows(x) + self.spread[:, :m, None] * z[:, :m]
        rest = p - g.inequality_t(z) - g.equality_t(y)
        return rest, q - g.equality(x), torch.cat((rows, torch.zeros_like(r[:, m:])), 1)
