"""What `solve` returns: the answer, its certificate, and how it came about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..engine import Status
from ..errors import SolverError
from .adjoint import Solved, value_with_envelope
from .gradients import GradientRule
from .program import Layout, Program, Scaling, Standard, largest, positive
from .solvers.base import INFEASIBLE, UNBOUNDED, Residuals, SolverResult, firm_vertex

#: From an equilibrated program to what was found, and how each item ended.
Rerun = Callable[[Standard], tuple[SolverResult, list[Status]]]

#: Worst first: the status of a batch is the first of these that any item has.
_SEVERITY = (Status.not_converged, Status.infeasible, Status.unbounded, Status.fallback, Status.ok)


@dataclass(frozen=True)
class LPSolution:
    """Optimum of ``min c·x, A x <= b, A_eq x = b_eq, lower <= x <= upper``, over the batch shape of the arguments.

    The duals satisfy ``c + Aᵀ dual_ineq + A_eqᵀ dual_eq − dual_lower + dual_upper = 0``, all but ``dual_eq``
    nonnegative.

    Attributes:
        x: ``(…, v)``, with the gradient rule's gradient. NaN where there is no optimum.
        value: ``(…)``, with the envelope gradient. inf where infeasible, −inf where unbounded.
        dual_ineq, dual_eq: ``(…, m)`` and ``(…, k)``, detached.
        dual_lower, dual_upper: ``(…, v)``, detached.
        residuals: Primal, dual and gap errors, ``(…)`` each, measured in the equilibrated program.
        statuses: How each item ended, in row-major order.
        iterations: ``(…)``, Newton steps.
        ray: ``(…, v)``; for an unbounded item a direction in which the objective falls for ever, zero elsewhere.
        active: ``(…, m)``, the inequalities that hold the optimum.
        unique: ``(…)``, False where the active constraints leave x or the duals some freedom (degenerate programs), or
            are so nearly parallel that they might: gradients are then one choice among several.

    For an infeasible item the duals are a Farkas certificate: they weigh the constraints into the contradiction
    ``0·x <= −1``, and its nonzero entries name the culprits.

    Example:
        >>> import torch, aimfor
        >>> solution = aimfor.lp.solve(torch.tensor([1.0, -1.0]), lower=0.0, upper=2.0)
        >>> solution.x.tolist(), solution.value.item(), solution.status.name
        ([0.0, 2.0], -2.0, 'ok')
        >>> solution.dual_lower.tolist(), solution.dual_upper.tolist()
        ([1.0, 0.0], [0.0, 1.0])
    """

    x: Tensor
    value: Tensor
    dual_ineq: Tensor
    dual_eq: Tensor
    dual_lower: Tensor
    dual_upper: Tensor
    residuals: Residuals
    statuses: tuple[Status, ...]
    iterations: Tensor
    ray: Tensor
    active: Tensor
    unique: Tensor

    @property
    def status(self) -> Status:
        """The worst status of the batch."""
        return next((status for status in _SEVERITY if status in self.statuses), Status.ok)


def assemble(
    program: Program,
    original: Standard,
    scaled: Standard,
    scaling: Scaling,
    layout: Layout,
    result: SolverResult,
    statuses: list[Status],
    rule: GradientRule,
    rerun: Rerun,
) -> LPSolution:
    point, outcome, m, k = result.point, result.outcome, layout.general, layout.equalities
    infeasible, unbounded = outcome == INFEASIBLE, outcome == UNBOUNDED
    good = ~(infeasible | unbounded)
    solved = Solved(scaled, scaling, layout, point, original, good, partial(_again, scaled, scaling, good, rerun))
    raw = scaling.primal(point.x)
    # Certificates are directions: only their proportions matter, so they keep the normalisation h·z + f·y = −1.
    shrink = torch.where(infeasible[:, None], 1.0 / (scaling.cost * scaling.size), 1.0)
    z, y = scaling.dual(point.z) * shrink, scaling.dual_equality(point.y) * shrink
    x = torch.where(good[:, None], raw, torch.nan)
    value = (program.c.detach() * x).sum(1)
    value = torch.where(infeasible, torch.inf, torch.where(unbounded, -torch.inf, value))
    lower, upper = torch.zeros_like(x), torch.zeros_like(x)
    lower.index_add_(1, layout.lower, z[:, m : m + layout.lower.numel()])
    upper.index_add_(1, layout.upper, z[:, m + layout.lower.numel() :])
    lower.index_add_(1, layout.fixed, -y[:, k:].clamp_max(0.0))
    upper.index_add_(1, layout.fixed, y[:, k:].clamp_min(0.0))
    ray = torch.where(unbounded[:, None], raw / positive(raw.abs().amax(1, keepdim=True)), 0.0)
    pins = (scaled.operator.pinned.coefficients != 0).sum(1)  # none where another item of the batch fixes a variable
    held = point.active.sum(1) + scaled.operator.equal + pins
    single = good & (held == x.shape[1])
    if bool(single.any()):
        single &= firm_vertex(scaled, point) if point.firm is None else point.firm
    shape, out = program.shape, program.out
    return LPSolution(
        out(rule.argmin(program, solved, x)),
        out(value_with_envelope(program, solved, value)),
        out(z[:, :m]),
        out(y[:, :k]),
        out(lower),
        out(upper),
        result.residuals.map(lambda error: error.reshape(shape)),
        tuple(statuses),
        result.steps.reshape(shape),
        out(ray),
        point.active[:, :m].reshape(*shape, m),
        single.reshape(shape),
    )


def at_costs(program: Standard, scaling: Scaling, rerun: Rerun, costs: Tensor) -> tuple[Tensor, list[Status], Tensor]:
    """The optima of other costs, s copies of the batch ``(s·b, v)``; how each ended; which item of the batch it is."""
    b = program.c.shape[0]
    items = torch.arange(b, device=costs.device).repeat(costs.shape[0] // b)
    copies = program if costs.shape[0] == b else program.take(items)
    with torch.no_grad():
        column = scaling.column[items]
        c = costs * column
        result, statuses = rerun(Standard(copies.operator, c / positive(largest(c)[:, None]), copies.h, copies.f))
        return result.point.x * column * scaling.size[items], statuses, items


def _again(program: Standard, scaling: Scaling, good: Tensor, rerun: Rerun, costs: Tensor) -> Tensor:
    """The optima of other costs, as `at_costs`; NaN for items that had none before."""
    x, statuses, items = at_costs(program, scaling, rerun, costs)
    for item, status in zip(items.tolist(), statuses, strict=True):
        if good[item] and status not in (Status.ok, Status.fallback):
            raise SolverError(
                f"item {item}: {status.message} at the costs that the gradient rule tries. Next: {status.remedy}."
            )
    return torch.where(good[items, None], x, torch.nan)
