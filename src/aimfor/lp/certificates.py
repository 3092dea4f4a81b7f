"""How good an answer is, from the answer alone: residuals, and the vertex polish that makes them small."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .face import PARALLEL, face
from .standard import Standard, largest

#: A constraint of the equilibrated program with no more slack, or a dual that is no larger, is zero.
ZERO = 1e-9


@dataclass(frozen=True)
class Point:
    """A primal-dual pair of the equilibrated program, ``(b, ·)``; ``active`` marks the inequalities held tight.

    ``firm`` ``(b,)`` says that no two of those are nearly parallel, as the polish found them; None without it.
    """

    x: Tensor
    y: Tensor
    z: Tensor
    active: Tensor
    firm: Tensor | None = None

    def take(self, items: Tensor) -> Point:
        firm = None if self.firm is None else self.firm[items]
        return Point(self.x[items], self.y[items], self.z[items], self.active[items], firm)

    def where(self, keep: Tensor, other: Point) -> Point:
        """This point for the items in ``keep``, the other for the rest."""
        mask = keep[:, None]
        return Point(
            torch.where(mask, self.x, other.x),
            torch.where(mask, self.y, other.y),
            torch.where(mask, self.z, other.z),
            torch.where(mask, self.active, other.active),
            self.firm if other.firm is None else other.firm,
        )


@dataclass(frozen=True)
class Residuals:
    """Errors of a primal-dual pair, ``(b,)`` each, measured in the equilibrated program.

    Attributes:
        primal: Largest violation of a constraint, relative to ``1 + ‖x‖∞``.
        dual: Largest entry of ``c + G'z + E'y`` (z clamped at zero), relative to ``1 + ‖(y, z)‖∞``.
        gap: Difference of the two objectives, relative to ``1 + |c·x|``.

    Example:
        >>> import torch, aimfor
        >>> errors = aimfor.lp.solve(torch.tensor([1.0, -1.0]), lower=0.0, upper=2.0).residuals
        >>> bool(errors.worst() < 1e-9)
        True
    """

    primal: Tensor
    dual: Tensor
    gap: Tensor

    def worst(self) -> Tensor:
        return torch.stack((self.primal, self.dual, self.gap)).amax(0)

    def reshape(self, shape: torch.Size) -> Residuals:
        return Residuals(self.primal.reshape(shape), self.dual.reshape(shape), self.gap.reshape(shape))


def residuals(program: Standard, at: Point) -> Residuals:
    """The certificate: all three at zero prove optimality, whoever found the point."""
    z, (rows, equal) = at.z.clamp_min(0.0), program.operator.at(at.x)
    over, off = (rows - program.h).clamp_min(0.0), equal - program.f
    balance = program.c + program.operator.combined(z, at.y)
    cost = (program.c * at.x).sum(1)
    bound = -(program.h * z).sum(1) - (program.f * at.y).sum(1)
    return Residuals(
        torch.maximum(largest(over), largest(off)) / (1.0 + largest(at.x)),
        largest(balance) / (1.0 + torch.maximum(largest(z), largest(at.y))),
        (cost - bound).abs() / (1.0 + cost.abs()),
    )


def polish(program: Standard, at: Point, rounds: int = 2) -> Point:
    """Projects primal and dual onto the face that ``at.active`` names.

    ``x ← x − Ã⁺(Ãx − b̃)`` and ``z̃ ← z̃ − Ã⁺ᵀ(Ãᵀz̃ + c)`` with Ã the active and equality rows: one Gram
    factorisation serves both, and the smallest change is taken, so that a point inside the optimal face of a program
    with many solutions stays inside.
    """
    g, on = program.operator, face(program.operator, at.active, program.c.dtype)
    mask = on.mask
    x, y, z = at.x, at.y, at.z * mask
    for _ in range(rounds):
        rows, equal = g.at(x)
        x = x - on.step(mask * (rows - program.h), equal - program.f)
        more, more_equal = on.weigh(program.c + g.combined(z, y))
        z, y = z - more, y - more_equal
    firm = on.factor.pivot() >= PARALLEL
    return Point(_on_bounds(program, x, mask), y, z.clamp_min(0.0), at.active, firm)


def firm_vertex(program: Standard, at: Point) -> Tensor:
    """``Point.firm`` of vertices that need no polish: where a tight constraint costs nothing, there are others."""
    costs = ((at.z > ZERO) | ~at.active).all(1)
    return costs & (face(program.operator, at.active, program.c.dtype).factor.pivot() >= PARALLEL)


def _on_bounds(program: Standard, x: Tensor, mask: Tensor) -> Tensor:
    """A variable held by a bound stands exactly on it, not within rounding of it."""
    bounds, m = program.operator.bounds, program.operator.general
    if not bounds.columns.numel():
        return x
    held, sign = mask[:, m:] * bounds.coefficients.square(), bounds.coefficients
    return x.index_add(1, bounds.columns, held * (program.h[:, m:] * sign - x[:, bounds.columns]))
