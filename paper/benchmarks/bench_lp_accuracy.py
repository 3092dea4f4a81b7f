"""300 random programs at three sizes against HiGHS, and 100 that have no optimum: statuses, values, certificates."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from common import record

from aimfor.lp import InteriorPoint, Method, PenaltyNewton, plain_scheme, solve

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "lp"))
from random_programs import feasible_bounded, highs, infeasible, item, unbounded

KINDS = list(itertools.product((0, 5), (False, True), (False, True)))


def against_highs(m: int, v: int, items: int, method: Method) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    error, residual, steps = 0.0, 0.0, []
    for seed, (equalities, bounds, degenerate) in enumerate(KINDS):
        p = feasible_bounded(items, m, v, 100 + seed, equalities=equalities, bounds=bounds, degenerate=degenerate)
        s = solve(**p, method=method)
        statuses.update(status.name for status in s.statuses)
        residual = max(residual, float(s.residuals.worst().max()))
        steps += s.iterations.tolist()
        for i in range(items):
            reference = highs(item(p, i)).fun
            error = max(error, abs(float(s.value[i]) - reference) / max(1.0, abs(reference)))
    return {
        "programs": len(KINDS) * items,
        "(m, v)": f"({m}, {v})",
        "kind": "feasible, bounded; half with equalities, bounds, degenerate",
        "method": type(method).__name__,
        "statuses": ", ".join(f"{n} {name}" for name, n in statuses.items()),
        "worst value error against HiGHS": f"{error:.1e}",
        "worst residual": f"{residual:.1e}",
        "median steps": sorted(steps)[len(steps) // 2],
    }


def without_optimum(make: Any, name: str) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    steps: list[int] = []
    for seed, (m, v) in itertools.product(range(5), ((50, 20), (200, 50))):
        s = solve(**make(5, m, v, 50 + seed))
        statuses.update(status.name for status in s.statuses)
        steps += s.iterations.tolist()
    return {
        "programs": sum(statuses.values()),
        "(m, v)": "(50, 20), (200, 50)",
        "kind": name,
        "method": "InteriorPoint",
        "statuses": ", ".join(f"{n} {found}" for found, n in statuses.items()),
        "worst value error against HiGHS": "",
        "worst residual": "",
        "median steps": sorted(steps)[len(steps) // 2],
    }


def plain(m: int, v: int, items: int) -> dict[str, Any]:
    """The paper's settings on the same kind of programs: how many have reached a stationary point of the penalty?"""
    p = feasible_bounded(items, m, v, 100)
    r = plain_scheme(p["c"], p["A"], p["b"])
    scale = p["c"].abs().amax(1)
    x_error = (r.x - solve(**p).x).norm(dim=1) / solve(**p).x.norm(dim=1)
    return {
        "programs": items,
        "(m, v)": f"({m}, {v})",
        "kind": "feasible, bounded",
        "method": "plain_scheme (20 full steps, no line search)",
        "statuses": f"{int((r.gradient_norm > 1e-3 * scale).sum())} not converged",
        "worst value error against HiGHS": f"x off by {float(x_error.median()):.2g} (median, relative)",
        "worst residual": "none is computed",
        "median steps": 20,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = [against_highs(m, v, n, InteriorPoint()) for m, v, n in ((50, 20, 20), (200, 50, 15), (1000, 100, 3))]
    rows += [against_highs(50, 20, 8, PenaltyNewton())]
    rows += [without_optimum(infeasible, "infeasible"), without_optimum(unbounded, "unbounded")]
    rows += [plain(50, 20, 50), plain(200, 50, 50)]
    record(
        "lp_accuracy",
        "Linear programs: statuses and values against HiGHS",
        "python paper/benchmarks/bench_lp_accuracy.py",
        rows,
    )
