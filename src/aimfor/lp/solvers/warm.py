"""The simplex method of HiGHS as a method: each item starts at the optimum of the one before it."""

from __future__ import annotations

import importlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ..certificates import ZERO, Point, Residuals, residuals
from ..operators.base import Operator
from ..operators.dense import DenseOperator
from ..operators.sparse import SparseOperator
from ..standard import Standard
from .base import OPTIMAL, STALLED, Method, SolverResult, certified
from .highs import column_limits
from .methods import InteriorPoint

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
        shared, (lower, upper) = shares_rows(program.operator), column_limits(program)
        right = torch.cat((program.h[:, : program.operator.general], program.f), 1).cpu().numpy()
        limits, c, answers = np.concatenate((right, lower, upper), 1), program.c.cpu().numpy(), []
        moved = [True, *(limits[1:] != limits[:-1]).any(1).tolist()]
        for i in range(len(c)):
            if model is None or i == 0 or not shared:
                part = program.operator if shared else program.operator.take(torch.tensor([i], device=program.c.device))
                rows = part.to_scipy()
                if model is None or not model.has(rows):
                    model = _Model(rows)
            if moved[i] or model.limits is None:
                model.limit(limits[i])
            answers.append(model.solve(c[i]))
        self._kept = model
        return _certify(program, answers, tol)


class Auto(Method):
    """`Highs` where it is installed and quicker, else `InteriorPoint`: what ``method="auto"`` means.

    A simplex step from a warm basis costs microseconds for each item,
    an interior step of a batch hundreds of them for all items together.
    """

    def __init__(self) -> None:
        self.interior, self.simplex = InteriorPoint(), None
        with suppress(InputError):
            self.simplex = Highs()

    def choose(self, program: Standard) -> Method:
        return self.interior if self.simplex is None or not simplex_pays(program) else self.simplex

    def run(self, program: Standard, tol: float) -> SolverResult:
        return self.choose(program).run(program, tol)


#: Up to here a warm simplex was quicker than the interior point (`python paper/benchmarks/bench_lp_auto.py`).
PAYS = 60_000


def simplex_pays(program: Standard) -> bool:
    """Shared rows that are sparse, or few pivots times their length in the whole batch.

    There are about as many pivots as rows or variables, whichever are fewer, and each touches what is not zero in a row
    and a column.
    """
    g = program.operator
    if isinstance(g, SparseOperator) or not shares_rows(g):
        return shares_rows(g)
    rows = g.general + g.equal
    work: float = g.batch * min(rows, g.variables) * (rows + g.variables)
    if work > PAYS and isinstance(g, DenseOperator):
        work *= sum(int(part.count_nonzero()) for part in (g.rows, g.equality_rows)) / (rows * g.variables)
    return work <= PAYS


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
        matrix = sparse.vstack([sparse.csr_matrix(part) for part in rows]).tocsr()
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
        self.columns, self.places = np.arange(v, dtype=np.int32), np.arange(n, dtype=np.int32)
        self.limits: Any = None
        self.strategy, self.usual = 0, PRIMAL

    def has(self, rows: tuple[Any, Any]) -> bool:
        return all(_same(mine, other) for mine, other in zip(self.rows, rows, strict=True))

    def limit(self, limits: Any) -> None:
        """Other right-hand sides, lower and upper bounds, one after another."""
        import numpy as np

        if self.limits is not None and np.array_equal(limits, self.limits):
            return
        self.limits, n, v = limits, len(self.places), len(self.columns)
        floor = limits[:n].copy()
        floor[: self.general] = -np.inf
        self.highs.changeRowsBounds(n, self.places, floor, limits[:n])
        self.highs.changeColsBounds(v, self.columns, limits[n : n + v], limits[n + v :])
        self.begin(DUAL)  # the last vertex may not be feasible any more, its duals are
        # With other costs it is feasible. But where every variable has two bounds, any basis is dual feasible at the
        # right ends, and on wide programs that start takes a third of the pivots.
        self.usual = DUAL if v > n and np.isfinite(limits[n:]).all() else PRIMAL

    def begin(self, strategy: int) -> None:
        if strategy != self.strategy:
            self.strategy = strategy
            self.highs.setOptionValue("simplex_strategy", strategy)

    def solve(self, c: Any) -> tuple[Any, Any, Any, int] | None:
        """x, the duals of rows and columns, and the number of pivots; None where HiGHS found no optimum."""
        import numpy as np

        self.highs.changeColsCost(len(c), self.columns, c)
        self.highs.run()
        self.begin(self.usual)
        if self.highs.getModelStatus() != self.optimal:
            return None
        found = self.highs.getSolution()
        pivots = self.highs.getInfoValue("simplex_iteration_count")[1]
        return np.array(found.col_value), np.array(found.row_dual), np.array(found.col_dual), max(pivots, 0)


def _same(mine: Any, other: Any) -> bool:
    import numpy as np

    if mine.shape != other.shape or isinstance(mine, np.ndarray) != isinstance(other, np.ndarray):
        return False
    if isinstance(mine, np.ndarray):
        return np.array_equal(mine, other)
    return all(np.array_equal(getattr(mine, name), getattr(other, name)) for name in ("indptr", "indices", "data"))


def _certify(program: Standard, answers: list[tuple[Any, Any, Any, int] | None], tol: float) -> SolverResult:
    """The answers in our terms, polished and measured as every method's are."""
    import numpy as np

    g, like = program.operator, program.c
    rows = g.general + g.equalities
    nothing = (np.zeros(g.variables), np.zeros(rows), np.zeros(g.variables), 0)
    parts = zip(*(nothing if answer is None else answer for answer in answers), strict=True)
    x, row_dual, column_dual, pivots = (torch.as_tensor(np.asarray(part), device=like.device) for part in parts)
    bounds = -g.bounds.coefficients * column_dual[:, g.bounds.columns]
    z = torch.cat((-row_dual[:, : g.general], bounds), 1).clamp_min(0.0)
    slack = program.h - g.at(x)[0]
    rough = Point(x, -row_dual[:, g.general :], z, (slack <= ZERO) | (z > slack))
    errors = residuals(program, rough)
    point = rough
    if not bool((errors.worst() <= EXACT).all()):  # as a vertex that was never perturbed is
        point, errors = certified(program, rough, tol)
        point = replace(point, firm=None)
    solved = torch.tensor([answer is not None for answer in answers], device=like.device)
    outcome = torch.where(solved & (errors.worst() <= tol), OPTIMAL, STALLED)
    return SolverResult(point, outcome, _unless(solved, errors), pivots.to(outcome))


def _unless(solved: Tensor, errors: Residuals) -> Residuals:
    parts = (errors.primal, errors.dual, errors.gap)
    return Residuals(*(torch.where(solved, part, torch.inf) for part in parts))
