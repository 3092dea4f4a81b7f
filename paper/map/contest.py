"""Trials, seeds and checkpoints, the same for every loss of the map."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..experiment import Result
from .losses import Method
from .task import CHECKPOINTS, CLIP, Checkpoint, Inputs, Task
from .together import Run, train_together

TRIAL_SEED, SEEDS = 100, 5
#: First weights of each fold that makes its own trials.
STARTS = 3
#: Learning rate and knob.
Trial = tuple[float, float]


def grid(method: Method, rates: tuple[float, float]) -> list[Trial]:
    """Nine of them."""
    low, high = rates
    if not method.knobs:
        return [(low * (high / low) ** (k / 8), 0.0) for k in range(9)]
    middle = 3.0 * low, 10.0 * low, 30.0 * low
    return [(rate, knob) for rate in method.rates or middle for knob in method.knobs]


def train(run: Run, balanced: bool, twice: bool, parts: Sequence[str]) -> list[Checkpoint]:
    """Scores of the parts at every fifth of the budget, for once or twice the steps; NaN from where it diverges."""
    task = run.task
    torch.manual_seed(run.seed)
    network = task.network()
    optimizer = torch.optim.Adam(network.parameters(), run.rate)
    generator = torch.Generator().manual_seed(task.seed)
    some, found = task.draw(task, balanced, generator), []
    for step in range(task.steps * (2 if twice else 1)):
        rows = task.augment(task.train.at(next(some)), generator)
        optimizer.zero_grad()
        scores, y = task.loss_inputs(network(*rows.x), rows.y)
        if bool(scores.isfinite().all()):  # else it has diverged, and stays as it is
            run.loss(scores, y, step / task.steps).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
        if (step + 1) % (task.steps // CHECKPOINTS) == 0:
            found.append({name: scores_of(network, task.parts[name].x) for name in parts})
    return found


def scores_of(network: nn.Module, x: Inputs, block: int = 4096) -> torch.Tensor:
    network.eval()
    with torch.no_grad():
        found = [network(*(one[start : start + block] for one in x)) for start in range(0, len(x[0]), block)]
    network.train()
    return torch.cat(found)


#: A task and the seed of the first weights.
Start = tuple[Task, int]


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
        for run, found in zip(everyone, train_together(everyone, method.balanced, final, parts), strict=True):
            yield run.task, found
        return
    for run in (first, *runs):
        yield run.task, train(run, method.balanced, final, parts)


def _tried(task: Task, method: Method, metric: str) -> tuple[list[Trial], list[dict[str, Any]]]:
    trials = grid(method, task.rates)
    found = _trained([(task, task.seed)] * len(trials), trials, method, metric, final=False)
    return trials, [one.evaluate(checkpoints) for one, checkpoints in found]


def _finished(starts: Iterable[Start], trial: Trial, method: Method, metric: str, runs: int) -> list[tuple[Any, Any]]:
    """Of each run, what it is worth at the budget and at twice the budget."""
    found = _trained(starts, [trial] * runs, method, metric, final=True)
    return [(task.evaluate(some[:CHECKPOINTS]), task.evaluate(some)) for task, some in found]


def _best(values: Sequence[float]) -> int:
    """A trial that diverged is chosen only where all did."""
    return max(range(len(values)), key=lambda k: -math.inf if values[k] != values[k] else values[k])


def _wanted(task: Task, method: Method, metric: str) -> tuple[str, ...]:
    return (metric,) if method.ours else task.metrics


def contest(load: Callable[[int], Task], method: Method, metric: str, seeds: int = SEEDS) -> Result:
    """Nine trials on a seed of their own, then the chosen one on every seed.

    Returns:
        By metric the chosen trial, and its values on the five seeds at the budget and at twice the budget.
    """
    task = load(TRIAL_SEED)
    trials, tried = _tried(task, method, metric)
    by_trial: dict[int, list[tuple[Any, Any]]] = {}
    result: Result = {}
    for name in _wanted(task, method, metric):
        values = [one[name]["choose"] for one in tried]
        best = _best(values)
        if best not in by_trial:
            starts = ((load(seed), seed) for seed in range(seeds))
            by_trial[best] = _finished(starts, trials[best], method, metric, seeds)
        result[name] = {
            "trials": values,
            "rate": trials[best][0],
            "knob": trials[best][1],
            **{
                when: {part: [seed[place][name][part] for seed in by_trial[best]] for part in task.parts}
                for place, when in enumerate(("once", "twice"))
            },
        }
    return result


def contest_of_folds(task: Task, method: Method, metric: str) -> Result:
    """A fold that makes its own trials; the best on its choosing rows is judged item by item, mean of the starts."""
    trials, tried = _tried(task, method, metric)
    result: Result = {}
    for name in _wanted(task, method, metric):
        values = [one[name]["choose"] for one in tried]
        best = _best(values)
        starts = [(task, 10 * task.seed + start) for start in range(STARTS)]
        runs = _finished(starts, trials[best], method, metric, STARTS)
        result[name] = {"trials": values, "rate": trials[best][0], "knob": trials[best][1]}
        for place, when in enumerate(("once", "twice")):
            result[name][when] = {
                part: np.atleast_1d(np.mean([run[place][name][part] for run in runs], 0)).tolist()
                for part in task.parts
            }
    return result
