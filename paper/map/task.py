"""A data set cut by one seed: what a loss of the map trains on, and what chooses and judges it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

CHECKPOINTS, CLIP = 5, 5.0

#: Feature tensors of equal length: one for rows, several for maps of pictures.
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Rows:
    x: Inputs
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def at(self, index: Tensor) -> Rows:
        return Rows(tuple(column[index] for column in self.x), self.y[index])


#: Scores of the choosing and of each judging part at one checkpoint.
Checkpoint = dict[str, Tensor]


def batches(task: Task, balanced: bool, generator: torch.Generator) -> Iterator[Tensor]:
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


@dataclass(frozen=True)
class Task:
    """One data set cut by one seed.

    Attributes:
        parts: "choose", "judge" and, where there is one, "confirm".
        evaluate: From checkpoints to, by metric, the best checkpoint's value on each part that was scored.
        loss_inputs: What of scores and targets the losses see.
        rates: Lowest and highest learning rate of trials without a knob.
        together: The network is small and without state but its weights: its runs are trained in one pass.
        draw: Rows of one batch after another.
    """

    train: Rows
    parts: dict[str, Rows]
    network: Callable[[], nn.Module]
    evaluate: Callable[[Sequence[Checkpoint]], dict[str, dict[str, Any]]]
    metrics: tuple[str, ...]
    shares: Tensor
    seed: int
    steps: int
    batch: int
    loss_inputs: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda scores, y: (scores, y)
    augment: Callable[[Rows, torch.Generator], Rows] = lambda rows, generator: rows
    rates: tuple[float, float] = (1e-4, 1e-2)
    together: bool = True
    draw: Callable[[Task, bool, torch.Generator], Iterator[Tensor]] = batches


def chosen(
    checkpoints: Sequence[Checkpoint], parts: dict[str, Rows], value: Callable[[Tensor, Tensor], float]
) -> tuple[Checkpoint, float]:
    """The checkpoint that has the highest value on the choosing rows, and that value; a diverged one where all are."""
    finite = [
        checkpoint for checkpoint in checkpoints if all(bool(scores.isfinite().all()) for scores in checkpoint.values())
    ]
    if not finite:
        return checkpoints[0], math.nan
    values = [value(checkpoint["choose"], parts["choose"].y) for checkpoint in finite]
    best = max(range(len(finite)), key=values.__getitem__)
    return finite[best], values[best]


def best_of(
    checkpoints: Sequence[Checkpoint], parts: dict[str, Rows], value: Callable[[Tensor, Tensor], float]
) -> dict[str, float]:
    """A metric at the chosen checkpoint, for each part that was scored."""
    best, value_there = chosen(checkpoints, parts, value)
    return {
        part: value_there if part == "choose" or math.isnan(value_there) else value(scores, parts[part].y)
        for part, scores in best.items()
    }


def best_where_tuned(
    checkpoints: Sequence[Checkpoint],
    parts: dict[str, Rows],
    tune: Callable[[Tensor, Tensor], Tensor],
    value: Callable[[Tensor, Tensor, Tensor], float],
) -> dict[str, float]:
    """A metric of decisions: the choosing rows choose the checkpoint and its thresholds, the same on all parts."""
    best, value_there = chosen(checkpoints, parts, lambda scores, y: value(scores, y, tune(scores, y)))
    if math.isnan(value_there):
        return dict.fromkeys(best, value_there)
    thresholds = tune(best["choose"], parts["choose"].y)
    return {part: value(scores, parts[part].y, thresholds) for part, scores in best.items()}


def items_of_best(
    checkpoints: Sequence[Checkpoint],
    parts: dict[str, Rows],
    value: Callable[[Tensor, Tensor], float],
    items: Callable[[Tensor, Tensor], list[float]],
) -> dict[str, Any]:
    """A metric at the chosen checkpoint; of the judging part, if it was scored, item by item (queries, classes)."""
    best, value_there = chosen(checkpoints, parts, value)
    judged = {"judge": items(best["judge"], parts["judge"].y)} if "judge" in best else {}
    return {"choose": value_there, **judged}
