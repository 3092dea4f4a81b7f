"""What all solvers share: points, the certificates that make them answers, the polish, and `Method`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..operators.systems import PARALLEL, face
from ..program import Standard, largest

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

    def map(self, function: Callable[[Tensor], Tensor]) -> Residuals:
        return Residuals(function(self.primal), function(self.dual), function(self.gap))


def residuals(program: Standard, at: Point, values: tuple[Tensor, Tensor] | None = None) -> Residuals:
    """The certificate: all three at zero prove optimality, whoever found the point; ``values`` are its rows'."""
    z, (rows, equal) = at.z.clamp_min(0.0), values or program.operator.at(at.x)
    off = torch.cat(((rows - program.h).clamp_min(0.0), equal - program.f), 1)
    balance = program.c + program.operator.combined(z, at.y)
    cost = (program.c * at.x).sum(1)
    bound = -(program.h * z).sum(1) - (program.f * at.y).sum(1)
    return Residuals(
        largest(off) / (1.0 + largest(at.x)),
        largest(balance) / (1.0 + largest(torch.cat((z, at.y), 1))),
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


#: What an item's iteration ended with.
RUNNING, OPTIMAL, INFEASIBLE, UNBOUNDED, STALLED = range(5)


@dataclass(frozen=True)
class SolverResult:
    """What a solver brings back, for each of b items.

    Attributes:
        point: The primal-dual pair. An infeasible item holds its Farkas certificate in ``y`` and ``z`` (scaled so that
            ``h·z + f·y = −1``), an unbounded one its ray in ``x`` (scaled so that ``c·x = −1``).
        outcome: ``OPTIMAL`` (certified), ``INFEASIBLE``, ``UNBOUNDED`` or ``STALLED``; int64.
        residuals: Of the point; not defined for infeasible and unbounded items.
        steps: Newton steps.
    """

    point: Point
    outcome: Tensor
    residuals: Residuals
    steps: Tensor

    def take(self, items: Tensor) -> SolverResult:
        errors = self.residuals.map(lambda error: error[items])
        return SolverResult(self.point.take(items), self.outcome[items], errors, self.steps[items])

    def put(self, items: Tensor, other: SolverResult) -> None:
        """Replace some items in place; steps add up."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            if mine is not None and theirs is not None:
                mine[items] = theirs
        self.steps[items] += other.steps

    def _tensors(self) -> tuple[Tensor | None, ...]:
        at, errors = self.point, self.residuals
        return at.x, at.y, at.z, at.active, at.firm, self.outcome, errors.primal, errors.dual, errors.gap


def no_result(program: Standard) -> SolverResult:
    """Zeros that have not converged, to be replaced item by item."""
    c, z = program.c, torch.zeros_like(program.h)
    steps = torch.zeros(len(c), dtype=torch.int64, device=c.device)
    errors = Residuals(*(c.new_full((len(c),), torch.inf) for _ in range(3)))
    point = Point(torch.zeros_like(c), torch.zeros_like(program.f), z, z > 0)
    return SolverResult(point, torch.full_like(steps, STALLED), errors, steps)


class Method(ABC):
    """How programs are solved. Certification is the same for all (see `certified`).

    Example:
        >>> import aimfor
        >>> isinstance(aimfor.lp.InteriorPoint(), Method)
        True
    """

    @abstractmethod
    def run(self, program: Standard, tol: float) -> SolverResult:
        """Solve an equilibrated program."""


def certified(program: Standard, rough: Point, tol: float, last: bool = True) -> tuple[Point, Residuals]:
    """The polished point where that made it better, the rough one elsewhere; with residuals.

    With ``last=False`` items that are not certified will come again, and only one round is spent on them.
    """
    sharp = polish(program, rough, 2 if last else 1)
    after = residuals(program, sharp)
    if not last or bool((after.worst() <= tol).all()):
        return sharp, after
    better = after.worst() <= residuals(program, rough).worst()
    point = sharp.where(better, rough)
    return point, residuals(program, point)
