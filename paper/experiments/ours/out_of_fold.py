"""May a threshold be tested on out-of-fold scores and used on the average of the fold models? A simulation.

Draws of n rows from a population with known labels' law; K = 5 models, each fitted without one fold. Three ways:

- "out of fold": the test rows are all n out-of-fold scores, the threshold is used on the average of the five models;
- "kept aside": a third of the rows is kept aside, five models on the rest are averaged, tested on the rows aside;
- "one model": as "kept aside", with one model on all of the rest.

The truth is a fresh sample of 20,000 rows. A guarantee at 95 % may fail in 5 % of draws. A floor on precision is asked
of all models; a ceiling on the false positive rate of deep trees, whose single models are far from their average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aimfor.errors import InputError
from aimfor.rates import RateProblem, fpr, maximize, precision, recall

from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table
from ...report.statistics import least_share

Array = NDArray[Any]
DRAWS, CHUNK, FOLDS, FLOOR, CEILING, FRESH = 300, 25, 5, 0.8, 0.4, 20_000
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


def problem_of(cell: Cell) -> RateProblem:
    return maximize(recall, fpr <= CEILING) if cell.get("bound") == "fpr" else maximize(recall, precision >= FLOOR)


def cells(options: Options) -> list[Cell]:
    """The ceiling first: its first hundred draws say most."""
    chunks = range(DRAWS // CHUNK)
    ceilings = [{"model": "deep tree", "n": n, "seed": chunk, "bound": "fpr"} for chunk in chunks for n in SIZES]
    return ceilings + [{"model": kind, "n": n, "seed": chunk} for chunk in chunks for kind in MODELS for n in SIZES]


def run(cell: Cell, options: Options) -> Result:
    results: dict[str, list[list[float] | None]] = {way: [] for way in WAYS}
    problem = problem_of(cell)
    for place in range(CHUNK):
        seed = 1000 * cell["seed"] + place
        rng = np.random.default_rng([seed, cell["n"]])
        x, y = draw(cell["n"], rng)
        fresh, truth = draw(FRESH, rng)
        aside, rest = np.arange(cell["n"] // 3), np.arange(cell["n"] // 3, cell["n"])
        scores, average = fold_models(cell["model"], x, y, seed)
        results["out of fold"].append(_judged(problem, scores, y, None, average(fresh), truth))
        inner, average = fold_models(cell["model"], x[rest], y[rest], seed)
        learn = (torch.from_numpy(inner), torch.from_numpy(y[rest]))
        results["kept aside"].append(_judged(problem, average(x[aside]), y[aside], learn, average(fresh), truth))
        one = model(cell["model"], seed).fit(x[rest], y[rest])
        single, new = one.predict_proba(x[aside])[:, 1], one.predict_proba(fresh)[:, 1]
        results["one model"].append(_judged(problem, single, y[aside], learn, new, truth))
    return {"answers": results}


def _judged(
    problem: RateProblem, scores: Array, y: Array, learn: Any, fresh: Array, truth: Array
) -> list[float] | None:
    """(the bounded rate, recall) of the guaranteed threshold on fresh rows; None where there is none."""
    given = torch.from_numpy(np.ascontiguousarray(scores)), torch.from_numpy(y)
    try:
        decision = problem.decide(*given, guarantee=0.95, learn=learn or "split")
    except InputError:  # no threshold comes near the bound on the learning rows
        return None
    if decision.threshold is None:
        return None
    counts = problem.count(torch.from_numpy(np.ascontiguousarray(fresh)), torch.from_numpy(truth), decision=decision)
    (constraint,) = problem.constraints
    value = float(constraint.left.value(counts))  # type: ignore[attr-defined]
    return [1.0 if np.isnan(value) else value, float(recall.value(counts))]


def report(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    lines = [
        "# Thresholds from out-of-fold scores, used on the average of the models",
        "",
        "Share of draws in which a threshold was given, in which the bound fails on fresh rows by more than two",
        "standard errors (with the exact one-sided 95 % lower bound on that share), and mean recall (0 without).",
        "",
        *board(rows),
    ]
    write_table(folder, lines)


def board(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the table."""
    lines = [
        "| bound at 95 % | model | n | way | draws | given | broken | lower bound | recall |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for bound, words in (("fpr", f"fpr <= {CEILING}"), (None, f"precision >= {FLOOR}")):
        for kind in MODELS:
            for n in SIZES:
                wanted = (bound, kind, n)
                mine = [row for row in rows if tuple(map(row["cell"].get, ("bound", "model", "n"))) == wanted]
                for way in WAYS:
                    answers = [one for row in mine for one in row["result"]["answers"][way]]
                    if answers:
                        lines.append(f"| {words} | {kind} | {n} | {way} | {_summary(answers, bound)} |")
    return lines


def _summary(answers: Sequence[Sequence[float] | None], bound: str | None) -> str:
    given = [one for one in answers if one is not None]
    if bound == "fpr":
        slack = 2.0 * np.sqrt(CEILING * (1 - CEILING) / (0.5 * FRESH))
        broken = sum(one[0] > CEILING + slack for one in given)
    else:
        slack = 2.0 * np.sqrt(FLOOR * (1 - FLOOR) / (0.1 * FRESH))
        broken = sum(one[0] < FLOOR - slack for one in given)
    draws = len(answers)
    low = least_share(broken, draws)
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
