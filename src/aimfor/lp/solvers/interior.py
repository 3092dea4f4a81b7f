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

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..standard import Standard, largest
from .base import INFEASIBLE, OPTIMAL, RUNNING, STALLED, UNBOUNDED
from .kkt import kkt

#: How well a certificate of infeasibility or unboundedness must balance, whatever the tolerance of the optimum.
PROOF = 1e-9

#: Down to this tolerance the path is followed without iterative refinement, which would double the products.
COARSE = 1e-5


@dataclass
class Iterate:
    """A point of the homogeneous program; all ``(b, ·)``."""

    x: Tensor
    y: Tensor
    z: Tensor
    s: Tensor
    tau: Tensor
    kappa: Tensor

    def take(self, items: Tensor) -> Iterate:
        return Iterate(*(getattr(self, field.name)[items] for field in fields(self)))

    def put(self, items: Tensor, part: Iterate) -> None:
        for field in fields(self):
            getattr(self, field.name)[items] = getattr(part, field.name)

    def step(self, length: Tensor, direction: Iterate) -> Iterate:
        pairs = ((getattr(self, field.name), getattr(direction, field.name)) for field in fields(self))
        return Iterate(*(here + length * there for here, there in pairs))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1, keepdim=True)


def starting_point(program: Standard) -> Iterate:
    """Least-squares primal and least-norm dual, shifted inside: within a few steps of the path on most programs."""
    g, (b, total) = program.operator, program.h.shape
    system = kkt(g, program.h.new_ones(b, total))
    zero_c, zero_h, zero_f = (torch.zeros_like(v) for v in (program.c, program.h, program.f))
    p, q, r = (
        torch.stack((zero_c, -program.c), 2),
        torch.stack((program.f, zero_f), 2),
        torch.stack((program.h, zero_h), 2),
    )
    x, y, z = system.solve(p, q, r, refine=False)
    one = program.c.new_ones(b, 1)
    return Iterate(x[:, :, 0], y[:, :, 1], _inside(z[:, :, 1]), _inside(-z[:, :, 0]), one, one.clone())


def _inside(v: Tensor) -> Tensor:
    if not v.shape[1]:
        return v
    low = v.amin(1, keepdim=True)
    # A floor keeps tiny entries from making the first steps short.
    size = v.abs().amax(1, keepdim=True).clamp(1e-3, 1.0)
    return torch.where(low > 1e-2 * size, v, v + (size - low))


def interior_point(
    program: Standard, tol: float = 1e-9, limit: int = 60, start: Iterate | None = None
) -> tuple[Iterate, Tensor, Tensor]:
    """Follow the path to the tolerance.

    Returns:
        The iterates (divide by ``tau`` for the solution of an optimal item), the outcome of each item (one of the
        codes above) and its number of steps.
    """
    b = program.c.shape[0]
    point = starting_point(program) if start is None else start
    final = point.take(torch.arange(b, device=program.c.device))
    outcome = torch.full((b,), RUNNING, device=program.c.device)
    steps = torch.zeros_like(outcome)
    items = torch.arange(b, device=program.c.device)
    residuals = _residuals(program, point)
    for count in range(limit + 1):
        found = _outcome(program, point, residuals, tol)
        if tol >= COARSE and bool((found > OPTIMAL).any()):  # a proof is not taken from a recurrence
            residuals = _residuals(program, point)
            found = _outcome(program, point, residuals, tol)
        done = found != RUNNING
        if bool(done.any()):
            final.put(items[done], point.take(done))
            outcome[items[done]], steps[items[done]] = found[done], count
            keep = (~done).nonzero().squeeze(1)
            if not keep.numel():
                break
            items, program, point = items[keep], program.take(keep), point.take(keep)
            residuals = tuple(part[keep] for part in residuals)
        if count == limit:
            break
        moved, length, rest = _advance(program, point, residuals, refine=tol < COARSE)
        stuck = (length < 1e-10) | ~torch.isfinite(moved.x).all(1) | ~torch.isfinite(moved.z).all(1)
        if bool(stuck.any()):
            final.put(items[stuck], point.take(stuck))
            outcome[items[stuck]], steps[items[stuck]] = STALLED, count
            keep = (~stuck).nonzero().squeeze(1)
            if not keep.numel():
                break
            items, program, moved = items[keep], program.take(keep), moved.take(keep)
            residuals, rest = tuple(part[keep] for part in residuals), rest[keep]
        point = moved
        if tol < COARSE:
            residuals = _residuals(program, point)
        else:
            # A step leaves exactly this share of every linear residual; near enough on the coarse part of the path.
            residuals = _with_gap(program, point, *(rest * part for part in residuals[:3]))
    unfinished = outcome == RUNNING
    if bool(unfinished.any()):
        final.put(items, point)
        outcome[unfinished], steps[unfinished] = STALLED, limit
    return final, outcome, steps


def _residuals(program: Standard, at: Iterate) -> tuple[Tensor, ...]:
    """Dual, equality, inequality and gap residuals of the homogeneous program, then c·x and f·y + h·z."""
    g = program.operator
    dual = -g.inequality_t(at.z[:, :, None])[:, :, 0] - program.c * at.tau
    if g.equalities:
        dual = dual - g.equality_t(at.y[:, :, None])[:, :, 0]
    equal = g.equality(at.x[:, :, None])[:, :, 0] - program.f * at.tau
    inequal = at.s + g.inequality(at.x[:, :, None])[:, :, 0] - program.h * at.tau
    return _with_gap(program, at, dual, equal, inequal)


def _with_gap(program: Standard, at: Iterate, dual: Tensor, equal: Tensor, inequal: Tensor) -> tuple[Tensor, ...]:
    cost, bound = _dot(program.c, at.x), _dot(program.f, at.y) + _dot(program.h, at.z)
    return dual, equal, inequal, at.kappa + cost + bound, cost, bound


def _outcome(program: Standard, at: Iterate, residuals: tuple[Tensor, ...], tol: float) -> Tensor:
    dual, equal, inequal, _, cost, bound = residuals
    tau, cost, bound = at.tau[:, 0], cost[:, 0], bound[:, 0]
    size_x, size_z = largest(at.x), torch.maximum(largest(at.z), largest(at.y))
    primal_error = torch.maximum(largest(equal), largest(inequal)) / (tau + size_x)
    dual_error = largest(dual) / (tau + size_z)
    gap = _dot(at.s, at.z)[:, 0] / tau / (tau + cost.abs())
    found = torch.full_like(tau, RUNNING, dtype=torch.int64)
    found[(primal_error <= tol) & (dual_error <= tol) & (gap <= tol)] = OPTIMAL
    # Certificates are read off the direction alone: τ must have died away against κ.
    dead = tau < 1e-2 * at.kappa[:, 0]
    if not bool(dead.any()):
        return found
    farkas = largest(dual + program.c * at.tau) <= PROOF * -bound
    ray = torch.maximum(largest(equal + program.f * at.tau), largest(inequal + program.h * at.tau)) <= PROOF * -cost
    found[(found == RUNNING) & dead & (cost < 0) & ray] = UNBOUNDED
    found[((found == RUNNING) | (found == UNBOUNDED)) & dead & (bound < 0) & farkas] = INFEASIBLE
    return found


def _advance(
    program: Standard, at: Iterate, residuals: tuple[Tensor, ...], refine: bool
) -> tuple[Iterate, Tensor, Tensor]:
    """One predictor-corrector step, its length, and the share of the linear residuals that it leaves."""
    system = kkt(program.operator, at.z / at.s)
    degree = at.s.shape[1] + 1
    mu = (_dot(at.s, at.z) + at.tau * at.kappa) / degree
    dual, equal, inequal, gap = residuals[:4]
    affine_s, affine_k = -at.s * at.z, -at.tau * at.kappa
    first = (-program.c, program.f, program.h)
    second = (dual, -equal, -inequal - affine_s / at.z)
    both = system.solve(*(torch.stack(pair, 2) for pair in zip(first, second, strict=True)), refine=refine)
    u1 = tuple(part[:, :, 0] for part in both)
    u2 = tuple(part[:, :, 1] for part in both)
    slope = _dot(program.c, u1[0]) + _dot(program.f, u1[1]) + _dot(program.h, u1[2]) - at.kappa / at.tau
    predictor = _direction(program, at, u1, u2, slope, -gap, affine_s, affine_k)
    length = _longest(at, predictor)
    sigma = (1.0 - length) ** 3
    keep = 1.0 - sigma
    centre_s = affine_s + sigma * mu - predictor.s * predictor.z
    centre_k = affine_k + sigma * mu - predictor.tau * predictor.kappa
    right = (keep * dual, -keep * equal, -keep * inequal - centre_s / at.z)
    u2 = tuple(part[:, :, 0] for part in system.solve(*(part[:, :, None] for part in right), refine=refine))
    direction = _direction(program, at, u1, u2, slope, -keep * gap, centre_s, centre_k)
    length = (0.99 * _longest(at, direction)).clamp_max(1.0)
    return at.step(length, direction), length[:, 0], 1.0 - length * keep


def _direction(
    program: Standard,
    at: Iterate,
    u1: tuple[Tensor, ...],
    u2: tuple[Tensor, ...],
    slope: Tensor,
    gap: Tensor,
    product_s: Tensor,
    product_k: Tensor,
) -> Iterate:
    along = _dot(program.c, u2[0]) + _dot(program.f, u2[1]) + _dot(program.h, u2[2])
    tau = (gap - product_k / at.tau - along) / slope
    x, y, z = (b + tau * a for a, b in zip(u1, u2, strict=True))
    return Iterate(x, y, z, (product_s - at.s * z) / at.z, tau, (product_k - at.kappa * tau) / at.tau)


def _longest(at: Iterate, direction: Iterate) -> Tensor:
    """The longest step, at most 1/0.99, that keeps s, z, τ and κ nonnegative."""
    shrink = torch.cat((direction.s / at.s, direction.z / at.z, direction.tau / at.tau, direction.kappa / at.kappa), 1)
    return 1.0 / (-shrink).amax(1, keepdim=True).clamp_min(0.99)
