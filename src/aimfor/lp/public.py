"""`solve`: a differentiable linear program with a certificate."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..engine import Status
from ..errors import InputError, SolverError
from .gradients import GradientRule, VertexOrRefuse
from .operators.structured import PairRows
from .problem import read_program
from .solution import LPSolution, assemble
from .solvers.base import Method
from .solvers.chain import solve_standard
from .solvers.methods import InteriorPoint
from .solvers.newton import mangasarian_epsilon
from .solvers.warm import Auto
from .standard import equilibrate, standard_form

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
    method: Method | str | None = None,
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
        gradient: What ∂x is: `ActiveSet`, `Envelope`, `Implicit`, `Unrolled`, `BlackBox` or `Perturbed`. The default is
            `ActiveSet`, and refuses a backward pass that reaches c alone, for which its gradient is zero. The value's
            gradient is the envelope's under every rule.
        method: `InteriorPoint` (default), `Highs` or `PenaltyNewton`; ``"auto"`` takes `Highs` where it is installed
            and quicker by a measured rule, and the default elsewhere.
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
    rule = VertexOrRefuse() if gradient is None else instance("gradient", gradient, GradientRule, "ActiveSet()")
    solver = read_method(method)
    program = read_program(c, A, b, A_eq, b_eq, lower, upper)
    with torch.no_grad():
        standard, layout = standard_form(program.detached())
        scaled, scaling = equilibrate(standard)
        rerun = partial(solve_standard, method=solver, tol=tol, fallback=on_failure != "status")
        found, statuses = rerun(scaled)
    if on_failure == "raise":
        raise_unless_solved(statuses)
    return assemble(program, standard, scaled, scaling, layout, found, statuses, rule, rerun)


def read_method(method: Any) -> Method:
    """The object that a method is given by."""
    if method is None:
        return InteriorPoint()
    found: Method = Auto() if method == "auto" else instance("method", method, Method, 'InteriorPoint() or "auto"')
    return found


def instance(name: str, value: Any, kind: type, example: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(name, f"{value!r}", f"a {kind.__name__} object, such as {example}")
    return value


def raise_unless_solved(statuses: list[Status]) -> None:
    bad = {i: s for i, s in enumerate(statuses) if s not in (Status.ok, Status.fallback)}
    if bad:
        first, status = next(iter(bad.items()))
        raise SolverError(
            f"{len(bad)} of {len(statuses)} programs have no certified optimum; item {first}: {status.message}. "
            f"Next: {status.remedy}."
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

    Example:
        >>> import torch, aimfor
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([4.0, 6.0])
        >>> 0.0 < choose_epsilon(c, A, b, lower=0.0).item() <= 1.0
        True

    References:
        Mangasarian, A Newton method for linear programming, 2004.
    """
    program = read_program(c, A, b, A_eq, b_eq, lower, upper).detached()
    with torch.no_grad():
        scaled, _ = equilibrate(standard_form(program)[0])
        return mangasarian_epsilon(scaled)[0].reshape(program.shape)
