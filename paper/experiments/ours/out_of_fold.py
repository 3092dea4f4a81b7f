"""May a threshold be tested on out-of-fold scores and used on the average of the fold models? A simulation.

Draws of n rows from a population with known labels' law; K = 5 models, each fitted without one fold. Three ways:

- "out of fold": the test rows are all n out-of-fold scores, the threshold is used on the average of the five models;
- "kept aside": a third of the rows is kept aside, five models on the rest are averaged, tested on the rows aside;
- "one model": as "kept aside", with one model on all of the rest.

The truth is a fresh sample of 20,000 rows. A guarantee at 95 % may fail in 5 % of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from aimfor.rates import maximize, precision, recall

from ...experiment import Cell, Experiment, Options, Result

Array = NDArray[Any]
DRAWS, CHUNK, FOLDS, FLOOR, FRESH = 300, 25, 5, 0.8, 20_000
MODELS = ("logistic", "deep tree", "boosting")
SIZES = (400, 1500)
WAYS = ("out of fold", "kept aside", "one model")


def draw(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Twelve columns, four of which matter, and not in a straight line."""
    x = rng.normal(size=(n, 12))
    odds = 1.3 * x[:, 0] + 1.0 * x[:, 1] * (x[:, 2] > 0) + 0.8 * np.abs(x[:, 3]) - 1.2
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-1.6 * odds))).astype(np.int64)


def model(kind: str, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    if kind == "logistic":
        return LogisticRegression(max_iter=200)
    if kind == "deep tree":
        return DecisionTreeClassifier(min_samples_leaf=5, random_state=seed)
    return HistGradientBoostingClassifier(max_iter=40, early_stopping=False, random_state=seed)


def fold_models(kind: str, x: Array, y: Array, seed: int) -> tuple[Array, Callable[[Array], Array]]:
    """Out-of-fold probabilities ``(n,)``, and the average of the models as a function of rows."""
    folds = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    fitted, scores = [], np.zeros(len(y))
    for fold in range(FOLDS):
        fitted.append(model(kind, seed).fit(x[folds != fold], y[folds != fold]))
        scores[folds == fold] = fitted[-1].predict_proba(x[folds == fold])[:, 1]
    return scores, lambda rows: np.mean([one.predict_proba(rows)[:, 1] for one in fitted], axis=0)


def cells(options: Options) -> list[Cell]:
    return [{"model": kind, "n": n, "seed": chunk} for chunk in range(DRAWS // CHUNK) for kind in MODELS for n in SIZES]


def run(cell: Cell, options: Options) -> Result:
    results: dict[str, list[list[float] | None]] = {way: [] for way in WAYS}
    for place in range(CHUNK):
        seed = 1000 * cell["seed"] + place
        rng = np.random.default_rng([seed, cell["n"]])
        x, y = draw(cell["n"], rng)
        fresh, truth = draw(FRESH, rng)
        aside, rest = np.arange(cell["n"] // 3), np.arange(cell["n"] // 3, cell["n"])
        scores, average = fold_models(cell["model"], x, y, seed)
        results["out of fold"].append(_judged(scores, y, None, average(fresh), truth))
        inner, average = fold_models(cell["model"], x[rest], y[rest], seed)
        learn = (torch.from_numpy(inner), torch.from_numpy(y[rest]))
        results["kept aside"].append(_judged(average(x[aside]), y[aside], learn, average(fresh), truth))
        one = model(cell["model"], seed).fit(x[rest], y[rest])
        single, new = one.predict_proba(x[aside])[:, 1], one.predict_proba(fresh)[:, 1]
        results["one model"].append(_judged(single, y[aside], learn, new, truth))
    return {"answers": results}


def _judged(scores: Array, y: Array, learn: Any, fresh: Array, truth: Array) -> list[float] | None:
    """(precision, recall) of the guaranteed threshold on fresh rows; None where there is none."""
    problem = maximize(recall, precision >= FLOOR)
    decision = problem.decide(torch.from_numpy(scores), torch.from_numpy(y), guarantee=0.95, learn=learn or "split")
    if decision.threshold is None:
        return None
    passed = fresh > decision.threshold
    return [float(truth[passed].mean()) if passed.any() else 1.0, float(truth[passed].sum() / truth.sum())]


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    lines = [
        "# Thresholds from out-of-fold scores, used on the average of the models",
        "",
        f"Floor: precision >= {FLOOR} at 95 %. Share of draws in which a threshold was given, in which the floor fails",
        "on fresh rows (with the exact one-sided 95 % lower bound on that share), and mean recall (0 without).",
        "",
        "| model | n | way | draws | given | broken | lower bound | recall |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in MODELS:
        for n in SIZES:
            mine = [row["result"]["answers"] for row in rows if (row["cell"]["model"], row["cell"]["n"]) == (kind, n)]
            for way in WAYS:
                answers = [one for result in mine for one in result[way]]
                if answers:
                    lines.append(f"| {kind} | {n} | {way} | {_summary(answers)} |")
    (folder / "table.md").write_text("\n".join(lines) + "\n")


def _summary(answers: Sequence[Sequence[float] | None]) -> str:
    given = [one for one in answers if one is not None]
    # Fresh rows have sampling error of their own: a floor counts as broken where it fails by more than two of them.
    slack = 2.0 * np.sqrt(FLOOR * (1 - FLOOR) / (0.1 * FRESH))
    broken, draws = sum(one[0] < FLOOR - slack for one in given), len(answers)
    low = stats.beta.ppf(0.05, broken, draws - broken + 1) if broken else 0.0
    kept = sum(one[1] for one in given) / draws
    return f"{draws} | {len(given) / draws:.0%} | {broken / draws:.1%} | {low:.1%} | {kept:.3f}"


EXPERIMENT = Experiment(
    "out_of_fold",
    "may thresholds tested on out-of-fold scores be used on the average of the models?",
    "aimfor",
    cells,
    run,
    report,
    seeds=1,
)
