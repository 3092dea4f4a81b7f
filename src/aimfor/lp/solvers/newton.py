"""Mangasarian's exterior penalty, minimised by Newton's method with an exact line search.

    g(y) = ε c·y + ½ ‖(Gy − h + u)₊‖² + ½ ‖Ey − f + w‖²

With u = w = 0 this is Meng's (3). Its step goes *down*, ``y − t (G'DG + E'E + ρI)⁻¹ ∇g``, and t is found exactly: along
a ray g is piecewise quadratic, so sorting the m breakpoints gives the minimum in O(m log m). Full steps without a line
search cycle on general programs. With u = ε z the same problem is one step of the method of multipliers, whose duals
``(Gy − h + u)₊ / ε`` converge without ε going to zero.

References:
    Mangasarian, A Newton method for linear programming, 2004.
    Meng, Mukherjee, Wu, Singh, Ravi, Differentiable optimization of generalized nondecomposable functions using linear
    programs, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..operators.base import Operator
from ..operators.woodbury import WoodburyFactor
from ..standard import Standard, largest

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
    items, part, point = torch.arange(start.shape[0], device=start.device), program, start
    for count in range(limit + 1):
        eps = epsilon[items]
        over, off = _violation(part, point)
        gradient = eps * part.c + part.operator.combined(over.clamp_min(0.0), off)
        done = largest(gradient) <= tol * eps[:, 0]
        steps[items] = count
        if bool(done.any()) or count == limit:
            y[items], rows[items], equal[items] = point, over.clamp_min(0.0), off
            converged[items] = done
            keep = (~done).nonzero().squeeze(1)
            if not keep.numel() or count == limit:
                break
            items, part, point = items[keep], part.take(keep), point[keep]
            over, off, gradient, eps = over[keep], off[keep], gradient[keep], eps[keep]
        active = (over > 0).to(point.dtype)
        factor = (WoodburyFactor if part.operator.wide else Operator.factor)(part.operator, active, STEP_RIDGE)
        direction = -factor.solve(gradient[:, :, None])[:, :, 0]
        point = point + _exact_step(part, eps, over, off, direction) * direction
    return Penalised(y, rows, equal, converged, steps)


def _violation(program: Standard, y: Tensor) -> tuple[Tensor, Tensor]:
    rows, equal = program.operator.at(y)
    return rows - program.h, equal - program.f


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


def mangasarian_epsilon(
    program: Standard,
    near: Tensor | None = None,
    *,
    start: float = 1.0,
    factor: float = 0.1,
    smallest: float = 1e-8,
    tol: float = 1e-7,
) -> tuple[Tensor, Tensor, Tensor]:
    """The first ε at which two successive values give the same dual: from there on it is the least-norm dual.

    ``near`` is where the first minimisation starts: the optimum, where it is known, saves steps.

    Returns:
        ε ``(b,)`` (NaN where none was found), and the duals of the inequalities and of the equalities.
    """
    b = program.c.shape[0]
    y, epsilon = torch.zeros_like(program.c) if near is None else near, start
    chosen = program.c.new_full((b,), torch.nan)
    dual, dual_equality = torch.full_like(program.h, torch.nan), torch.full_like(program.f, torch.nan)
    while epsilon >= smallest and bool(chosen.isnan().any()):
        found = minimise_penalty(program, program.c.new_full((b, 1), epsilon), y)
        z, w, y = found.rows / epsilon, found.equal / epsilon, found.y
        change = torch.maximum(largest(z - dual), largest(w - dual_equality))
        same = found.converged & chosen.isnan() & (change <= tol * (1.0 + largest(z)))
        chosen[same] = epsilon / factor
        open_items = chosen.isnan() | same
        dual[open_items], dual_equality[open_items] = z[open_items], w[open_items]
        epsilon *= factor
    return chosen, dual, dual_equality
