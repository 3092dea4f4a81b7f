"""`map_curves`: the clearest gain of the map and its largest, undecided, loss, checkpoint by checkpoint.

Chosen when the map was known: shortest paths (+3.1 points, significant) and F1 at 0 on `us_crime` (−3.6 points in the
mean of five splits). Learning rates are those that the trials of the regimes chose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiment import Cell, Experiment, Options, Result, data_folder
from ..report.figures import COLOURS, drawing, tidy
from ..report.pages import report_of
from ..report.scoreboard import markdown
from . import regret, tables
from .losses import OF_TWO_CLASSES, OURS, Method
from .task import CHECKPOINTS, Task
from .training import Run, train_together

PATHS, CRIME = "shortest path", "imbalanced_small us_crime"
#: Data → its number, its splits, and the learning rate of each loss.
CURVES: dict[str, tuple[str, int, dict[str, float]]] = {
    PATHS: ("regret", regret.DRAWS, {"metric": 0.03162278, "squared error": 0.01778279}),
    CRIME: ("f1", 5, {"metric": 0.001, "balanced batches": 0.001}),
}


def cells(options: Options) -> list[Cell]:
    return [
        {"data": data, "method": name, "rate": rate}
        for data, (_, _, rates) in CURVES.items()
        for name, rate in rates.items()
    ]


def run(cell: Cell, options: Options) -> Result:
    data = cell["data"]
    metric, splits, _ = CURVES[data]
    method, load, value = _of_paths(cell) if data == PATHS else _of_tables(cell, options)
    tasks = [load(seed) for seed in range(splits)]
    runs = [Run(task, method.make(task.shares, 0.0, metric), cell["rate"], task.seed) for task in tasks]
    checkpoints = train_together(runs, method.balanced, True, ("judge",))
    values = [
        [value(scores["judge"], task.parts["judge"].y) for scores in each]
        for task, each in zip(tasks, checkpoints, strict=True)
    ]
    return {"steps": [tasks[0].steps * (k + 1) // CHECKPOINTS for k in range(2 * CHECKPOINTS)], "values": values}


Loaded = tuple[Method, Callable[[int], Task], Callable[[Any, Any], float]]


def _of_paths(cell: Cell) -> Loaded:
    solve = regret.PROBLEMS[PATHS][2]
    made = regret.method(cell["method"], solve)
    return made, functools.partial(regret.load, PATHS), functools.partial(regret.minus_regret, solve)


def _of_tables(cell: Cell, options: Options) -> Loaded:
    made = next(method for method in (*OF_TWO_CLASSES, *OURS) if method.name == cell["method"])
    folder = data_folder(options, tables.SMALL)
    return made, functools.partial(tables.load_task, folder, CRIME, ("f1",)), functools.partial(tables.exact, "f1")


def lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """The mean over splits at each checkpoint, ×100."""
    text: list[str] = []
    for data, (metric, _, _) in CURVES.items():
        mine = [entry for entry in results if entry["cell"]["data"] == data]
        if mine:
            head = (f"{data}, {metric}: after steps", *(str(step) for step in mine[0]["result"]["steps"]))
            rows = [(entry["cell"]["method"], *(f"{value:.1f}" for value in _mean(entry))) for entry in mine]
            text += [markdown(head, rows), ""]
    return text


def _mean(entry: dict[str, Any]) -> list[float]:
    return [float(value) for value in 100 * np.mean(entry["result"]["values"], 0)]


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel for each data set: the mean over its splits."""
    there = [data for data in CURVES if any(entry["cell"]["data"] == data for entry in results)]
    if not there:
        return
    with drawing(path, (8.0, 2.8)) as figure:
        panels = np.atleast_1d(figure.subplots(1, len(there)))
        for axes, data in zip(panels, there, strict=True):
            mine = [entry for entry in results if entry["cell"]["data"] == data]
            for colour, entry in zip(COLOURS, mine, strict=False):
                axes.plot(entry["result"]["steps"], _mean(entry), "o-", color=colour, label=entry["cell"]["method"])
            axes.axvline(mine[0]["result"]["steps"][CHECKPOINTS - 1], color="black", linewidth=0.6, linestyle=":")
            tidy(axes, "steps (the budget is dotted)", CURVES[data][0] + ", ×100", data)
            axes.legend(frameon=False)


TITLE = "The map: learning curves of its clearest gain and its largest loss"
EXPERIMENT = Experiment("map_curves", TITLE, "aimfor", cells, run, report_of(TITLE, lines))
