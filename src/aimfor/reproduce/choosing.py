"""Choices on validation data, and the one look at test data that follows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..head.choose import best_shift
from ..metrics.base import Metric
from ..metrics.confusion import CountMetric
from .protocol import Checkpoint, Task
from .training import scores_of


@dataclass(frozen=True)
class Chosen:
    """What validation data chose, and (read once, here) what it does on test data."""

    name: str
    validation: float
    test: float


def tuned_value(metric: Metric, scores: Tensor, targets: Tensor) -> tuple[float, float]:
    """The metric at its best threshold on this data (if it has one), and the shift that brings it to 0."""
    shift = 0.0
    if isinstance(metric, CountMetric) and scores.ndim == 1:
        shift = best_shift(metric, metric.check(scores, targets))
    return float(metric.value(scores + shift, targets)), shift


def best(metric: Metric, checkpoints: list[Checkpoint], targets: Tensor) -> tuple[Checkpoint, float, float]:
    """The checkpoint with the highest metric on validation data (the first of equals), its value and its shift."""
    judged = [tuned_value(metric, checkpoint.validation, targets) for checkpoint in checkpoints]
    at = max(range(len(judged)), key=lambda i: (judged[i][0], -i))
    return checkpoints[at], judged[at][0], judged[at][1]


def on_test(task: Task, metric: Metric, checkpoint: Checkpoint, shift: float) -> float:
    """The metric on test data, with the threshold that validation chose."""
    model = task.make_model()
    model.load_state_dict(checkpoint.state)
    return float(metric.value(scores_of(model, task.test.x) + shift, task.test.y))


def chosen(task: Task, metric: Metric, checkpoints: list[Checkpoint]) -> Chosen:
    checkpoint, value, shift = best(metric, checkpoints, task.validation.y)
    return Chosen(checkpoint.name, value, on_test(task, metric, checkpoint, shift))
