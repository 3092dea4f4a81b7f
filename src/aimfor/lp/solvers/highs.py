"""HiGHS: its warm simplex method as a method (highspy), and as the fallback, one item at a time (through scipy)."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import InputError
from ..operators.base import Bounds, Operator
from ..program import Standard
from .base import (
    INFEASIBLE,
    OPTIMAL,
    STALLED,
    UNBOUNDED,
    ZERO,
    Method,
    Point,
    SolverResult,
    certified,
    no_result,
    residuals,
)


def available() -> bool:
    """Whether scipy, which brings HiGHS, can be imported."""
    return importlib.util.find_spec("scipy") is not None


class _Item(NamedTuple):
    """One program in numpy, its bounds as two arrays over the variables."""

    c: Any
    rows: Any
    rhs: Any
    equality_rows: Any
    equality_rhs: Any
    lower: Any
    upper: Any


#: x, the duals of rows and columns with HiGHS' signs, and the number of pivots; None where it found no optimum.
Answer = tuple[Any, Any, Any, int] | None


def solve_by_highs(program: Standard, tol: float) -> SolverResult:
    """Every item of the batch, in turn."""
    result = no_result(program)
    for i in torch.arange(len(program.c), device=program.c.device)[:, None]:
        result.put(i, _solve_item(program.take(i), tol))
    return result


def _solve_item(program: Standard, tol: float) -> SolverResult:
    """One item: its optimum, or the proof that there is none."""
    item = _numpy(program)
    result = _linprog(item)
    if result.status == 0:
        return _certify(program, [_answer(result)], tol)
    for proof, outcome in ((_farkas, INFEASIBLE), (_ray, UNBOUNDED)):
        point = proof(program, item)
        if point is not None:
            code = torch.tensor([outcome], device=program.c.device)
            return SolverResult(point, code, residuals(program, point), torch.zeros_like(code))
    return no_result(program)


def _numpy(program: Standard) -> _Item:
    rows, equality_rows = program.operator.to_scipy()
    h, m = program.h[0].cpu().numpy(), program.operator.general
    lower, upper = column_limits(program.operator.bounds, program.h[:, m:], len(program.c[0]))
    return _Item(program.c[0].cpu().numpy(), rows, h[:m], equality_rows, program.f[0].cpu().numpy(), lower[0], upper[0])


def column_limits(bounds: Bounds, rhs: Tensor, variables: int) -> tuple[Any, Any]:
    """Lower and upper bounds of the variables in numpy, ``(b, v)`` each, infinite where there are none."""
    import numpy as np

    columns, coefficients = bounds.columns.cpu().numpy(), bounds.coefficients.cpu().numpy()
    ends = rhs.cpu().numpy()
    limits = []
    for sign in (-1.0, 1.0):
        limit, here = np.full((len(ends), variables), sign * np.inf), (coefficients * sign > 0).any(0)
        given = coefficients[:, here] * sign > 0
        limit[:, columns[here]] = np.where(given, sign * ends[:, here], sign * np.inf)
        limits.append(limit)
    return limits[0], limits[1]


def _linprog(item: _Item) -> Any:
    import numpy as np

    optimize: Any = importlib.import_module("scipy.optimize")
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    bounds = np.stack((item.lower, item.upper), 1)
    return optimize.linprog(*item[:5], bounds=bounds, method="highs", options=options)


def _answer(result: Any) -> Answer:
    import numpy as np

    rows = np.append(result.ineqlin.marginals, result.eqlin.marginals)
    return result.x, rows, result.lower.marginals + result.upper.marginals, 0


def _farkas(program: Standard, item: _Item) -> Point | None:
    """Minimise the largest violation t: a positive minimum proves infeasibility, and its duals are the proof."""
    import numpy as np

    sparse: Any = importlib.import_module("scipy.sparse")  # its annotations refuse mixed blocks
    v, m, k = len(item.c), item.rows.shape[0], item.equality_rows.shape[0]
    equal = sparse.csr_matrix(item.equality_rows)
    rows = sparse.vstack([sparse.csr_matrix(item.rows), equal, -equal])
    rows = sparse.hstack([rows, -np.ones((m + 2 * k, 1))]).tocsr()
    rhs = np.concatenate((item.rhs, item.equality_rhs, -item.equality_rhs))
    lower, upper = np.append(item.lower, 0.0), np.append(item.upper, np.inf)
    result = _linprog(_Item(np.append(np.zeros(v), 1.0), rows, rhs, None, None, lower, upper))
    if result.status != 0 or result.fun <= 1e-9:
        return None
    duals, columns = result.ineqlin.marginals, result.lower.marginals + result.upper.marginals
    y, z = _duals(program, np.append(duals[:m], duals[m : m + k] - duals[m + k :])[None], columns[None, :v])
    scale = -float((program.h * z).sum() + (program.f * y).sum())
    return Point(torch.zeros_like(program.c), y / scale, z / scale, z > 0) if scale > 0 else None


def _ray(program: Standard, item: _Item) -> Point | None:
    """The steepest direction of a bounded cone section: a negative cost proves an unbounded objective."""
    import numpy as np

    lower, upper = np.where(np.isfinite(item.lower), 0.0, -1.0), np.where(np.isfinite(item.upper), 0.0, 1.0)
    result = _linprog(item._replace(rhs=0.0 * item.rhs, equality_rhs=0.0 * item.equality_rhs, lower=lower, upper=upper))
    if result.status != 0 or result.fun >= -1e-9:
        return None
    x = torch.as_tensor(result.x / -result.fun).to(program.c)[None]
    return Point(x, torch.zeros_like(program.f), torch.zeros_like(program.h), torch.zeros_like(program.h) > 0)


#: HiGHS' names for the two simplex methods.
DUAL, PRIMAL = 1, 4

#: Residuals from which on a vertex needs no polish.
EXACT = 1e-13


def highspy() -> Any:
    """The package; ImportError where it is missing, or where another package has loaded a HiGHS of its own."""
    return importlib.import_module("highspy")


class Highs(Method):
    """HiGHS' simplex method (``pip install highspy``), one item after another, each from the last one's basis.

    For programs that share their rows, small batches of small ones above all: a few pivots then are all that an item
    takes. The object keeps its last model, so that the next call with the same rows starts warm, too. Where a program
    has several optima, which vertex is returned depends on what was solved before.

    Example:
        >>> import torch, aimfor
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([4.0, 6.0])
        >>> aimfor.lp.solve(c, A, b, lower=0.0, method=Highs()).x.tolist()
        [3.0, 1.0]
    """

    def __init__(self) -> None:
        try:
            highspy()
        except ImportError as error:
            remedy = "Install it: pip install highspy (not beside a package with a HiGHS of its own, as ortools)."
            raise InputError("method", f"Highs() without highspy ({error})", "the package highspy", remedy) from None
        self._kept: _Model | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_kept": None}  # a model of HiGHS cannot be copied; the next call makes another

    def run(self, program: Standard, tol: float) -> SolverResult:
        import numpy as np

        model, self._kept = self._kept, None  # whoever calls at the same time from another thread makes its own
        g, shared, answers = program.operator, shares_rows(program.operator), []
        sides = torch.cat((program.h, program.f, g.bounds.coefficients.expand(len(program.h), -1)), 1)
        moved = [True, *(sides[1:] != sides[:-1]).any(1).tolist()]
        index = torch.tensor(moved).nonzero().squeeze(1).to(sides.device)
        h, f = program.h[index], program.f[index]
        columns = column_limits(g.bounds.take(index), h[:, g.general :], g.variables)
        limits = iter(np.concatenate((h[:, : g.general].cpu().numpy(), f.cpu().numpy(), *columns), 1))
        for i, c in enumerate(program.c.cpu().numpy()):
            if model is None or i == 0 or not shared:
                item = torch.tensor([i], device=program.c.device)
                rows = (g if shared else g.take(item)).to_scipy()
                if model is None or not model.has(rows):
                    model = _Model(rows)
            if moved[i]:
                ends = next(limits)
            if moved[i] or model.limits is None:
                model.limit(ends)
            answers.append(model.solve(c))
        self._kept = model
        return _certify(program, answers, tol)


def shares_rows(operator: Operator) -> bool:
    """Whether all items have the same rows, those of fixed variables included."""
    pins = operator.pinned.coefficients
    return operator.shared and (pins.shape[0] == 1 or bool((pins == pins[:1]).all()))


class _Model:
    """One model of HiGHS, whose costs and limits change from item to item."""

    def __init__(self, rows: tuple[Any, Any]) -> None:
        import numpy as np

        sparse: Any = importlib.import_module("scipy.sparse")
        package = highspy()
        matrix = sparse.vstack([sparse.csr_matrix(block) for block in rows]).tocsr()
        self.rows, self.general = rows, rows[0].shape[0]
        n, v = matrix.shape
        lp = package.HighsLp()
        lp.num_row_, lp.num_col_, lp.col_cost_ = n, v, np.zeros(v)
        lp.col_lower_, lp.col_upper_ = np.full(v, -np.inf), np.full(v, np.inf)
        lp.row_lower_, lp.row_upper_ = np.full(n, -np.inf), np.full(n, np.inf)
        lp.a_matrix_.format_ = package.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
        self.highs, self.optimal = package.Highs(), package.HighsModelStatus.kOptimal
        for name, value in {"output_flag": False, "threads": 1, "solver": "simplex"}.items():
            self.highs.setOptionValue(name, value)
        for kind in ("primal", "dual"):
            self.highs.setOptionValue(f"{kind}_feasibility_tolerance", 1e-10)
        self.highs.passModel(lp)
        self.column_index, self.row_index = np.arange(v, dtype=np.int32), np.arange(n, dtype=np.int32)
        self.limits: Any = None
        self.strategy, self.usual = 0, PRIMAL

    def has(self, rows: tuple[Any, Any]) -> bool:
        return all(_same(mine, other) for mine, other in zip(self.rows, rows, strict=True))

    def limit(self, limits: Any) -> None:
        """Other right-hand sides, lower and upper bounds, one after another."""
        import numpy as np

        if self.limits is not None and np.array_equal(limits, self.limits):
            return
        self.limits, n, v = limits, len(self.row_index), len(self.column_index)
        floor = limits[:n].copy()
        floor[: self.general] = -np.inf
        self.highs.changeRowsBounds(n, self.row_index, floor, limits[:n])
        self.highs.changeColsBounds(v, self.column_index, limits[n : n + v], limits[n + v :])
        self.begin(DUAL)  # the last vertex may not be feasible any more, its duals are
        # With other costs it is feasible. But where every variable has two bounds, any basis is dual feasible at the
        # right ends, and on wide programs that start takes a third of the pivots.
        self.usual = DUAL if v > n and np.isfinite(limits[n:]).all() else PRIMAL

    def begin(self, strategy: int) -> None:
        if strategy != self.strategy:
            self.strategy = strategy
            self.highs.setOptionValue("simplex_strategy", strategy)

    def solve(self, c: Any) -> Answer:
        import numpy as np

        self.highs.changeColsCost(len(c), self.column_index, c)
        self.highs.run()
        self.begin(self.usual)
        if self.highs.getModelStatus() != self.optimal:
            return None
        optimum = self.highs.getSolution()
        pivots = self.highs.getInfoValue("simplex_iteration_count")[1]
        return np.array(optimum.col_value), np.array(optimum.row_dual), np.array(optimum.col_dual), max(pivots, 0)


def _same(mine: Any, other: Any) -> bool:
    import numpy as np

    if mine.shape != other.shape or type(mine) is not type(other):
        return False
    return np.array_equal(mine, other) if isinstance(mine, np.ndarray) else (mine != other).nnz == 0


def _duals(program: Standard, rows: Any, columns: Any) -> tuple[Tensor, Tensor]:
    """y and z from HiGHS' duals of rows ``(b, general + equalities)`` and columns ``(b, v)``."""
    g = program.operator
    row_dual, column_dual = (torch.as_tensor(duals).to(program.c) for duals in (rows, columns))
    z = torch.cat((row_dual[:, : g.general], g.bounds.rows(column_dual)), 1).neg_().clamp_min_(0.0)
    return -row_dual[:, g.general :], z


def _certify(program: Standard, answers: list[Answer], tol: float) -> SolverResult:
    """The answers in our terms, polished and measured as every method's are."""
    import numpy as np

    g = program.operator
    nothing = (np.zeros(g.variables), np.zeros(g.general + g.equalities), np.zeros(g.variables), 0)
    x, rows, columns, pivots = map(np.asarray, zip(*(answer or nothing for answer in answers), strict=True))
    (y, z), primal = _duals(program, rows, columns), torch.as_tensor(x).to(program.c)
    values = g.at(primal)
    slack = program.h - values[0]
    point = Point(primal, y, z, (slack <= ZERO) | (z > slack))
    errors = residuals(program, point, values)
    if not bool((errors.worst() <= EXACT).all()):  # as a vertex that was never perturbed is
        point, errors = certified(program, point, tol)
        point = replace(point, firm=None)
    solved = torch.tensor([answer is not None for answer in answers], device=primal.device)
    outcome = torch.where(solved & (errors.worst() <= tol), OPTIMAL, STALLED)
    errors = errors.map(lambda error: torch.where(solved, error, torch.inf))
    return SolverResult(point, outcome, errors, torch.as_tensor(pivots).to(outcome))
