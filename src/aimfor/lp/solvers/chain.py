"""Which solver runs, and which one takes what it could not certify."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch

from ...engine import Status
from ...errors import InputError
from ..operators.dense import DenseOperator
from ..operators.sparse import SparseOperator
from ..program import Standard
from .base import (
    INFEASIBLE,
    OPTIMAL,
    STALLED,
    UNBOUNDED,
    Method,
    SolverResult,
)
from .highs import Highs, available, shares_rows, solve_by_highs
from .interior import InteriorPoint


class Auto(Method):
    """`Highs` where it is installed and quicker, else `InteriorPoint`: what ``method="auto"`` means.

    A simplex step from a warm basis costs microseconds for each item, an interior step of a batch hundreds of them for
    all items together.
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
    count = g.general + g.equal
    work: float = g.batch * min(count, g.variables) * (count + g.variables)
    if work > PAYS and isinstance(g, DenseOperator):
        work *= sum(int(rows.count_nonzero()) for rows in (g.rows, g.equality_rows)) / (count * g.variables)
    return work <= PAYS


#: What each outcome is called in a solution.
STATUS = {
    OPTIMAL: Status.ok,
    INFEASIBLE: Status.infeasible,
    UNBOUNDED: Status.unbounded,
    STALLED: Status.not_converged,
}


def solve_standard(program: Standard, method: Method, tol: float, fallback: bool) -> tuple[SolverResult, list[Status]]:
    """The method, then the interior point for what it could not certify, then HiGHS."""
    if isinstance(method, Auto):
        method = method.choose(program)
    result = method.run(program, tol)
    if not isinstance(method, InteriorPoint):
        _retry(program, result, lambda rest: InteriorPoint().run(rest, tol))
    _confirm_unbounded(program, result, tol)
    stalled = result.outcome == STALLED
    if fallback and available():
        _retry(program, result, lambda rest: solve_by_highs(rest, tol))
    statuses = [STATUS[code] for code in result.outcome.tolist()]
    for i in (stalled & (result.outcome == OPTIMAL)).nonzero().squeeze(1).tolist():
        statuses[i] = Status.fallback
    return result, statuses


def _retry(program: Standard, result: SolverResult, run: Callable[[Standard], SolverResult]) -> None:
    """Another solver for the items that are not certified; its answer is taken where it is better."""
    items = (result.outcome == STALLED).nonzero().squeeze(1)
    if items.numel():
        other = run(program.take(items))
        better = (other.outcome != STALLED) | (other.residuals.worst() < result.residuals.worst()[items])
        index = better.nonzero().squeeze(1)
        result.put(items[index], other.take(index))


def _confirm_unbounded(program: Standard, result: SolverResult, tol: float) -> None:
    """A ray proves an unbounded objective only where there is a feasible point to start from."""
    items = (result.outcome == UNBOUNDED).nonzero().squeeze(1)
    if not items.numel():
        return
    rest = program.take(items)
    feasible = InteriorPoint().run(Standard(rest.operator, torch.zeros_like(rest.c), rest.h, rest.f), tol)
    wrong = (feasible.outcome != OPTIMAL).nonzero().squeeze(1)
    result.put(items[wrong], feasible.take(wrong))
