"""What a regime of the map is: data sets, the metrics that judge them, and the losses that are tried."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from ..experiment import Cell, Experiment, Options, Result, data_folder
from .board import report_of
from .contest import contest
from .losses import Method, has_direct
from .task import Task

#: The data sets of a regime, each with the metrics it is judged by and the losses that are tried.
Entrants = Mapping[str, tuple[tuple[str, ...], tuple[Method, ...]]]
Load = Callable[[Path, str, tuple[str, ...], int], Task]


def cells_of(entrants: Entrants) -> list[Cell]:
    """One cell for each loss, trials and seeds included; our losses are trained for each metric."""
    found: list[Cell] = []
    for data, (metrics, methods) in entrants.items():
        for method in methods:
            wanted = [one for one in metrics if "direct" not in method.name or has_direct(one)]
            found += [
                {"data": data, "method": method.name, "metric": one} for one in (wanted if method.ours else ["all"])
            ]
    return found


def regime(name: str, title: str, entrants: Entrants, load: Load) -> Experiment:
    def run(cell: Cell, options: Options) -> Result:
        metrics, methods = entrants[cell["data"]]
        needed = [one for one in (cell["data"].split()[0],) if one != "digits"]
        make = functools.partial(load, data_folder(options, *needed), cell["data"], metrics)
        method = next(one for one in methods if one.name == cell["method"])
        return contest(make, method, cell["metric"], options.seeds)

    return Experiment(name, title, "aimfor", lambda options: cells_of(entrants), run, report_of(title))
