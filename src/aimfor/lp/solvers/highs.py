"""The fallback: one item at a time to HiGHS through scipy, with certificates for what it declares impossible."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..certificates import Point, polish, residuals
from ..standard import Standard
from .base import INFEASIBLE, OPTIMAL, STALLED, UNBOUNDED, SolverResult


def available() -> bool:
    """Whether scipy, which brings HiGHS, can be imported."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return False
    return True


@dataclass(frozen=True)
class _Item:
    """One program in numpy: general rows, equality rows, bounds as arrays, and where each bound row stands."""

    c: Any
    rows: Any
    rhs: Any
    equality_rows: Any
    equality_rhs: Any
    lower: Any
    upper: Any


def solve_by_highs(program: Standard, tol: float) -> SolverResult:
    """Every item of the batch, in turn."""
    parts = [_solve_one(program.take(torch.tensor([i], device=program.c.device)), tol) for i in range(len(program.c))]
    points = [part.point for part in parts]
    errors = [part.residuals for part in parts]
    return SolverResult(
        Point(*(torch.cat([getattr(p, name) for p in points]) for name in ("x", "y", "z", "active"))),
        torch.cat([part.outcome for part in parts]),
        type(errors[0])(*(torch.cat([getattr(e, name) for e in errors]) for name in ("primal", "dual", "gap"))),
        torch.cat([part.steps for part in parts]),
    )


def _solve_one(program: Standard, tol: float) -> SolverResult:
    item = _numpy(program)
    result = _linprog(item.c, item.rows, item.rhs, item.equality_rows, item.equality_rhs, item.lower, item.upper)
    if result.status == 0:
        return _optimal(program, result, tol)
    infeasible = _farkas(program, item)
    if infeasible is not None:
        return infeasible
    ray = _ray(program, item)
    return ray if ray is not None else _found(program, None, STALLED)


def _numpy(program: Standard) -> _Item:
    rows, equality_rows = program.operator.to_scipy()
    lower, upper = column_limits(program)
    h, m = program.h[0].cpu().numpy(), program.operator.general
    return _Item(program.c[0].cpu().numpy(), rows, h[:m], equality_rows, program.f[0].cpu().numpy(), lower[0], upper[0])


def column_limits(program: Standard) -> tuple[Any, Any]:
    """Lower and upper bounds of the variables in numpy, ``(b, v)`` each, infinite where there are none."""
    import numpy as np

    bounds, shape = program.operator.bounds, tuple(program.c.shape)
    columns, coefficients = bounds.columns.cpu().numpy(), bounds.coefficients.cpu().numpy()
    ends = program.h[:, program.operator.general :].cpu().numpy()
    limits = []
    for sign in (-1.0, 1.0):
        limit, here = np.full(shape, sign * np.inf), (coefficients * sign > 0).any(0)
        given = coefficients[:, here] * sign > 0
        limit[:, columns[here]] = np.where(given, sign * ends[:, here], sign * np.inf)
        limits.append(limit)
    return limits[0], limits[1]


def _linprog(c: Any, rows: Any, rhs: Any, equality_rows: Any, equality_rhs: Any, lower: Any, upper: Any) -> Any:
    import numpy as np

    optimize: Any = importlib.import_module("scipy.optimize")
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return optimize.linprog(
        c,
        A_ub=rows if rows.shape[0] else None,
        b_ub=rhs if rows.shape[0] else None,
        A_eq=equality_rows if equality_rows.shape[0] else None,
        b_eq=equality_rhs if equality_rows.shape[0] else None,
        bounds=np.stack((lower, upper), 1),
        method="highs",
        options=options,
    )


def _bound_duals(program: Standard, result: Any) -> Any:
    """HiGHS' marginals of the bounds, in the order of our bound rows, nonnegative."""
    import numpy as np

    bounds = program.operator.bounds
    columns, coefficients = bounds.columns.cpu().numpy(), bounds.coefficients[0].cpu().numpy()
    tail = np.where(coefficients < 0, result.lower.marginals[columns], -result.upper.marginals[columns])
    return np.where(coefficients != 0, tail, 0.0)


def _row(values: Any, like: Tensor) -> Tensor:
    return torch.as_tensor(values, dtype=like.dtype, device=like.device)[None]


def _optimal(program: Standard, result: Any, tol: float) -> SolverResult:
    x, operator = _row(result.x, program.c), program.operator
    general = -result.ineqlin.marginals if operator.general else ()
    z = _row([*general, *_bound_duals(program, result)], x).clamp_min(0.0)
    y = _row(-result.eqlin.marginals if operator.equalities else (), x)
    slack = program.h - program.operator.at(x)[0]
    rough = Point(x, y, z, (z > slack) | (slack <= 1e-9))
    sharp = polish(program, rough)
    best = min((rough, sharp), key=lambda point: float(residuals(program, point).worst()))
    outcome = OPTIMAL if float(residuals(program, best).worst()) <= tol else STALLED
    return _found(program, best, outcome)


def _farkas(program: Standard, item: _Item) -> SolverResult | None:
    """Minimise the largest violation t: a positive minimum proves infeasibility, and its duals are the proof."""
    import numpy as np

    sparse: Any = importlib.import_module("scipy.sparse")  # its annotations refuse mixed blocks
    v, m, k = len(item.c), item.rows.shape[0], item.equality_rows.shape[0]
    blocks = [
        sparse.csr_matrix(item.rows),
        sparse.csr_matrix(item.equality_rows),
        -sparse.csr_matrix(item.equality_rows),
    ]
    rows = sparse.hstack([sparse.vstack(blocks), -np.ones((m + 2 * k, 1))]).tocsr()
    rhs = np.concatenate((item.rhs, item.equality_rhs, -item.equality_rhs))
    lower, upper = np.append(item.lower, 0.0), np.append(item.upper, np.inf)
    none = np.zeros((0, v + 1))
    result = _linprog(np.append(np.zeros(v), 1.0), rows, rhs, none, np.zeros(0), lower, upper)
    if result.status != 0 or result.fun <= 1e-9:
        return None
    duals = -result.ineqlin.marginals if m + k else np.zeros(0)
    z = _row([*duals[:m], *_bound_duals(program, result)], program.c).clamp_min(0.0)
    y = _row(duals[m : m + k] - duals[m + k :], program.c)
    scale = -float((program.h * z).sum() + (program.f * y).sum())
    if scale <= 0:
        return None
    point = Point(torch.zeros_like(program.c), y / scale, z / scale, z > 0)
    return _found(program, point, INFEASIBLE)


def _ray(program: Standard, item: _Item) -> SolverResult | None:
    """The steepest direction of a bounded cone section: a negative cost proves an unbounded objective."""
    import numpy as np

    lower = np.where(np.isfinite(item.lower), 0.0, -1.0)
    upper = np.where(np.isfinite(item.upper), 0.0, 1.0)
    zero_rhs, zero_equality = np.zeros_like(item.rhs), np.zeros_like(item.equality_rhs)
    result = _linprog(item.c, item.rows, zero_rhs, item.equality_rows, zero_equality, lower, upper)
    if result.status != 0 or result.fun >= -1e-9:
        return None
    x = _row(result.x / -result.fun, program.c)
    return _found(
        program,
        Point(x, torch.zeros_like(program.f), torch.zeros_like(program.h), torch.zeros_like(program.h) > 0),
        UNBOUNDED,
    )


def _found(program: Standard, point: Point | None, outcome: int) -> SolverResult:
    if point is None:
        empty = torch.zeros_like(program.h)
        point = Point(torch.zeros_like(program.c), torch.zeros_like(program.f), empty, empty > 0)
    code = torch.tensor([outcome], device=program.c.device)
    return SolverResult(point, code, residuals(program, point), torch.zeros_like(code))
