"""The last phase of `aimfor train` on all data (`--all-data`): with and without, on rows that neither has seen.

The test files are not read. Every table is cut down to its training rows; `aimfor train` splits these into training,
validation and test rows by the seed, as it does with any table. One run gives both models, so they are paired.

    python paper/benchmarks/bench_all_data.py --data DIR [--recipe balanced_cross_entropy]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import record

from aimfor.app.run.folder import prepare
from aimfor.fitting.all_data import end
from aimfor.fitting.config import find_recipe, settings
from aimfor.fitting.fit import Fit
from aimfor.fitting.models import scores_of
from aimfor.fitting.statistics import paired_difference
from paper.data.tables import training_rows
from paper.report.statistics import bootstrap_median

SETS = ("abalone9_18", "oil_spill", "page_blocks0", "satimage", "us_crime", "wine_quality", "yeast3", "yeast6")
METRICS = ("auroc", "ap")


def one(path: Path, metric: str, seed: int, name: str) -> tuple[float, float, bool, float]:
    """The metric on held-out rows without and with the phase, whether it was taken, and test rows per training row."""
    ready = prepare(settings(data=str(path), target="y", metric=metric, seed=seed))
    recipe = find_recipe(name).model_copy(update={"all_data": True})
    fit = Fit(ready.task, ready.settings, recipe).run()
    ending = end(fit)
    assert ending.phase is not None
    x, y = ready.test
    before, after = (ready.objective.value(scores_of(model, x, 1), y) for model in (fit.model, ending.model))
    return before, after, ending.phase["taken"], len(y) / len(ready.task.y)


def row(name: str, metric: str, runs: list[tuple[float, float, bool, float]]) -> dict[str, Any]:
    without, with_it = [run[0] for run in runs], [run[1] for run in runs]
    found = paired_difference(with_it, without, test_share=runs[0][3])
    return {
        "table": name,
        "metric": metric,
        "without": f"{np.mean(without):.4f}",
        "with": f"{np.mean(with_it):.4f}",
        "difference in points [95 %]": f"{100 * found.mean:+.2f} [{100 * found.low:+.2f}, {100 * found.high:+.2f}]",
        "taken": f"{sum(run[2] for run in runs)} of {len(runs)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    known = os.environ.get("AIMFOR_DATA")
    parser.add_argument("--data", type=Path, default=known, required=known is None)
    parser.add_argument("--recipe", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, summary = [], []
    with tempfile.TemporaryDirectory() as folder:
        for metric in METRICS:
            differences = []
            for name in SETS:
                path = Path(folder) / f"{name}.npz"
                x, y = training_rows(given.data, name)
                np.savez(path, X=x.numpy(), y=y.numpy())
                runs = [one(path, metric, seed, given.recipe) for seed in range(given.seeds)]
                rows.append(row(name, metric, runs))
                differences.append(100 * float(np.mean([after - before for before, after, _, _ in runs])))
            middle, low, high = bootstrap_median(differences)
            wins = sum(difference > 0 for difference in differences)
            losses = sum(difference < 0 for difference in differences)
            summary.append(
                {
                    "table": f"median of {len(SETS)} ({wins} up, {losses} down)",
                    "metric": metric,
                    "without": "",
                    "with": "",
                    "difference in points [95 %]": f"{middle:+.2f} [{low:+.2f}, {high:+.2f}]",
                    "taken": "",
                }
            )
    title = f"Training on all labelled rows in the end (`--all-data`), recipe `{given.recipe}`, {given.seeds} seeds"
    command = f"python paper/benchmarks/bench_all_data.py --data DIR --recipe {given.recipe} --seeds {given.seeds}"
    record(f"all_data_{given.recipe}", title, command, rows + summary)


if __name__ == "__main__":
    main()
