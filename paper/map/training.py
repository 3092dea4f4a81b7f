"""Runs of the map: one by itself, or several of one small network in one batched pass."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from .losses import Loss
from .task import CHECKPOINTS, CLIP, Checkpoint, Inputs, Rows, Task


@dataclass(frozen=True)
class Run:
    """A loss of its own (some remember), a learning rate, and the seed of the first weights."""

    task: Task
    loss: Loss
    rate: float
    seed: int


def train(run: Run, balanced: bool, twice: bool, parts: Sequence[str]) -> list[Checkpoint]:
    """Scores of the parts at every fifth of the budget, for once or twice the steps; NaN from where it diverges."""
    task = run.task
    torch.manual_seed(run.seed)
    network = task.network()
    optimizer = torch.optim.Adam(network.parameters(), run.rate)
    batches, checkpoints = _batches(task, balanced), []
    for step in range(task.steps * (2 if twice else 1)):
        rows = next(batches)
        optimizer.zero_grad()
        scores, y = task.loss_inputs(network(*rows.x), rows.y)
        if bool(scores.isfinite().all()):  # else it has diverged, and stays as it is
            run.loss(scores, y, step / task.steps).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
        if (step + 1) % (task.steps // CHECKPOINTS) == 0:
            checkpoints.append({part: scores_of(network, task.parts[part].x) for part in parts})
    return checkpoints


def scores_of(network: nn.Module, x: Inputs, block: int = 4096) -> Tensor:
    network.eval()
    with torch.no_grad():
        blocks = [network(*(columns[start : start + block] for columns in x)) for start in range(0, len(x[0]), block)]
    network.train()
    return torch.cat(blocks)


def _batches(task: Task, balanced: bool) -> Iterator[Rows]:
    generator = torch.Generator().manual_seed(task.seed)
    for index in task.draw(task, balanced, generator):
        yield task.augment(task.train.at(index), generator)


class Adams:
    """Adam of every run by itself: slice k of each weight has learning rate ``rates[k]`` and its own clipping."""

    def __init__(self, weights: Sequence[Tensor], rates: Sequence[float]) -> None:
        self.weights, self.steps = list(weights), 0
        self.rates = torch.tensor(rates)
        self.first = [torch.zeros_like(weight) for weight in self.weights]
        self.second = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        self.steps += 1
        norms = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
        scales = (CLIP / (norms + 1e-6)).clamp_max(1.0)
        rates = self.rates / (1 - 0.9**self.steps)
        correction = (1 - 0.999**self.steps) ** 0.5
        for weight, gradient, first, second in zip(self.weights, gradients, self.first, self.second, strict=True):
            shape = (-1, *[1] * (weight.ndim - 1))
            gradient = gradient * scales.view(shape)
            first.lerp_(gradient, 0.1)
            second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            weight -= rates.view(shape) * first / (second.sqrt() / correction + 1e-8)


def train_together(runs: Sequence[Run], balanced: bool, twice: bool, parts: Sequence[str]) -> list[list[Checkpoint]]:
    """What `train` gives for each run. Runs of one task share its batches."""
    task = runs[0].task
    shared = all(run.task is task for run in runs)
    skeleton, weights = _stacked(runs)
    optimizer = Adams(list(weights.values()), [run.rate for run in runs])
    streams = [_batches(each, balanced) for each in ([task] if shared else [run.task for run in runs])]
    forward = vmap(lambda weight, x: functional_call(skeleton, weight, x), in_dims=(0, None if shared else 0))
    checkpoints: list[list[Checkpoint]] = [[] for _ in runs]
    for step in range(task.steps * (2 if twice else 1)):
        rows = [next(stream) for stream in streams]
        columns = tuple(torch.stack(column) for column in zip(*(batch.x for batch in rows), strict=True))
        outputs = forward(weights, rows[0].x if shared else columns).unbind(0)
        losses = _losses(runs, outputs, rows * len(runs) if shared else rows, step / task.steps)
        optimizer.step(torch.autograd.grad(losses, list(weights.values())))
        if (step + 1) % (task.steps // CHECKPOINTS) == 0:
            for k, run in enumerate(runs):
                own = {name: weight[k].detach() for name, weight in weights.items()}
                checkpoints[k].append({part: functional_call(skeleton, own, run.task.parts[part].x) for part in parts})
    return checkpoints


def _stacked(runs: Sequence[Run]) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network without weights, and the weights of all runs by their name."""
    networks = []
    for run in runs:
        torch.manual_seed(run.seed)
        networks.append(run.task.network())
    return copy.deepcopy(networks[0]).to("meta"), stack_module_state(networks)[0]


def _losses(runs: Sequence[Run], outputs: Sequence[Tensor], rows: Sequence[Rows], done: float) -> Tensor:
    """The sum: no run sees another. One that has diverged adds nothing."""
    total = torch.zeros(())
    for run, output, batch in zip(runs, outputs, rows, strict=True):
        scores, y = run.task.loss_inputs(output, batch.y)
        total = total + (run.loss(scores, y, done) if bool(scores.isfinite().all()) else 0.0 * output.sum())
    return total
