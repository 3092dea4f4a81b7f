"""Several runs of one small network at once: one batched pass forward instead of one for each run."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from .losses import Loss
from .task import CHECKPOINTS, CLIP, Checkpoint, Rows, Task


@dataclass(frozen=True)
class Run:
    """A loss of its own (some remember), a learning rate, and the seed of the first weights."""

    task: Task
    loss: Loss
    rate: float
    seed: int


class Adams:
    """Adam of every run by itself: slice k of each weight has learning rate ``rates[k]`` and is clipped alone."""

    def __init__(self, weights: Sequence[Tensor], rates: Sequence[float]) -> None:
        self.weights, self.steps = list(weights), 0
        self.rates = torch.tensor(rates)
        self.first = [torch.zeros_like(one) for one in self.weights]
        self.second = [torch.zeros_like(one) for one in self.weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        self.steps += 1
        norms = torch.stack([one.flatten(1).square().sum(1) for one in gradients]).sum(0).sqrt()
        scales = (CLIP / (norms + 1e-6)).clamp_max(1.0)
        rates = self.rates / (1 - 0.9**self.steps)
        rest = (1 - 0.999**self.steps) ** 0.5
        for weight, gradient, first, second in zip(self.weights, gradients, self.first, self.second, strict=True):
            shape = (-1, *[1] * (weight.ndim - 1))
            gradient = gradient * scales.view(shape)
            first.lerp_(gradient, 0.1)
            second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            weight -= rates.view(shape) * first / (second.sqrt() / rest + 1e-8)


def train_together(runs: Sequence[Run], balanced: bool, twice: bool, parts: Sequence[str]) -> list[list[Checkpoint]]:
    """What `train` finds for each run: scores of the parts at every checkpoint. Runs of one task share its batches."""
    task = runs[0].task
    shared = all(run.task is task for run in runs)
    skeleton, weights = _stacked(runs)
    optimizer = Adams(list(weights.values()), [run.rate for run in runs])
    streams = [_augmented(one, balanced) for one in ([task] if shared else [run.task for run in runs])]
    forward = vmap(lambda weight, x: functional_call(skeleton, weight, x), in_dims=(0, None if shared else 0))
    found: list[list[Checkpoint]] = [[] for _ in runs]
    for step in range(task.steps * (2 if twice else 1)):
        rows = [next(stream) for stream in streams]
        columns = tuple(torch.stack(one) for one in zip(*(part.x for part in rows), strict=True))
        outputs = forward(weights, rows[0].x if shared else columns).unbind(0)
        losses = _losses(runs, outputs, rows * len(runs) if shared else rows, step / task.steps)
        gradients = torch.autograd.grad(losses, list(weights.values()))
        optimizer.step(gradients)
        if (step + 1) % (task.steps // CHECKPOINTS) == 0:
            for k, run in enumerate(runs):
                own = {name: weight[k].detach() for name, weight in weights.items()}
                found[k].append({name: functional_call(skeleton, own, run.task.parts[name].x) for name in parts})
    return found


def _stacked(runs: Sequence[Run]) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network without weights, and the weights of all runs by their name."""
    networks = []
    for run in runs:
        torch.manual_seed(run.seed)
        networks.append(run.task.network())
    return copy.deepcopy(networks[0]).to("meta"), stack_module_state(networks)[0]


def _augmented(task: Task, balanced: bool) -> Iterator[Rows]:
    generator = torch.Generator().manual_seed(task.seed)
    for index in task.draw(task, balanced, generator):
        yield task.augment(task.train.at(index), generator)


def _losses(runs: Sequence[Run], outputs: Sequence[Tensor], rows: Sequence[Rows], done: float) -> Tensor:
    """The sum: no run sees another. One that has diverged says nothing more."""
    total = torch.zeros(())
    for run, output, part in zip(runs, outputs, rows, strict=True):
        scores, y = run.task.loss_inputs(output, part.y)
        if bool(scores.isfinite().all()):
            total = total + run.loss(scores, y, done)
        else:
            total = total + 0.0 * output.sum()
    return total
