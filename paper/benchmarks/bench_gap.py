"""What a guaranteed gap between groups costs in accuracy: exact test of a difference, and two bounds at half the error.

Logistic regression on Adult (sex) and COMPAS (race), thresholds by group, learned on training rows, tested on held-out
rows, judged on the test file; three splits. "Two bounds" is what the library did before it had a test of differences.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from common import record

from aimfor.decisions import exact as exact_tests
from aimfor.rates import Decision, accuracy, fpr, maximize

SPLITS, GAPS = 3, (0.02, 0.05)


def main(data: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    from paper.experiments.ours.adult_constraints import GAPS as ATTRIBUTES
    from paper.experiments.ours.adult_constraints import load

    found: dict[tuple[str, float, str], list[tuple[float, float] | None]] = {}
    free: dict[str, list[float]] = {}
    for name, attribute in ATTRIBUTES.items():
        for seed in range(SPLITS):
            parts = load(data, name, seed)
            model = LogisticRegression(max_iter=300).fit(parts[0][0].numpy(), parts[0][1].numpy())
            train, held, test = [
                (torch.from_numpy(model.decision_function(x.numpy())), y, {attribute: groups[attribute]})
                for x, y, groups in parts
            ]
            free.setdefault(name, []).append(float(((test[0] > 0) == test[1].bool()).double().mean()))
            for gap in GAPS:
                problem = maximize(accuracy, fpr.gap(attribute) <= gap)
                for way in ("exact", "two bounds"):
                    with patch.object(exact_tests, "disjoint", exact_tests.disjoint if way == "exact" else _never):
                        decision = problem.decide(
                            held[0], held[1], groups=held[2], guarantee=0.95, learn=train, per_group=attribute
                        )
                    found.setdefault((name, gap, way), []).append(_judged(decision, problem, test))
    rows = [_row(key, answers, np.mean(free[key[0]])) for key, answers in found.items()]
    record(
        "gap",
        "A guaranteed gap between groups: what it costs in accuracy",
        "python paper/benchmarks/bench_gap.py DATA",
        rows,
    )


def _never(*_: object) -> bool:
    return False


def _judged(decision: Decision, problem: object, test: tuple) -> tuple[float, float] | None:
    """Accuracy and gap on the test file; None without a threshold."""
    if decision.threshold is None:
        return None
    counts = problem.count(test[0], test[1], groups=test[2], decision=decision)
    (attribute,) = test[2]
    values = [float(fpr.on(**{attribute: label}).value(counts)) for label in counts.levels.of(attribute)]
    return float(accuracy.value(counts)), max(values) - min(values)


def _row(key: tuple[str, float, str], answers: list, free: float) -> dict[str, object]:
    given = [one for one in answers if one is not None]
    mean = [f"{np.mean(column):.3f}" for column in zip(*given, strict=True)] if given else ["none", "none"]
    return {
        "table": key[0],
        "gap(fpr) at most": key[1],
        "test": key[2],
        "thresholds given": f"{len(given)} of {len(answers)}",
        "accuracy on the test file": mean[0],
        "gap there": mean[1],
        "accuracy without the constraint": f"{free:.3f}",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
