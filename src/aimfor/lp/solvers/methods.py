"""The two methods a user can choose: the interior point, and the exterior penalty made reliable."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import checks
from ..certificates import Point, Residuals
from ..standard import Standard, largest
from .base import INFEASIBLE, OPTIMAL, STALLED, UNBOUNDED, Method, SolverResult, certified
from .interior import interior_point
from .newton import minimise_penalty
from .sketch import Sketch


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
        b = program.c.shape[0]
        items, left, start, found = torch.arange(b, device=program.c.device), program, None, None
        final = tol * 0.1
        for stage in (*(s for s in self.stages if s > tol), final):
            path, outcome, steps = interior_point(left, stage, self.limit, start)
            parts = path.apart(left.operator)
            scale = _scale(left, parts, outcome, path.tau)
            x, y, z, s = (part / scale for part in parts)
            point, errors = certified(left, Point(x, y, z, z > s), tol, last=stage == final)
            proof = (outcome == INFEASIBLE) | (outcome == UNBOUNDED)
            point = Point(x, y, z, point.active).where(proof, point)
            outcome = torch.where(proof, outcome, torch.where(errors.worst() <= tol, OPTIMAL, STALLED))
            part = SolverResult(point, outcome, errors, steps)
            if found is None:
                found = part
            else:
                found.put(items, part)
            more = (outcome == STALLED) & torch.isfinite(path.u).all(1) & (path.tau > 0)
            if not bool(more.any()):
                break
            items, left, start = items[more], left.take(more.nonzero().squeeze(1)), path.take(more)
        assert found is not None
        return found


class PenaltyNewton(Method):
    """Exterior-penalty Newton with exact line search, inside the method of multipliers (Meng 2021 made reliable).

    ε falls by ``factor`` from one outer step to the next down to ``smallest``; the multipliers make the duals exact
    without it reaching zero.

    Args:
        epsilon: First ε, relative to the equilibrated program.
        factor: What ε is multiplied by.
        smallest: Where it stops falling.
        outer: Maximum number of outer steps.
        sketch: Approximate the Hessian of a dense program by this sketch (gradient and line search stay exact).

    Example:
        >>> import torch, aimfor
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([4.0, 6.0])
        >>> aimfor.lp.solve(c, A, b, lower=0.0, method=PenaltyNewton(epsilon=0.1)).x.tolist()
        [3.0, 1.0]
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        factor: float = 0.1,
        smallest: float = 1e-4,
        outer: int = 40,
        sketch: Sketch | None = None,
    ) -> None:
        self.sketch = sketch
        self.epsilon = checks.number("epsilon", epsilon, above=0)
        self.factor = checks.number("factor", factor, above=0, below=1)
        self.smallest = checks.number("smallest", smallest, above=0)
        self.outer = checks.integer("outer", outer, at_least=1)

    def run(self, program: Standard, tol: float) -> SolverResult:
        b = program.c.shape[0]
        x, y, z = torch.zeros_like(program.c), torch.zeros_like(program.f), torch.zeros_like(program.h)
        found = SolverResult(
            Point(x.clone(), y.clone(), z.clone(), torch.zeros_like(z, dtype=torch.bool)),
            torch.full((b,), STALLED, device=x.device),
            Residuals(*(x.new_full((b,), torch.inf) for _ in range(3))),
            torch.zeros(b, dtype=torch.int64, device=x.device),
        )
        items, left, epsilon = torch.arange(b, device=x.device), program, self.epsilon
        limit = 200 if self.sketch is None else 2000  # rough Hessians take more, cheaper steps
        for _ in range(self.outer):
            eps = left.c.new_full((items.numel(), 1), epsilon)
            rough = left if self.sketch is None else self.sketch.apply(left)
            inner = minimise_penalty(rough, eps, x, (epsilon * z, epsilon * y), limit=limit)
            x, z, y = inner.y, inner.rows / epsilon, inner.equal / epsilon
            point, errors = certified(left, Point(x, y, z, z > 0), tol)
            good = errors.worst() <= tol
            outcome = torch.where(good, OPTIMAL, STALLED)
            found.put(items, SolverResult(point, outcome, errors, inner.steps))
            # Runaway iterates mean that there is no optimum to find; the caller's next solver proves it.
            more = ~good & inner.converged & (largest(x) < 1e6) & (largest(z) < 1e6)
            if not bool(more.any()):
                break
            items, left = items[more], left.take(more.nonzero().squeeze(1))
            x, y, z = x[more], y[more], z[more]
            epsilon = max(epsilon * self.factor, self.smallest)
        return found


def _scale(program: Standard, parts: tuple[Tensor, ...], outcome: Tensor, tau: Tensor) -> Tensor:
    """What the parts are divided by: τ, or what a certificate promises."""
    if bool((outcome == INFEASIBLE).any()):
        tau = torch.where(outcome == INFEASIBLE, -(_dot(program.h, parts[2]) + _dot(program.f, parts[1])), tau)
    if bool((outcome == UNBOUNDED).any()):
        tau = torch.where(outcome == UNBOUNDED, -_dot(program.c, parts[0]), tau)
    return tau[:, None]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)
