"""The default solver: a batched homogeneous self-dual interior-point method with Mehrotra's predictor and corrector.

For a program ``min c·x, Gx + s = h, Ex = f, s >= 0`` it follows the central path of

    G'z + E'y + cτ = 0,   Ex = fτ,   Gx + s = hτ,   κ + c·x + f·y + h·z = 0,   s, z, τ, κ >= 0,

which always has a solution: with τ > 0 it is an optimum, with κ > 0 a certificate that the program is infeasible
(z, y) or unbounded (x). Every step costs one Gram factorisation and three solves. Items that are finished leave the
batch and cost nothing more.

References:
    Ye, Todd, Mizuno, An O(√nL)-iteration homogeneous and self-dual linear programming algorithm, 1994.
    Andersen, Andersen, The MOSEK interior point optimizer for linear programming, 2000.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ... import checks
from ..operators.base import Operator
from ..operators.dense import amax
from ..operators.systems import kkt, product, split
from ..program import Standard
from .base import INFEASIBLE, OPTIMAL, RUNNING, STALLED, UNBOUNDED, Method, Point, SolverResult, certified

#: How well a certificate of infeasibility or unboundedness must balance, whatever the tolerance of the optimum.
PROOF = 1e-9

#: Down to this tolerance the path is followed without iterative refinement, which would double the products.
COARSE = 1e-5


@dataclass(frozen=True)
class Path:
    """A point of the homogeneous program, in as few tensors as can be.

    Attributes:
        u: τ, then the unknowns of `kkt`, ``(b, 1 + n)``.
        s: κ, then the slacks of the cone, which stand against the first entries of ``u``.
    """

    u: Tensor
    s: Tensor

    @cached_property
    def product(self) -> Tensor:
        """Of the cone with its slacks; its mean is μ."""
        return self.u[:, : self.s.shape[1]] * self.s

    def take(self, items: Tensor) -> Path:
        return Path(self.u[items], self.s[items])

    def put(self, items: Tensor, other: Path) -> None:
        self.u[items], self.s[items] = other.u, other.s

    def apart(self, g: Operator) -> tuple[Tensor, ...]:
        """x, y, z and s, in the order of `Point`, not divided by τ."""
        bounds, rows, pins, x = split(g, self.u[:, 1:])
        k = bounds.shape[1]
        z = torch.cat((rows[:, : g.general], bounds), 1)
        s = torch.cat((self.s[:, 1 + k :], self.s[:, 1 : 1 + k]), 1)
        return x, torch.cat((rows[:, g.general :], pins), 1), z, s


@dataclass(frozen=True)
class Data:
    """``[h, f, −c]`` and ``[h, f, c]``, ``(b, n)`` each, in the order of the unknowns."""

    operator: Operator
    right: Tensor
    value: Tensor

    @classmethod
    def of(cls, program: Standard) -> Data:
        g, (h, f, c) = program.operator, (program.h, program.f, program.c)
        sides = (h[:, g.general :], h[:, : g.general], f)
        return cls(g, torch.cat((*sides, -c), 1), torch.cat((*sides, c), 1))

    def total(self, u: Tensor) -> Tensor:
        """``c·x + h·z + f·y``, ``(…, b, 1)``."""
        return (self.value * u).sum(-1, keepdim=True)

    def take(self, items: Tensor) -> Data:
        return Data(self.operator.take(items), self.right[items], self.value[items])


def starting_point(data: Data, cone: int) -> Path:
    """Least-squares primal and least-norm dual, shifted inside: within a few steps of the path on most programs."""
    b, n = data.right.shape
    primal, dual = torch.zeros_like(data.right), torch.zeros_like(data.right)
    costs = n - data.operator.variables
    primal[:, :costs], dual[:, costs:] = data.right[:, :costs], data.right[:, costs:]
    system = kkt(data.operator, primal.new_ones(b, cone))
    primal, dual = system.solve(torch.stack((primal, dual)), refine=False)
    unit = primal.new_ones(b, 1)
    u = torch.cat((unit, _inside(dual[:, :cone]), dual[:, cone:costs], primal[:, costs:]), 1)
    return Path(u, torch.cat((unit, _inside(-primal[:, :cone])), 1))


def _inside(v: Tensor) -> Tensor:
    if not v.shape[1]:
        return v
    low = v.amin(1, keepdim=True)
    # A floor keeps tiny entries from making the first steps short.
    size = v.abs().amax(1, keepdim=True).clamp(1e-3, 1.0)
    return torch.where(low > 1e-2 * size, v, v + (size - low))


def interior_point(
    program: Standard, tol: float = 1e-9, limit: int = 60, start: Path | None = None
) -> tuple[Path, Tensor, Tensor]:
    """Follow the path to the tolerance.

    Returns:
        The points (divide by τ for the solution of an optimal item), the outcome of each item (one of the
        codes above) and its number of steps.
    """
    data, b = Data.of(program), program.c.shape[0]
    at = last = starting_point(data, program.h.shape[1]) if start is None else start
    final, items = Path(at.u.clone(), at.s.clone()), torch.arange(b, device=program.c.device)
    outcome, steps = torch.full_like(items, STALLED), torch.full_like(items, limit)
    rest, length = _residual(data, at), torch.ones_like(at.u[:, 0])
    for count in range(limit + 1):
        codes, rest = _outcome(data, at, rest, length, tol)
        if codes is not None:
            done = codes != RUNNING
            ended = items[done]
            final.put(ended, at.take(done))
            stuck = codes == STALLED
            if bool(stuck.any()):
                final.put(items[stuck], last.take(stuck))
            outcome[ended], steps[ended] = codes[done], count
            keep = (~done).nonzero().squeeze(1)
            if not keep.numel():
                break
            items, data, at, rest = items[keep], data.take(keep), at.take(keep), rest[keep]
        if count == limit:
            final.put(items, at)
            break
        last = at
        at, length, share = _advance(data, at, rest, refine=tol < COARSE)
        # A step leaves exactly this share of every linear residual; near enough on the coarse part of the path.
        rest = _residual(data, at) if tol < COARSE else share * rest
    return final, outcome, steps


def _residual(data: Data, at: Path) -> Tensor:
    """What is missing: ``−(κ + c·x + f·y + h·z)``, then ``τ [h, f, −c] − [Gx + s, Ex, G'z + E'y]``, ``(b, 1 + n)``."""
    cone, u = at.s.shape[1] - 1, at.u[:, 1:]
    rest = torch.addcmul(-product(data.operator, u), data.right, at.u[:, :1])
    rest[:, :cone].sub_(at.s[:, 1:])
    return torch.cat((-at.s[:, :1] - data.total(u), rest), 1)


def _outcome(data: Data, at: Path, rest: Tensor, length: Tensor, tol: float) -> tuple[Tensor | None, Tensor]:
    """The code of each item, None while all are on their way; and the residual, measured anew where it is a proof."""
    v, (tau, kappa) = data.operator.variables, (at.u[:, 0], at.s[:, 0])
    terms = data.value * at.u[:, 1:]
    cost, bound = terms[:, -v:].sum(1), terms[:, :-v].sum(1)
    gap = at.product.sum(1) / (tau * (tau + cost.abs()))
    gap = torch.add(gap, bound, alpha=0.0)  # NaN where anything is not finite
    if bool(((gap > tol) & (tau > 1e-2 * kappa) & (length > 1e-10)).all()):
        return None, rest
    size = torch.stack((rest[:, 1:], at.u[:, 1:])).abs()
    off, long = size[:, :, -v:].amax(2), amax(size[:, :, :-v], 2)
    # Primal errors are relative to x, dual errors to the duals.
    good = (long[0] <= tol * (tau + off[1])) & (off[0] <= tol * (tau + long[1])) & (gap <= tol)
    codes = torch.where(good, OPTIMAL, RUNNING)
    dead = tau < 1e-2 * kappa  # certificates are read where τ has died away against κ
    if bool(dead.any()):
        if tol >= COARSE:  # a proof is not taken from a recurrence
            rest = _residual(data, at)
        left = torch.addcmul(-rest[:, 1:], data.right, at.u[:, :1]).abs()
        ray, farkas = amax(left[:, :-v], 1) <= PROOF * -cost, left[:, -v:].amax(1) <= PROOF * -bound
        codes[(codes == RUNNING) & dead & (cost < 0) & ray] = UNBOUNDED
        codes[(codes != OPTIMAL) & dead & (bound < 0) & farkas] = INFEASIBLE
    codes[((length <= 1e-10) & ~good) | ~(gap.abs() < torch.inf)] = STALLED
    return (codes if bool((codes != RUNNING).any()) else None), rest


def _advance(data: Data, at: Path, rest: Tensor, refine: bool) -> tuple[Path, Tensor, Tensor]:
    """One predictor-corrector step, its length, and the share of the linear residuals that it leaves.

    With ``r = dz/z`` along a direction, ``ds = −t − s r``; t is s in the predictor, and less the centring after it.
    """
    s, cone = at.s, at.s.shape[1]
    z = at.u[:, :cone]
    ratio = z / s
    system = kkt(data.operator, ratio[:, 1:])
    right = rest.clone()
    right[:, :cone].add_(s)
    both = system.solve(torch.stack((data.right, right[:, 1:])), refine=refine)
    (home, there), (rise, along) = both, data.total(both)
    slope = rise - ratio[:, :1].reciprocal()

    def direction(right: Tensor, there: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
        tau = (right[:, :1] - along) / slope
        du = torch.cat((tau, torch.addcmul(there, tau, home)), 1)
        return du, du[:, :cone] / z

    _, r = direction(right, there, along)
    low, high = r.amin(1, keepdim=True), r.amax(1, keepdim=True)
    length = torch.maximum(-low, high + 1.0).clamp_min(0.99).reciprocal()
    sigma = (1.0 - length) ** 3
    keep = 1.0 - sigma
    t = torch.addcdiv(
        torch.addcmul(s, s, r + r * r, value=-1.0), sigma * at.product.mean(1, keepdim=True), z, value=-1.0
    )
    right = keep * rest
    right[:, :cone].add_(t)
    there = system.solve(right[:, 1:], refine=refine)
    du, r = direction(right, there, data.total(there))
    ds = torch.addcmul(t, s, r).neg_()
    length = -0.99 * torch.cat((r, ds / s), 1).amin(1, keepdim=True).clamp_max(-0.99).reciprocal()
    moved = Path(torch.addcmul(at.u, length, du), torch.addcmul(s, length, ds))
    return moved, length[:, 0], 1.0 - length * keep


class InteriorPoint(Method):
    """Homogeneous self-dual interior point (the default): 8 to 15 steps, whatever the program.

    The path is followed to a coarse tolerance first; there the active rows can usually be told apart, and the polish
    jumps to the exact face. Only items it does not certify go on.

    Args:
        limit: Maximum number of steps for an item.
        stages: Coarse tolerances at which to try the polish, before the solver's own.

    Example:
        >>> import torch, aimfor
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([4.0, 6.0])
        >>> aimfor.lp.solve(c, A, b, lower=0.0, method=InteriorPoint(limit=40)).x.tolist()
        [3.0, 1.0]
    """

    def __init__(self, limit: int = 60, stages: tuple[float, ...] = (1e-5, 1e-8)) -> None:
        self.limit = checks.integer("limit", limit, at_least=1)
        self.stages = stages

    def run(self, program: Standard, tol: float) -> SolverResult:
        items, left, start = torch.arange(program.c.shape[0], device=program.c.device), program, None
        final, result = tol * 0.1, None
        for stage in (*(s for s in self.stages if s > tol), final):
            path, outcome, steps = interior_point(left, stage, self.limit, start)
            x, y, z, s = _scaled(left, path, outcome)
            point, errors = certified(left, Point(x, y, z, z > s), tol, last=stage == final)
            proof = (outcome == INFEASIBLE) | (outcome == UNBOUNDED)
            point = Point(x, y, z, point.active).where(proof, point)
            outcome = torch.where(proof, outcome, torch.where(errors.worst() <= tol, OPTIMAL, STALLED))
            reached = SolverResult(point, outcome, errors, steps)
            if result is None:
                result = reached
            else:
                result.put(items, reached)
            more = (outcome == STALLED) & torch.isfinite(path.u).all(1) & (path.u[:, 0] > 0)
            if not bool(more.any()):
                break
            items, left, start = items[more], left.take(more.nonzero().squeeze(1)), path.take(more)
        assert result is not None
        return result


def _scaled(program: Standard, path: Path, outcome: Tensor) -> tuple[Tensor, ...]:
    """x, y, z and s divided by τ, or by what a certificate promises."""
    x, y, z, s = path.apart(program.operator)
    scale = path.u[:, 0]
    if bool((outcome >= INFEASIBLE).any()):
        farkas, ray = (program.h * z).sum(1) + (program.f * y).sum(1), (program.c * x).sum(1)
        scale = torch.where(outcome == INFEASIBLE, -farkas, torch.where(outcome == UNBOUNDED, -ray, scale))
    return tuple(vector / scale[:, None] for vector in (x, y, z, s))
