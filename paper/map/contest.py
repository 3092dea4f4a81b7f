"""Trials, seeds and checkpoints, the same for every loss of the map; and the regimes that are made of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiment import Cell, Experiment, Options, Result, data_folder
from ..report.pages import report_of
from .board import table_lines
from .losses import Method, has_direct
from .task import CHECKPOINTS, Checkpoint, Task
from .training import Run, train, train_together

TRIAL_SEED, SEEDS = 100, 5
#: First weights of each fold that makes its own trials.
STARTS = 3
#: Learning rate and knob.
Trial = tuple[float, float]
#: A task and the seed of the first weights.
Start = tuple[Task, int]
#: The data sets of a regime, each with the metrics it is judged by and the losses that are tried.
Entrants = Mapping[str, tuple[tuple[str, ...], tuple[Method, ...]]]


def grid(method: Method, rates: tuple[float, float]) -> list[Trial]:
    """Nine of them."""
    low, high = rates
    if not method.knobs:
        return [(low * (high / low) ** (k / 8), 0.0) for k in range(9)]
    middle = 3.0 * low, 10.0 * low, 30.0 * low
    return [(rate, knob) for rate in method.rates or middle for knob in method.knobs]


def _trained(
    starts: Iterable[Start], trials: Sequence[Trial], method: Method, metric: str, *, final: bool
) -> Iterator[tuple[Task, list[Checkpoint]]]:
    """Trials are trained for the budget and scored on the choosing rows; final runs for twice that, on every part."""
    if method.own is not None:
        for (task, seed), (rate, knob) in zip(starts, trials, strict=True):
            yield task, method.own(task, rate, knob, seed, final, tuple(task.parts) if final else ("choose",))
        return
    runs = (
        Run(task, method.make(task.shares, knob, metric), rate, seed)
        for (task, seed), (rate, knob) in zip(starts, trials, strict=True)
    )
    first = next(runs)
    parts = tuple(first.task.parts) if final else ("choose",)
    if first.task.together:
        everyone = [first, *runs]
        for run, checkpoints in zip(everyone, train_together(everyone, method.balanced, final, parts), strict=True):
            yield run.task, checkpoints
        return
    for run in (first, *runs):
        yield run.task, train(run, method.balanced, final, parts)


def _contest(
    trial_task: Task,
    starts: Callable[[], Iterable[Start]],
    runs: int,
    method: Method,
    metric: str,
    gather: Callable[[list[Any]], Any],
) -> Result:
    """Nine trials; then, for each metric, the best one from every start, at the budget and at twice the budget."""
    trials = grid(method, trial_task.rates)
    trained = _trained([(trial_task, trial_task.seed)] * len(trials), trials, method, metric, final=False)
    tried = [task.evaluate(checkpoints) for task, checkpoints in trained]
    by_trial: dict[int, dict[str, list[dict[str, dict[str, Any]]]]] = {}
    result: Result = {}
    for name in (metric,) if method.ours else trial_task.metrics:
        values = [trial[name]["choose"] for trial in tried]
        # A trial that diverged is chosen only where all did.
        best = max(range(len(values)), key=lambda k: -math.inf if math.isnan(values[k]) else values[k])
        if best not in by_trial:
            final = list(_trained(starts(), [trials[best]] * runs, method, metric, final=True))
            by_trial[best] = {
                "once": [task.evaluate(checkpoints[:CHECKPOINTS]) for task, checkpoints in final],
                "twice": [task.evaluate(checkpoints) for task, checkpoints in final],
            }
        result[name] = {"trials": values, "rate": trials[best][0], "knob": trials[best][1]}
        for when, each in by_trial[best].items():
            result[name][when] = {part: gather([run[name][part] for run in each]) for part in trial_task.parts}
    return result


def contest(load: Callable[[int], Task], method: Method, metric: str, seeds: int = SEEDS) -> Result:
    """Nine trials on a seed of their own, then the chosen one on every seed.

    Returns:
        By metric the chosen trial, and its values on the seeds at the budget and at twice the budget.
    """
    return _contest(load(TRIAL_SEED), lambda: ((load(s), s) for s in range(seeds)), seeds, method, metric, list)


def contest_of_folds(task: Task, method: Method, metric: str) -> Result:
    """A fold that makes its own trials; the best on its choosing rows is judged item by item, mean of the starts."""
    starts = [(task, 10 * task.seed + start) for start in range(STARTS)]

    def mean(values: list[Any]) -> list[float]:
        return [float(value) for value in np.atleast_1d(np.mean(values, 0))]

    return _contest(task, lambda: starts, STARTS, method, metric, mean)


def _metrics(method: Method, metrics: Sequence[str]) -> list[str]:
    """Our losses are trained for each metric."""
    if not method.ours:
        return ["all"]
    return [metric for metric in metrics if "direct" not in method.name or has_direct(metric)]


def regime(
    name: str, title: str, entrants: Entrants, load: Callable[[Path, str, tuple[str, ...], int], Task]
) -> Experiment:
    """One cell for each data set and loss, trials and seeds included."""

    def cells(options: Options) -> list[Cell]:
        return [
            {"data": data, "method": method.name, "metric": metric}
            for data, (metrics, methods) in entrants.items()
            for method in methods
            for metric in _metrics(method, metrics)
        ]

    def run(cell: Cell, options: Options) -> Result:
        metrics, methods = entrants[cell["data"]]
        needed = [folder for folder in (cell["data"].split()[0],) if folder != "digits"]
        make = functools.partial(load, data_folder(options, *needed), cell["data"], metrics)
        method = next(method for method in methods if method.name == cell["method"])
        return contest(make, method, cell["metric"], options.seeds)

    return Experiment(name, title, "aimfor", cells, run, report_of(title, table_lines))


def regime_of_folds(
    name: str,
    title: str,
    folds: Mapping[str, Sequence[int]],
    metrics: tuple[str, ...],
    methods: tuple[Method, ...],
    load: Callable[[Path, str, int], Task],
) -> Experiment:
    """One cell for each loss and fold of a data set, in the order of the losses."""
    loaded = functools.cache(load)

    def cells(options: Options) -> list[Cell]:
        return [
            {"data": data, "fold": fold, "method": method.name, "metric": metric}
            for method in methods
            for data, numbers in folds.items()
            for metric in _metrics(method, metrics)
            for fold in numbers
        ]

    def run(cell: Cell, options: Options) -> Result:
        method = next(method for method in methods if method.name == cell["method"])
        task = loaded(data_folder(options, cell["data"]), cell["data"], cell["fold"])
        return contest_of_folds(task, method, cell["metric"])

    return Experiment(name, title, "aimfor", cells, run, report_of(title, table_lines))
