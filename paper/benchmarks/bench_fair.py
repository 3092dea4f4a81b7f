"""A gap between the sexes by `aimfor.decide`: how often it is promised, what the promise costs, how often it is broken.

Logistic regression on a third of Adult and of COMPAS; the rest is the population. Rows are drawn from it with
replacement, so that accuracy and gap of any threshold are known exactly; "beside the draw" judges each answer on rows
of the population that were not drawn, where the gap of few rows is itself uncertain.

    python paper/benchmarks/bench_fair.py DATA
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import record

import aimfor

ROWS, DRAWS, GAP = {"adult": 5000, "compas": 3000}, 200, 0.1


def population(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, targets and sexes of rows that took no part in training."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    parts = [np.load(data / name / f"{part}.npz", allow_pickle=True) for part in ("train", "test")]
    x, y, sex = (np.concatenate([part[key] for part in parts]) for key in ("X", "y", "sex"))
    order, cut = np.random.default_rng(0).permutation(len(y)), len(y) // 3
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x[order[:cut]], y[order[:cut]])
    rest = order[cut:]
    return model.predict_proba(x[rest])[:, 1], y[rest].astype(int), sex[rest].astype(int)


def judged(decided: np.ndarray, y: np.ndarray, sex: np.ndarray, rate: str) -> tuple[float, float]:
    """Accuracy, and how far the sexes' rates are apart."""
    rates = [decided[(sex == one) & (y == (rate == "tpr"))].mean() for one in (0, 1)]
    return float((decided == y).mean()), abs(float(rates[0] - rates[1]))


def most_accurate(scores: np.ndarray, y: np.ndarray) -> float:
    """The threshold without any promise; scores above it are positive."""
    order = np.argsort(-scores, kind="stable")
    return float(scores[order][np.argmax((2 * y[order] - 1).cumsum()) + 1])


def row(name: str, rate: str, attribute: str | None, whole: tuple[np.ndarray, ...]) -> dict[str, Any]:
    costs, broken, beside, nearly = [], 0, 0, 0
    for draw in range(DRAWS):
        rows = np.random.default_rng([draw, ROWS[name]]).integers(0, len(whole[0]), ROWS[name])
        scores, y, sex = (part[rows] for part in whole)
        decision = aimfor.decide(
            scores, y, maximize="accuracy", subject_to=f"gap({rate}, sex) <= {GAP}", groups={"sex": sex},
            per_group=attribute,
        )  # fmt: skip
        if not decision.feasible:
            continue
        decided = np.asarray(decision(whole[0], *([{"sex": whole[2]}] if attribute else [])))
        kept, gap = judged(decided, whole[1], whole[2], rate)
        left = np.setdiff1d(np.arange(len(whole[0])), rows)
        costs.append(judged(whole[0] > most_accurate(scores, y), whole[1], whole[2], rate)[0] - kept)
        broken += gap > GAP
        beside += judged(decided[left], whole[1][left], whole[2][left], rate)[1] > GAP
        price = decision.guarantee.price if decision.guarantee else None
        nearly += bool(price and price.nearly)
    low, middle, high = np.quantile(costs, (0.05, 0.5, 0.95)) if costs else (np.nan,) * 3
    return {
        "scores of": f"{name}, {ROWS[name]:,} rows",
        "promise": f"gap({rate}, sex) <= {GAP}",
        "thresholds": "one for each sex" if attribute else "one",
        "given": f"{len(costs)} of {DRAWS}",
        "called nearly nobody or everybody": nearly,
        "points of accuracy less than without it, median [5 %, 95 %]":
            f"{100 * middle:.1f} [{100 * low:.1f}, {100 * high:.1f}]",
        "broken": broken,
        "broken beside the draw": beside,
    }  # fmt: skip


def main(data: Path) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for name in ROWS:
        whole = population(data, name)
        for rate in ("tpr", "fpr"):
            rows += [row(name, rate, attribute, whole) for attribute in (None, "sex")]
            print(rows[-2:], flush=True)
    record(
        "fair",
        f"A guaranteed gap between the sexes by `aimfor.decide`: {DRAWS} draws, judged on the population",
        "python paper/benchmarks/bench_fair.py DATA",
        rows,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
