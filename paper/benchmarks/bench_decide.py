"""Decisions on many rows: a million labelled scores under three constraints, a plan for ten million unlabelled ones.

python paper/benchmarks/bench_decide.py
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from common import record

from aimfor.constraints import fpr, positive_rate, precision, recall
from aimfor.decisions import Problem
from aimfor.decisions import plan as planning
from aimfor.decisions import rounds as planner


def drawn(rows: int, prevalence: float, shift: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.random(rows) < prevalence
    return rng.normal(size=rows) + shift * y, y


def decided(scores: np.ndarray, y: np.ndarray) -> None:
    problem = Problem("maximize", recall, [precision >= 0.6, fpr <= 0.05, positive_rate <= 0.2])
    assert problem.decide(scores, y, guarantee=0.95).threshold is not None


def planned(scores: np.ndarray, y: np.ndarray) -> None:
    """The pilot and the round after it: 200 labels."""
    rng, (made, _) = np.random.default_rng(0), planning.design(scores, precision >= 0.9, 0.95)
    pilot = planner.pilot(made, 60, rng)
    right = y[np.argpartition(-scores, pilot.ranks)[pilot.ranks]].astype(float)
    _, one = planner.next_round(made, [replace(pilot, right=right)], 140, rng)
    assert len(one.ranks) == 140


CASES: dict[str, tuple[int, float, float, Callable[[np.ndarray, np.ndarray], None]]] = {
    "decide, three constraints": (10**6, 0.1, 2.0, decided),
    "plan, two rounds of 200 labels": (10**7, 0.01, 3.2, planned),
}


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024.0 if sys.platform != "darwin" else 1024.0**2)


def main() -> None:
    rows = []
    for name, (number, prevalence, shift, call) in CASES.items():
        scores, y = drawn(number, prevalence, shift)
        before, start = megabytes(), time.process_time()
        call(scores, y)
        spent = time.process_time() - start
        rows.append({"task": name, "rows": f"{number:,}", "CPU s": f"{spent:.2f}",
                     "memory beyond the data, MB": f"{max(megabytes() - before, 0.0):.0f}"})  # fmt: skip
    record("decide", "Decisions on many rows: time and memory", "python paper/benchmarks/bench_decide.py", rows)


if __name__ == "__main__":
    main()
