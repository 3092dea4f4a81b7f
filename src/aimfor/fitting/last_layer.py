"""The last layer of a network, refitted on all training rows for the metric."""

from __future__ import annotations

from torch import nn

from ..errors import refusal
from ..refit import HeadFitter
from .objective import Objective
from .steps import Task


def why_no_head(objective: Objective) -> str | None:
    """A sentence when the last layer cannot be refitted for this metric, else None."""
    return refusal(lambda: HeadFitter(objective.metric))


def refit_last_layer(task: Task, model: nn.Module) -> None:
    """Replaces the model's last layer by one that is fitted on all training rows for the metric."""
    chunk = 4096 if task.x.ndim == 2 else 256
    train = [task.x, task.y, *([] if task.weights is None else [task.weights])]
    held = [
        task.x_validation,
        task.y_validation,
        *([] if task.weights_validation is None else [task.weights_validation]),
    ]
    batches, validation = (list(zip(*(part.split(chunk) for part in parts), strict=True)) for parts in (train, held))
    HeadFitter(task.objective.metric).from_model(model, batches, validation=validation, install=True)
