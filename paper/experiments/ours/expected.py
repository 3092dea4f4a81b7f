"""*Expected on new rows*, as a run says it, beside what is found on rows that nobody drew; and how often the interval
holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from aimfor.data.columns import TableEncoder, columns_of
from aimfor.data.settings import settings
from aimfor.learners.ensemble import MemoryStore
from aimfor.runs.ensemble import EnsembleTask, fit_prepared, held_out
from aimfor.runs.prepared import prepare

from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table

#: Tables and the columns that hold their classes; all that is not drawn are new rows.
TARGETS = {"adult": "income", "bank_marketing": "y", "covertype_4v2": "y"}
METRICS, DRAWN = ("auroc", "ap", "f1"), 2_000
TITLE = "What a run expects on new rows, and what is found there"
SETTING = f"""{DRAWN:,} rows drawn at random, the default ensemble of `aimfor train`, and the metric on all rows that
were not drawn (38,000 to 42,000). Points; *holds*: draws whose 95 % interval contains what was found, which has an
error of its own where positives are rare; of draws that have an interval. The intervals of these draws are those of
draws of the rows alone; since then one more row of the rarer class stands at either end. Floors have pages of their
own."""


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in TARGETS]


def whole(folder: Path, name: str) -> Any:
    """Raw columns of all rows there are."""
    import pandas as pd

    parts = []
    for part in ("train", "test"):
        if (path := folder / name / f"{part}.csv.gz").exists():
            parts.append(pd.read_csv(path, na_values="?", skipinitialspace=True))
        else:
            raw = arrays(folder / name / f"{part}.npz")
            names = [str(one) for one in raw["feature_names"]]
            parts.append(pd.DataFrame(raw["X"], columns=names).assign(y=raw["y"]))
    return pd.concat(parts, ignore_index=True)


def run(cell: Cell, options: Options) -> Result:
    name, target = cell["set"], TARGETS[cell["set"]]
    frame = whole(data_folder(options, name), name)
    order = np.random.default_rng([cell["seed"], len(name)]).permutation(len(frame))
    drawn, new = frame.iloc[order[:DRAWN]], frame.iloc[order[DRAWN:]]
    store, found = MemoryStore(), {}
    with TemporaryDirectory() as folder:
        drawn.to_csv(path := Path(folder) / "drawn.csv", index=False)
        for metric in METRICS:
            given = settings(data=str(path), target=target, metric=metric, seed=cell["seed"], jobs=1)
            ready = prepare(given, ensemble=True)
            fitted = fit_prepared(given, ready, store=store)
            assert isinstance(ready.encoder, TableEncoder)
            scores = fitted.scores(torch.from_numpy(ready.encoder.transform(columns_of(new.drop(columns=target)))))
            y = torch.from_numpy((new[target].astype(str) == ready.labels.classes[1]).to_numpy().astype(np.int64))
            part = EnsembleTask(ready).evaluated_on(held_out(ready, fitted), fitted.threshold.value)
            found[metric] = {
                "expected": fitted.cross_validated,
                "interval": part.interval,
                "found": fitted.objective.value(scores, y, fitted.threshold.value),
            }
    return found


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {TITLE}", "", SETTING, "", *summary_lines(results)])


def summary_lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each metric and table, and one for all tables."""
    lines = ["| metric | table | draws | expected − found, mean [95 %] | deviation | holds |", "|---" * 6 + "|"]
    for metric in METRICS:
        for name in (*TARGETS, None):
            mine = [one["result"][metric] for one in results if name in (None, one["cell"]["set"])]
            if len(mine) > 1:
                gaps = 100 * np.array([one["expected"] - one["found"] for one in mine])
                told = [one for one in mine if one["interval"] is not None]  # too few rows of a class have none
                held = sum(one["interval"][0] <= one["found"] <= one["interval"][1] for one in told)
                count = f"{held} of {len(told)}"
                lines.append(f"| {metric} | {name or 'all'} | {len(mine)} | {_interval(gaps)} | {count} |")
    return lines


def _interval(gaps: Any) -> str:
    from scipy.stats import t

    mean, deviation = gaps.mean(), gaps.std(ddof=1)
    half = t.ppf(0.975, len(gaps) - 1) * deviation / len(gaps) ** 0.5
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}] | {deviation:.2f}"


EXPERIMENT = Experiment("expected", TITLE, "aimfor", cells, run, report, seeds=20)
