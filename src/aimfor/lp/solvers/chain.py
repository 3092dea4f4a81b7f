"""From the chosen method to the last resort: what one solver cannot certify goes to the next."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...engine import Status
from ..standard import Standard
from . import highs
from .base import INFEASIBLE, OPTIMAL, STALLED, UNBOUNDED, Method, SolverResult
from .methods import InteriorPoint
from .warm import Auto


def solve_standard(program: Standard, method: Method, tol: float, fallback: bool) -> tuple[SolverResult, list[Status]]:
    """The method, then the interior point for what it could not certify, then HiGHS."""
    if isinstance(method, Auto):
        method = method.choose(program)
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


def _again(program: Standard, found: SolverResult, run: Callable[[Standard], SolverResult]) -> None:
    """Another solver for the items that are not certified; its answer is taken unless it knows no more."""
    items = (found.outcome == STALLED).nonzero().squeeze(1)
    if items.numel():
        part = run(program.take(items))
        wiser = (part.outcome != STALLED) | (part.residuals.worst() < found.residuals.worst()[items])
        if bool(wiser.any()):
            index = wiser.nonzero().squeeze(1)
            found.put(items[index], part.take(index))


def _confirm_unbounded(program: Standard, found: SolverResult, tol: float) -> None:
    """A ray proves an unbounded objective only where there is a feasible point to start from."""
    items = (found.outcome == UNBOUNDED).nonzero().squeeze(1)
    if not items.numel():
        return
    part = program.take(items)
    feasible = InteriorPoint().run(Standard(part.operator, torch.zeros_like(part.c), part.h, part.f), tol)
    wrong = (feasible.outcome != OPTIMAL).nonzero().squeeze(1)
    if wrong.numel():
        found.put(items[wrong], feasible.take(wrong))
