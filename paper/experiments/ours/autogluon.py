"""The committee beside AutoGluon on the ten small tables with most positive rows, one core each, the same splits.

AutoGluon lives in an environment of its own, named by ``AIMFOR_AUTOGLUON``, the path of its Python; ``medium_quality``
with the metric as its ``eval_metric``. It may take an hour, far more than it needs, so that the load of the machine
decides nothing; what either took is measured in CPU seconds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.errors import InputError
from aimfor.learners.ensemble import fit_ensemble
from aimfor.targets.objective import Objective

from ... import rivals
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from ...report.statistics import bootstrap_median
from .committee import rows_of, split

TITLE = "The committee beside AutoGluon on ten tables"
SETTING = """AutoGluon 1.6 on the same splits: preset `medium_quality`, `eval_metric` set to the metric, no effective
time limit; its members are three kinds of boosted trees, forests and its torch network, without fastai. Points on test
rows; CPU seconds of training on one core."""
TABLES = "segment0 wine_quality wilt phoneme page_blocks0 satimage optdigits spambase penbased letter".split()  # noqa: SIM905
METRICS = ("f1", "ap", "auroc")
SECONDS_AT_MOST = 3600
WORKER = Path(rivals.__file__).parent / "autogluon_worker.py"


def cells(options: Options) -> list[Cell]:
    return [
        {"set": name, "seed": seed, "metric": metric}
        for seed in range(options.seeds)
        for metric in METRICS
        for name in TABLES
    ]


def interpreter() -> str:
    """The Python that has AutoGluon. Raises `InputError` with the way to get one."""
    given = os.environ.get("AIMFOR_AUTOGLUON")
    if not given:
        raise InputError(
            "AIMFOR_AUTOGLUON",
            "nothing",
            "the path of a Python that has autogluon.tabular",
            'Make one: python -m venv ag; ag/bin/pip install torch "autogluon.tabular[lightgbm,catboost,xgboost]".',
        )
    return given


def run(cell: Cell, options: Options) -> Result:
    python = interpreter()
    folder = data_folder(options, "imbalanced_small")
    x, y, x_test, y_test = split(*rows_of(folder, cell["set"]), cell["seed"])
    objective = Objective.of(cell["metric"])
    began = time.process_time()
    committee = fit_ensemble(x, y, objective, seed=cell["seed"])
    cpu = time.process_time() - began
    value = objective.value(committee.scores(x_test), y_test, committee.threshold.value)
    with tempfile.TemporaryDirectory() as temporary:
        parts = Path(temporary) / "split.npz"
        np.savez(parts, x=x.numpy(), y=y.numpy(), x_test=x_test.numpy(), y_test=y_test.numpy())
        command = [python, str(WORKER), str(parts), cell["metric"], str(SECONDS_AT_MOST)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {
        "committee": {"test": value, "cpu": cpu},
        "autogluon": json.loads(printed.splitlines()[-1]),
        "positives": int(y_test.sum()),
    }


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {TITLE}", "", SETTING, "", *summary_lines(results, "##")])


def summary_lines(results: list[dict[str, Any]], level: str) -> list[str]:
    """Metric by metric, then every table."""
    lines = ["| metric | cells | committee − AutoGluon, median [95 %] | mean | up / down | CPU s: ours, theirs |"]
    lines += ["|---|---|---|---|---|---|"]
    for metric in METRICS:
        chosen = [one["result"] for one in results if one["cell"]["metric"] == metric]
        if chosen:
            gains = [100 * (one["committee"]["test"] - one["autogluon"]["test"]) for one in chosen]
            middle, low, high = bootstrap_median(gains)
            times = [statistics.median(one[who]["cpu"] for one in chosen) for who in ("committee", "autogluon")]
            up, down = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
            lines.append(
                f"| {metric} | {len(gains)} | {middle:+.2f} [{low:+.2f}, {high:+.2f}] | "
                f"{statistics.mean(gains):+.2f} | {up} / {down} | {times[0]:.0f}, {times[1]:.0f} |"
            )
    lines += [
        "",
        f"{level} Table by table",
        "",
        "| table | metric | split | committee | AutoGluon |",
        "|---|---|---|---|---|",
    ]
    for one in sorted(results, key=lambda one: (one["cell"]["metric"], one["cell"]["set"], one["cell"]["seed"])):
        cell, found = one["cell"], one["result"]
        lines.append(
            f"| {cell['set']} | {cell['metric']} | {cell['seed']} | {found['committee']['test']:.4f} | "
            f"{found['autogluon']['test']:.4f} |"
        )
    return lines


EXPERIMENT = Experiment("autogluon", TITLE, "aimfor", cells, run, report, seeds=1)
