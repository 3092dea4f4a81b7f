"""Choices on validation data, and the one look at test data that follows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from aimfor import Metric
from aimfor.metrics import CountMetric
from aimfor.refit.choose import best_shift
from aimfor.targets.folds import rows_of_each

from .protocol import Checkpoint, Contest, Split, scores_for
from .training import restored, scores_of


@dataclass(frozen=True)
class Chosen:
    """What validation data chose, and (read once, here) what it does on test data."""

    name: str
    validation: float
    test: float


#: Of the rows, for who wins.
DRAWS = 100


def tuned_value(metric: Metric, scores: Tensor, part: Split, tune: bool = True) -> tuple[float, float]:
    """The metric at its best threshold on this data (if it has one), and the shift that brings it to 0.

    With ``tune=False`` the threshold stays where it is and the shift is 0.
    """
    targets, shift = part.targets_for(metric), 0.0
    if tune and isinstance(metric, CountMetric) and scores.ndim == 1:
        shift = best_shift(metric, metric.check(scores, targets))
    return float(metric.value(scores_for(metric, scores) + shift, targets, where=part.where)), shift


def best(
    metric: Metric, checkpoints: list[Checkpoint], part: Split, tune: bool = True
) -> tuple[Checkpoint, float, float]:
    """The checkpoint with the highest metric on this part (the first of equals), its value and its shift."""
    judged = [tuned_value(metric, checkpoint.validation, part, tune) for checkpoint in checkpoints]
    at = max(range(len(judged)), key=lambda i: (judged[i][0], -i))
    return checkpoints[at], judged[at][0], judged[at][1]


def scores_on_test(task: Contest, checkpoint: Checkpoint) -> Tensor:
    """Scores of the test part by the model of a checkpoint."""
    return scores_of(restored(task, checkpoint), task.test.x)


def chosen(task: Contest, metric: Metric, checkpoints: list[Checkpoint]) -> Chosen:
    """The best on validation data, with its threshold; then, and only then, its value on test data."""
    checkpoint, value, shift = best(metric, checkpoints, task.validation)
    return judged(task, metric, checkpoint, value, shift)


def judged(task: Contest, metric: Metric, checkpoint: Checkpoint, value: float, shift: float) -> Chosen:
    """A checkpoint on test data, its value on validation data and its threshold settled before."""
    scores = scores_for(metric, scores_on_test(task, checkpoint)) + shift
    test = float(metric.value(scores, task.test.targets_for(metric), where=task.test.where))
    return Chosen(checkpoint.name, value, test)


def share_won(metric: Metric, ours: Checkpoint, theirs: Checkpoint, part: Split) -> float:
    """In how many of the bootstrap draws of this data (class by class) ours has the higher metric; a tie is half.

    Thresholds are those that suit the whole of it.
    """
    targets = part.targets_for(metric)
    labels = targets if targets.ndim == 1 else torch.zeros(len(targets), dtype=torch.long)
    a, b = (
        scores_for(metric, point.validation) + tuned_value(metric, point.validation, part)[1]
        for point in (ours, theirs)
    )

    def value(scores: Tensor, rows: Tensor) -> float:
        where = None if part.where is None else part.where[rows]
        return float(metric.value(scores, targets[rows], where=where))

    generator, won = torch.Generator().manual_seed(0), 0.0
    for _ in range(DRAWS):
        rows = torch.cat([g[torch.randint(len(g), (len(g),), generator=generator)] for g in rows_of_each(labels)])
        first, second = value(a[rows], rows), value(b[rows], rows)
        won += 1.0 if first > second else 0.5 if first == second else 0.0
    return won / DRAWS
