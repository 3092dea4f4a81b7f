"""One training step and the batches it is taken on, for the stages and for the last phase on all data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import InputError
from .config import Settings, Stage
from .losses import StageLoss
from .models import shaped
from .objective import Objective
from .sampler import BalancedBatchSampler

#: A stage that asks for all rows at once gets at most this many (tables, images).
_WHOLE = (16384, 128)


@dataclass(frozen=True)
class Task:
    """Encoded data: ``x`` (n, d) or (n, c, h, w) float32, ``y`` (n,) class ids."""

    x: Tensor
    y: Tensor
    x_validation: Tensor
    y_validation: Tensor
    objective: Objective
    outputs: int
    weights: Tensor | None = None
    weights_validation: Tensor | None = None

    def validation_value(self, scores: Tensor, rows: Tensor) -> float:
        """The metric of the scores of some validation rows."""
        weights = None if self.weights_validation is None else self.weights_validation[rows]
        return self.objective.value(scores, self.y_validation[rows], weights=weights)


def batch_size(task: Task, settings: Settings, stage: Stage) -> int:
    n = len(task.y)
    if stage.batch == -1:
        return min(n, _WHOLE[task.x.ndim == 4])
    return min(n, stage.batch or settings.batch_size)


def epoch_batches(task: Task, settings: Settings, stage: Stage, number: int, epoch: int) -> list[Tensor]:
    """The epoch's batches as row numbers, a function of (seed, number of the stage, epoch) alone."""
    size, n = batch_size(task, settings, stage), len(task.y)
    seed = settings.seed * 31 + number
    if stage.balanced:
        sampler = BalancedBatchSampler(task.y, max(size, task.outputs, 2), seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler.epoch_batches())
    generator = torch.Generator().manual_seed(seed * 100_003 + epoch)
    order = torch.arange(n) if size == n else torch.randperm(n, generator=generator)
    return list(order.split(size)[: max(1, n // size)])


def make_optimizer(model: nn.Module, settings: Settings, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=settings.weight_decay, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float, progress: float) -> None:
    """Half a cosine from the full rate to a twentieth: a function of progress alone, so it has no state."""
    for group in optimizer.param_groups:
        group["lr"] = rate * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * progress)))


def take_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: StageLoss,
    task: Task,
    settings: Settings,
    rows: Tensor,
) -> float:
    """Moves the model by one batch; returns the loss before the step. Raises `InputError` when it is not finite."""
    weights = None if task.weights is None else task.weights[rows]
    optimizer.zero_grad(set_to_none=True)
    value = loss(shaped(model(task.x[rows]), task.outputs), task.y[rows], weights, rows)
    go_down(value, optimizer, settings.learning_rate)
    return float(value.detach())


def go_down(value: Tensor, optimizer: torch.optim.Optimizer, rate: float) -> None:
    """One step against the gradient of the loss. Raises `InputError` for a loss that is not finite."""
    if not math.isfinite(float(value.detach())):
        raise InputError("--learning-rate", f"{rate:g}, with which the loss is not finite", "a lower one")
    value.backward()
    optimizer.step()
