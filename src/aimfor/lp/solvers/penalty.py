"""Mangasarian's exterior penalty, minimised by Newton's method with an exact line search.

    g(y) = ε c·y + ½ ‖(Gy − h + u)₊‖² + ½ ‖Ey − f + w‖²

With u = w = 0 this is Meng's (3). Its step goes *down*, ``y − t (G'DG + E'E + ρI)⁻¹ ∇g``, and t is found exactly: along
a ray g is piecewise quadratic, so sorting the m breakpoints gives the minimum in O(m log m). Full steps without a line
search cycle on general programs. With u = ε z the same problem is one step of the method of multipliers, whose duals
``(Gy − h + u)₊ / ε`` converge without ε going to zero.

`PenaltyNewton` is that method. `plain_scheme` is the paper's own, with fixed ε, ρ, step and number of iterations and no
line search, for comparison: it is right on programs that fall apart into single variables, such as AUC with fixed
scores; on coupled programs its full steps cycle (see docs/lp.md).

References:
    Mangasarian, A Newton method for linear programming, 2004.
    Meng, Mukherjee, Wu, Singh, Ravi, Differentiable optimization of generalized nondecomposable functions using linear
    programs, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ... import checks
from ..operators.base import Operator
from ..operators.sketched import Sketch
from ..operators.systems import WoodburyFactor
from ..program import Standard, largest, read_program
from .base import OPTIMAL, STALLED, Method, Point, SolverResult, certified, no_result

#: ρ, relative to the unit diagonal of the scaled Hessian. It bends the path, not the answer.
STEP_RIDGE = 1e-8


@dataclass(frozen=True)
class Penalised:
    """A minimiser of g: ``y``, the positive parts ``rows = (Gy − h + u)₊`` and ``equal = Ey − f + w``, and how it went.

    Attributes:
        converged: ``(b,)`` bool.
        steps: ``(b,)``, Newton steps taken.
    """

    y: Tensor
    rows: Tensor
    equal: Tensor
    converged: Tensor
    steps: Tensor


def minimise_penalty(
    program: Standard,
    epsilon: Tensor,
    start: Tensor,
    shift: tuple[Tensor, Tensor] | None = None,
    tol: float = 1e-10,
    limit: int = 200,
) -> Penalised:
    """The minimiser of g for ``epsilon`` ``(b, 1)`` from ``start`` ``(b, v)``; items stop one by one."""
    h = program.h if shift is None else program.h - shift[0]
    f = program.f if shift is None else program.f - shift[1]
    program = Standard(program.operator, program.c, h, f)
    y, rows, equal = start.clone(), torch.empty_like(h), torch.empty_like(f)
    converged = torch.zeros(start.shape[0], dtype=torch.bool, device=start.device)
    steps = torch.zeros(start.shape[0], dtype=torch.int64, device=start.device)
    items, rest, point = torch.arange(start.shape[0], device=start.device), program, start
    for count in range(limit + 1):
        eps = epsilon[items]
        rows_at, equal_at = rest.operator.at(point)
        over, off = rows_at - rest.h, equal_at - rest.f
        gradient = eps * rest.c + rest.operator.combined(over.clamp_min(0.0), off)
        done = largest(gradient) <= tol * eps[:, 0]
        steps[items] = count
        if bool(done.any()) or count == limit:
            y[items], rows[items], equal[items] = point, over.clamp_min(0.0), off
            converged[items] = done
            keep = (~done).nonzero().squeeze(1)
            if not keep.numel() or count == limit:
                break
            items, rest, point = items[keep], rest.take(keep), point[keep]
            over, off, gradient, eps = over[keep], off[keep], gradient[keep], eps[keep]
        active = (over > 0).to(point.dtype)
        factor = (WoodburyFactor if rest.operator.wide else Operator.factor)(rest.operator, active, STEP_RIDGE)
        direction = -factor.solve(gradient)
        point = point + _exact_step(rest, eps, over, off, direction) * direction
    return Penalised(y, rows, equal, converged, steps)


def _exact_step(program: Standard, epsilon: Tensor, over: Tensor, off: Tensor, direction: Tensor) -> Tensor:
    """The minimiser t of ``g(y + t d)``, ``(b, 1)``: its derivative is increasing and linear between breakpoints."""
    along, along_equal = program.operator.at(direction)
    square, product = along * along, along * over
    inside = (over > 0) | ((over == 0) & (along > 0))
    slope = (square * inside).sum(1, keepdim=True) + (along_equal * along_equal).sum(1, keepdim=True)
    start = (product * inside).sum(1, keepdim=True) + (along_equal * off).sum(1, keepdim=True)
    start = start + epsilon * (program.c * direction).sum(1, keepdim=True)
    crossing = torch.where(along != 0, -over / along, torch.inf)
    crossing, order = torch.where(crossing > 0, crossing, torch.inf).sort(1)
    change = torch.where(crossing.isfinite(), along.gather(1, order).sign(), 0.0)
    slopes = torch.cat((slope, slope + (change * square.gather(1, order)).cumsum(1)), 1)
    starts = torch.cat((start, start + (change * product.gather(1, order)).cumsum(1)), 1)
    # The derivative at the right end of each segment; the last segment has none.
    ends = torch.cat((crossing, torch.full_like(slope, torch.inf)), 1)
    at_end = torch.where(ends.isfinite(), starts + slopes * ends, torch.inf)
    segment = (at_end >= 0).to(torch.int64).argmax(1, keepdim=True)
    bottom, rise = starts.gather(1, segment), slopes.gather(1, segment)
    best = -bottom / rise.clamp_min(torch.finfo(rise.dtype).tiny)
    left = torch.cat((torch.zeros_like(slope), crossing), 1).gather(1, segment)
    # Cancellation in the running sums must not carry the step out of its own segment, nor to infinity.
    return torch.minimum(torch.maximum(best, left), ends.gather(1, segment)).clamp(max=1e12)


def mangasarian_epsilon(program: Standard) -> tuple[Tensor, Tensor, Tensor]:
    """The first of 1, .1, … 1e-8 that gives the dual of the one before it: from there on it is the least-norm dual.

    Returns:
        ε ``(b,)`` (NaN where none was found), and the duals of the inequalities and of the equalities.
    """
    b, y = program.c.shape[0], torch.zeros_like(program.c)
    chosen = program.c.new_full((b,), torch.nan)
    dual, dual_equality = torch.full_like(program.h, torch.nan), torch.full_like(program.f, torch.nan)
    for epsilon in (10.0**-k for k in range(9)):
        if not bool(chosen.isnan().any()):
            break
        penalised = minimise_penalty(program, program.c.new_full((b, 1), epsilon), y)
        z, w, y = penalised.rows / epsilon, penalised.equal / epsilon, penalised.y
        change = torch.maximum(largest(z - dual), largest(w - dual_equality))
        same = penalised.converged & chosen.isnan() & (change <= 1e-7 * (1.0 + largest(z)))
        chosen[same] = 10.0 * epsilon
        open_items = chosen.isnan() | same
        dual[open_items], dual_equality[open_items] = z[open_items], w[open_items]
    return chosen, dual, dual_equality


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
        result = no_result(program)
        x, y, z = result.point.x.clone(), result.point.y.clone(), result.point.z.clone()
        items, left, epsilon = torch.arange(len(x), device=x.device), program, self.epsilon
        limit = 200 if self.sketch is None else 2000  # rough Hessians take more, cheaper steps
        for _ in range(self.outer):
            eps = left.c.new_full((items.numel(), 1), epsilon)
            rough = left if self.sketch is None else self.sketch.apply(left)
            inner = minimise_penalty(rough, eps, x, (epsilon * z, epsilon * y), limit=limit)
            x, z, y = inner.y, inner.rows / epsilon, inner.equal / epsilon
            point, errors = certified(left, Point(x, y, z, z > 0), tol)
            good = errors.worst() <= tol
            outcome = torch.where(good, OPTIMAL, STALLED)
            result.put(items, SolverResult(point, outcome, errors, inner.steps))
            # Runaway iterates mean that there is no optimum to find; the caller's next solver proves it.
            more = ~good & inner.converged & (largest(x) < 1e6) & (largest(z) < 1e6)
            if not bool(more.any()):
                break
            items, left = items[more], left.take(more.nonzero().squeeze(1))
            x, y, z = x[more], y[more], z[more]
            epsilon = max(epsilon * self.factor, self.smallest)
        return result


@dataclass(frozen=True)
class PlainResult:
    """What the scheme ends with; nothing is certified.

    Attributes:
        x: The active rows' solution with its ridge, ``(…, v)``, attached to the graph.
        y: The last Newton iterate, attached if ``unroll``.
        dual: ``(Ay − b)₊ / ε``, ``(…, m)``.
        gradient_norm: ``‖Aᵀ(Ay − b)₊ + εc‖∞ / ε``, ``(…)``: small only where the iteration has converged.

    Example:
        >>> import torch, aimfor
        >>> result = aimfor.lp.plain_scheme(torch.ones(1), -torch.eye(1), torch.tensor([-3.0]), final_ridge=0.0)
        >>> result.x.tolist(), round(result.dual.item(), 6), bool(result.gradient_norm < 1e-6)
        ([3.0], 1.0, True)
    """

    x: Tensor
    y: Tensor
    dual: Tensor
    gradient_norm: Tensor


def plain_scheme(
    c: Tensor,
    A: Tensor,
    b: Tensor,
    *,
    epsilon: float = 1e-3,
    ridge: float = 1e-4,
    step: float = 1.0,
    iterations: int = 20,
    final_ridge: float = 0.01,
    unroll: bool = False,
) -> PlainResult:
    """Meng's Newton on ``½‖(Ay − b)₊‖² + ε c·y``, exactly as often as told, then x from the active rows.

    Args:
        c, A, b: Dense, with the same batch dimensions or none.
        epsilon: Penalty ε; 1e-3 in the authors' code.
        ridge: ρ of the Hessian; 1e-4 there.
        step: λ of (4); 1 there.
        iterations: 20 there.
        final_ridge: Added to ``ÃᵀÃ`` when x is read off the active rows; 0.01 there, which biases x by about 2 %.
        unroll: Keep the iterations in the graph.

    Example:
        >>> import torch, aimfor
        >>> r = aimfor.lp.plain_scheme(torch.ones(2), -torch.eye(2), torch.tensor([-3.0, -5.0]), final_ridge=0.0)
        >>> r.x.tolist()
        [3.0, 5.0]
    """
    epsilon = checks.number("epsilon", epsilon, above=0)
    ridge, step = checks.number("ridge", ridge, at_least=0), checks.number("step", step, above=0)
    iterations = checks.integer("iterations", iterations, at_least=1)
    final_ridge = checks.number("final_ridge", final_ridge, at_least=0)
    program = read_program(c, A, b)
    cost, rows, rhs = program.c, program.rows, program.rhs
    eye = torch.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    with torch.set_grad_enabled(unroll and torch.is_grad_enabled()):
        y = torch.linalg.solve(rows.mT @ rows + 1e-3 * eye, rows.mT @ rhs[:, :, None])
        for _ in range(iterations):
            over = (rows @ y - rhs[:, :, None]).clamp_min(0.0)
            gradient = rows.mT @ over + epsilon * cost[:, :, None]
            hessian = rows.mT @ ((over > 0) * rows) + ridge * eye
            y = y - step * torch.linalg.solve_ex(hessian, gradient)[0]
    over = (rows @ y - rhs[:, :, None]).clamp_min(0.0)
    active = (over > 0).to(rows.dtype)
    held = active * rows
    x = torch.linalg.solve_ex(held.mT @ held + final_ridge * eye, held.mT @ rhs[:, :, None])[0]
    slope = (rows.mT @ over + epsilon * cost[:, :, None]) / epsilon

    x, y, dual, norm = x[:, :, 0], y[:, :, 0], over[:, :, 0] / epsilon, slope.abs().amax((1, 2))
    return PlainResult(program.out(x), program.out(y), program.out(dual).detach(), program.out(norm).detach())
