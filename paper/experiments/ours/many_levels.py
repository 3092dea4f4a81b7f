"""A category of many levels: the ensemble beside what people use there, on rows drawn from one known law.

Each level has an effect of its own on the log-odds (deviation 1.5), beside two of four numbers; levels are equally
frequent. AUROC on 10,000 fresh rows, of which some have levels that no training row had.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.integrations.sklearn import fit_table
from aimfor.targets.objective import Objective

from ...experiment import Cell, Experiment, Options, Result
from ...report.pages import write_table

SIZES = ((40, 3_000), (100, 3_000), (500, 3_000), (2_000, 3_000), (200, 10_000), (5_000, 20_000), (5_000, 100_000))
TEST, EFFECT = 10_000, 1.5
TITLE = "A category of 40 to 5,000 levels"
SETTING = """AUROC (hundredths) on 10,000 fresh rows; one column of levels with an effect of deviation 1.5 on the
log-odds, four numbers of which two count. *one-hot*: logistic regression; *target encoding*: scikit-learn's,
then LightGBM; CatBoost with native categories where it is installed. *expected* is what the run says one may expect on
new rows."""


def cells(options: Options) -> list[Cell]:
    return [{"levels": levels, "rows": rows, "seed": seed} for seed in range(options.seeds) for levels, rows in SIZES]


def drawn(cell: Cell) -> tuple[Any, Any, Any, Any]:
    """Rows and labels to learn from, and fresh ones."""
    import pandas as pd

    random, n = np.random.default_rng([cell["seed"], cell["levels"], cell["rows"]]), cell["rows"] + TEST
    effect: Any = random.normal(size=cell["levels"]) * EFFECT
    level = random.integers(0, cell["levels"], n)
    x = random.normal(size=(n, 4))
    odds = effect[level] + x[:, 0] - 0.5 * x[:, 1] ** 2 + 0.5
    y = (random.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    frame = pd.DataFrame(
        {**{name: x[:, place] for place, name in enumerate("abcd")}, "shop": [f"s{one}" for one in level]}
    )
    first = cell["rows"]
    return frame[:first], y[:first], frame[first:].reset_index(drop=True), y[first:]


def rivals(seed: int) -> dict[str, Callable[[], Any]]:
    from lightgbm import LGBMClassifier
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

    def apart(encoder: Any, rest: Any) -> Any:
        return make_column_transformer((encoder, ["shop"]), remainder=rest)

    found: dict[str, Callable[[], Any]] = {
        "one-hot": lambda: make_pipeline(
            apart(OneHotEncoder(handle_unknown="ignore"), StandardScaler()), LogisticRegression(max_iter=500)
        ),
        "target encoding": lambda: make_pipeline(
            apart(TargetEncoder(random_state=seed), "passthrough"),
            LGBMClassifier(
                n_estimators=100, learning_rate=0.05, num_leaves=15, n_jobs=1, verbose=-1, random_state=seed
            ),
        ),
    }
    if importlib.util.find_spec("catboost") is not None:
        learner = importlib.import_module("catboost").CatBoostClassifier
        how = {"thread_count": 1, "verbose": False, "allow_writing_files": False, "random_seed": seed}
        found["CatBoost"] = lambda: learner(cat_features=["shop"], **how)
    return found


def run(cell: Cell, options: Options) -> Result:
    from sklearn.metrics import roc_auc_score

    x, y, fresh, truth = drawn(cell)
    values, cpu = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in rivals(cell["seed"]).items():
            began = time.process_time()
            values[name] = roc_auc_score(truth, make().fit(x, y).predict_proba(fresh)[:, 1])
            cpu[name] = time.process_time() - began
    began = time.process_time()
    how: dict[str, Any] = {"members": ("linear", "trees", "network"), "weights": None, "groups": None}
    fitted = fit_table(x, y, Objective.of("auroc"), 1, seed=cell["seed"], workers=1, **how)
    values["aimfor"] = roc_auc_score(truth, fitted.scores(fresh).numpy())
    cpu["aimfor"] = time.process_time() - began
    return {"values": values, "cpu": cpu, "expected": fitted.ensemble.cross_validated}


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {TITLE}", "", SETTING, "", *summary_lines(results)])


def summary_lines(results: list[dict[str, Any]]) -> list[str]:
    """A line a size, means over seeds; and how far from the best rival."""
    names = list(dict.fromkeys(name for one in results for name in one["result"]["values"]))
    lines = [f"| levels | rows | seeds | {' | '.join(names)} | − best rival | expected | CPU s |"]
    lines.append("|---" * (len(names) + 6) + "|")
    for levels, rows in SIZES:
        same = [one["result"] for one in results if (one["cell"]["levels"], one["cell"]["rows"]) == (levels, rows)]
        if same:
            means = {name: 100 * float(np.mean([one["values"].get(name, np.nan) for one in same])) for name in names}
            best = np.nanmax([means[name] for name in names if name != "aimfor"])
            expected, seconds = (
                np.mean([one["expected"] for one in same]),
                np.median([one["cpu"]["aimfor"] for one in same]),
            )
            cells_of = " | ".join(f"{means[name]:.1f}" for name in names)
            lines.append(
                f"| {levels:,} | {rows:,} | {len(same)} | {cells_of} | {means['aimfor'] - best:+.1f} | "
                f"{100 * expected:.1f} | {seconds:.0f} |"
            )
    return lines


EXPERIMENT = Experiment("many_levels", TITLE, "aimfor", cells, run, report, seeds=1)
