"""`solve`: a differentiable linear program with a certificate."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..engine import Status
from ..errors import InputError, SolverError
from . import highs
from .gradients import ActiveSet, GradientRule, Solved, value_with_envelope
from .interior import INFEASIBLE, OPTIMAL, STALLED, UNBOUNDED
from .methods import Found, InteriorPoint, Method
from .newton import mangasarian_epsilon
from .program import Program, read_program
from .solution import LPSolution
from .standard import Layout, Scaling, Standard, equilibrate, positive, standard_form
from .structured import PairRows

ON_FAILURE = ("fallback", "status", "raise")


def solve(
    c: Tensor,
    A: Tensor | PairRows | None = None,
    b: Tensor | None = None,
    *,
    A_eq: Tensor | None = None,
    b_eq: Tensor | None = None,
    lower: Tensor | float | None = None,
    upper: Tensor | float | None = None,
    gradient: GradientRule | None = None,
    method: Method | None = None,
    tol: float = 1e-9,
    on_failure: str = "fallback",
) -> LPSolution:
    """Solves ``min c·x  s.t.  A x <= b, A_eq x = b_eq, lower <= x <= upper``, a batch at once.

    Computed in float64 whatever comes in, rounded to the arguments' dtype at the end. Variables are free unless
    bounded (there is no implicit ``x >= 0``).

    Args:
        c: ``(…, v)`` costs.
        A: ``(…, m, v)``, dense, or one sparse CSR matrix ``(m, v)``, or `PairRows`; None without inequalities.
        b: ``(…, m)``.
        A_eq: ``(…, k, v)``; None without equalities.
        b_eq: ``(…, k)``.
        lower: ``(…, v)`` or one number; −inf for no bound.
        upper: ``(…, v)`` or one number; inf for no bound.
        gradient: What ∂x is: `ActiveSet` (default), `Envelope`, `Implicit` or `Unrolled`. The value's gradient is the
            envelope's under every rule.
        method: `InteriorPoint` (default) or `PenaltyNewton`.
        tol: Largest residual that counts as solved.
        on_failure: What to do with an item that could not be certified: ``"fallback"`` hands it to HiGHS,
            ``"status"`` returns it as ``Status.not_converged``, ``"raise"`` is the fallback, then an exception if any
            item has no optimum.

    Every part has the same batch dimensions, or none; nothing of size 1 is broadcast.

    Returns:
        `LPSolution`.

    Raises:
        InputError: Wrong shapes, dtypes, devices, NaN, ``lower > upper``.
        SolverError: With ``on_failure="raise"``.

    Example:
        >>> import torch, aimfor
        >>> c = torch.tensor([-1.0, -2.0])
        >>> A = torch.tensor([[1.0, 1.0], [1.0, 3.0]])
        >>> b = torch.tensor([4.0, 6.0], requires_grad=True)
        >>> solution = aimfor.lp.solve(c, A, b, lower=0.0)
        >>> solution.x.tolist(), solution.value.item(), solution.status.name
        ([3.0, 1.0], -5.0, 'ok')
        >>> solution.value.backward()
        >>> b.grad.tolist()
        [-0.5, -0.5]
    """
    tol = checks.number("tol", tol, above=0, below=1e-2)
    checks.one_of("on_failure", on_failure, ON_FAILURE)
    rule = _instance("gradient", gradient, GradientRule, ActiveSet())
    solver = _instance("method", method, Method, InteriorPoint())
    program = read_program(c, A, b, A_eq, b_eq, lower, upper)
    with torch.no_grad():
        standard, layout = standard_form(program.detached())
        scaled, scaling = equilibrate(standard)
        found, statuses = _solve_standard(scaled, solver, tol, on_failure != "status")
    if on_failure == "raise":
        _raise_unless_solved(statuses)
    return _assemble(program, scaled, scaling, layout, found, statuses, rule)


def _instance(name: str, value: Any, kind: type, default: Any) -> Any:
    if value is None:
        return default
    if not isinstance(value, kind):
        raise InputError(name, f"{value!r}", f"a {kind.__name__} object, such as {type(default).__name__}()")
    return value


def _solve_standard(program: Standard, method: Method, tol: float, fallback: bool) -> tuple[Found, list[Status]]:
    """The method, then the interior point for what it could not certify, then HiGHS."""
    found = method.run(program, tol)
    by_highs = torch.zeros_like(found.outcome, dtype=torch.bool)
    if not isinstance(method, InteriorPoint):
        _again(program, found, lambda part: InteriorPoint().run(part, tol))
    _confirm_unbounded(program, found, tol)
    if fallback and highs.available():
        before = found.outcome == STALLED
        _again(program, found, lambda part: highs.solve_by_highs(part, tol))
        by_highs = before & (found.outcome == OPTIMAL)
    names = {
        OPTIMAL: Status.ok,
        INFEASIBLE: Status.infeasible,
        UNBOUNDED: Status.unbounded,
        STALLED: Status.not_converged,
    }
    statuses = [names[code] for code in found.outcome.tolist()]
    for i in by_highs.nonzero().squeeze(1).tolist():
        statuses[i] = Status.fallback
    return found, statuses


def _again(program: Standard, found: Found, run: Any) -> None:
    """Another solver for the items that are not certified; its answer is taken unless it knows no more."""
    items = (found.outcome == STALLED).nonzero().squeeze(1)
    if items.numel():
        part = run(program.take(items))
        wiser = (part.outcome != STALLED) | (part.residuals.worst() < found.residuals.worst()[items])
        if bool(wiser.any()):
            index = wiser.nonzero().squeeze(1)
            found.put(items[index], part.take(index))


def _confirm_unbounded(program: Standard, found: Found, tol: float) -> None:
    """A ray proves an unbounded objective only where there is a feasible point to start from."""
    items = (found.outcome == UNBOUNDED).nonzero().squeeze(1)
    if not items.numel():
        return
    part = program.take(items)
    feasible = InteriorPoint().run(Standard(part.operator, torch.zeros_like(part.c), part.h, part.f), tol)
    wrong = (feasible.outcome != OPTIMAL).nonzero().squeeze(1)
    if wrong.numel():
        found.put(items[wrong], feasible.take(wrong))


def _raise_unless_solved(statuses: list[Status]) -> None:
    bad = {i: s for i, s in enumerate(statuses) if s not in (Status.ok, Status.fallback)}
    if bad:
        first, status = next(iter(bad.items()))
        raise SolverError(
            f"{len(bad)} of {len(statuses)} programs have no certified optimum; item {first}: {status.message}. "
            f"Next: {status.remedy}."
        )


def _assemble(
    program: Program,
    scaled: Standard,
    scaling: Scaling,
    layout: Layout,
    found: Found,
    statuses: list[Status],
    rule: GradientRule,
) -> LPSolution:
    point, outcome, m, k = found.point, found.outcome, layout.general, layout.equalities
    infeasible, unbounded = outcome == INFEASIBLE, outcome == UNBOUNDED
    good = ~(infeasible | unbounded)
    solved = Solved(scaled, scaling, layout, point, good)
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
    held = point.active.sum(1) + scaled.operator.equalities
    shape, dtype = program.shape, program.dtype

    def out(part: Tensor) -> Tensor:
        return part.reshape(shape + part.shape[1:]).to(dtype)

    return LPSolution(
        out(rule.argmin(program, solved, x)),
        out(value_with_envelope(program, solved, value)),
        out(z[:, :m]),
        out(y[:, :k]),
        out(lower),
        out(upper),
        found.residuals.reshape(shape),
        tuple(statuses),
        found.steps.reshape(shape),
        out(ray),
        point.active[:, :m].reshape(*shape, m),
        (good & (held == x.shape[1])).reshape(shape),
    )


def choose_epsilon(
    c: Tensor,
    A: Tensor | PairRows | None = None,
    b: Tensor | None = None,
    *,
    A_eq: Tensor | None = None,
    b_eq: Tensor | None = None,
    lower: Tensor | float | None = None,
    upper: Tensor | float | None = None,
) -> Tensor:
    """ε of the exterior penalty by Mangasarian's rule: the first at which the next smaller one gives the same dual.

    From there on the penalty's dual ``(Ay − b)₊ / ε`` is the exact least-norm dual of the equilibrated program.

    Returns:
        One ε for each item, over the batch shape; NaN where none was found (no optimum, or duals that are too large).

    References:
        Mangasarian, A Newton method for linear programming, 2004.
    """
    program = read_program(c, A, b, A_eq, b_eq, lower, upper).detached()
    with torch.no_grad():
        scaled, _ = equilibrate(standard_form(program)[0])
        return mangasarian_epsilon(scaled)[0].reshape(program.shape)
