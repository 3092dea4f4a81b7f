"""Trials, seeds and checkpoints, the same for every loss of the map."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..experiment import Result
from .losses import Loss, Method

TRIAL_SEED, SEEDS, CHECKPOINTS = 100, 5, 5
#: Feature tensors of equal length: one for rows, several for maps of pictures.
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Rows:
    x: Inputs
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def at(self, index: Tensor) -> Rows:
        return Rows(tuple(one[index] for one in self.x), self.y[index])


#: Scores of the choosing and of each judging part at one checkpoint.
Checkpoint = dict[str, Tensor]


@dataclass(frozen=True)
class Task:
    """One data set cut by one seed.

    Attributes:
        parts: "choose", "judge" and, where there is one, "confirm".
        evaluate: From checkpoints to, by metric, the best checkpoint's value on the choosing rows and on the others.
        loss_inputs: What of scores and targets the losses see.
        rates: Lowest and highest learning rate of trials without a knob.
    """

    train: Rows
    parts: dict[str, Rows]
    network: Callable[[], nn.Module]
    evaluate: Callable[[Sequence[Checkpoint]], dict[str, dict[str, float]]]
    metrics: tuple[str, ...]
    shares: Tensor
    seed: int
    steps: int
    batch: int
    loss_inputs: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda scores, y: (scores, y)
    augment: Callable[[Rows, torch.Generator], Rows] = lambda rows, generator: rows
    rates: tuple[float, float] = (1e-4, 1e-2)


def best_of(
    checkpoints: Sequence[Checkpoint], parts: dict[str, Rows], value: Callable[[Tensor, Tensor], float]
) -> dict[str, float]:
    """A metric at the checkpoint that has the highest value on the choosing rows."""
    finite = [one for one in checkpoints if all(bool(scores.isfinite().all()) for scores in one.values())]
    if not finite:
        return dict.fromkeys(parts, math.nan)
    best = max(finite, key=lambda one: value(one["choose"], parts["choose"].y))
    return {name: value(best[name], rows.y) for name, rows in parts.items()}


def grid(method: Method, rates: tuple[float, float]) -> list[tuple[float, float]]:
    """Nine pairs of learning rate and knob."""
    low, high = rates
    if not method.knobs:
        return [(low * (high / low) ** (k / 8), 0.0) for k in range(9)]
    middle = 3.0 * low, 10.0 * low, 30.0 * low
    return [(rate, knob) for rate in middle for knob in method.knobs]


def train(task: Task, loss: Loss, rate: float, balanced: bool, twice: bool) -> list[Checkpoint]:
    """Checkpoints at every fifth of the budget, for once or twice the steps; NaN from where it diverges."""
    torch.manual_seed(task.seed)
    network = task.network()
    optimizer = torch.optim.Adam(network.parameters(), rate)
    generator = torch.Generator().manual_seed(task.seed)
    batches, found = _batches(task, balanced, generator), []
    for step in range(task.steps * (2 if twice else 1)):
        rows = task.augment(task.train.at(next(batches)), generator)
        optimizer.zero_grad()
        scores, y = task.loss_inputs(network(*rows.x), rows.y)
        if bool(scores.isfinite().all()):  # else it has diverged, and stays as it is
            loss(scores, y, step / task.steps).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
        if (step + 1) % (task.steps // CHECKPOINTS) == 0:
            found.append({name: scores_of(network, part.x) for name, part in task.parts.items()})
    return found


def scores_of(network: nn.Module, x: Inputs, block: int = 4096) -> Tensor:
    network.eval()
    with torch.no_grad():
        found = [network(*(one[start : start + block] for one in x)) for start in range(0, len(x[0]), block)]
    network.train()
    return torch.cat(found)


def _batches(task: Task, balanced: bool, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows in random order, again and again; or half positives and half negatives, drawn with repetition."""
    n = len(task.train)
    groups = [(task.train.y == label).nonzero().squeeze(1) for label in (0, 1)] if balanced else []
    order = torch.zeros(0, dtype=torch.int64)
    while True:
        if balanced:
            half = task.batch // 2
            yield torch.cat([group[torch.randint(len(group), (half,), generator=generator)] for group in groups])
            continue
        if len(order) < task.batch:
            order = torch.randperm(n, generator=generator)
        some, order = order[: task.batch], order[task.batch :]
        yield some


def _wanted(task: Task, method: Method, metric: str) -> tuple[str, ...]:
    return (metric,) if method.ours else task.metrics


def contest(load: Callable[[int], Task], method: Method, metric: str, seeds: int = SEEDS) -> Result:
    """Nine trials on a seed of their own, then the chosen one on every seed.

    Returns:
        By metric the chosen trial, and its values on the five seeds at the budget and at twice the budget.
    """
    task = load(TRIAL_SEED)
    trials = grid(method, task.rates)
    tried = [_evaluated(task, method, metric, *trial, twice=False)[0] for trial in trials]
    by_trial: dict[int, list[tuple[Any, Any]]] = {}
    result: Result = {}
    for name in _wanted(task, method, metric):
        values = [one[name]["choose"] for one in tried]
        best = max(range(len(values)), key=lambda k: -math.inf if values[k] != values[k] else values[k])
        if best not in by_trial:
            by_trial[best] = [
                _evaluated(load(seed), method, metric, *trials[best], twice=True) for seed in range(seeds)
            ]
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
    """A fold that makes its own trials: the best on its validation part is judged, at the budget and at twice."""
    trials = grid(method, task.rates)
    tried = [_evaluated(task, method, metric, *trial, twice=True) for trial in trials]
    result: Result = {}
    for name in _wanted(task, method, metric):
        result[name] = {"trials": [one[0][name]["choose"] for one in tried]}
        for place, when in enumerate(("once", "twice")):
            values = [one[place][name]["choose"] for one in tried]
            best = max(range(len(values)), key=lambda k: -math.inf if values[k] != values[k] else values[k])
            result[name][when] = {part: [value] for part, value in tried[best][place][name].items()}
            result[name]["rate"], result[name]["knob"] = trials[best]
    return result


def _evaluated(task: Task, method: Method, metric: str, rate: float, knob: float, *, twice: bool) -> tuple[Any, Any]:
    loss = method.make(task.shares, knob, metric)
    checkpoints = train(task, loss, rate, method.balanced, twice)
    once = task.evaluate(checkpoints[:CHECKPOINTS])
    return once, task.evaluate(checkpoints) if twice else once
