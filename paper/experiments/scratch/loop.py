"""The plain loop: many small perceptrons side by side, each with a loss of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .problems import Problem

STEPS, LOOKS, HIDDEN = 500, 5, 64

#: Scores of the rows to choose with and of the rows to judge with, at one step.
Look = tuple[Tensor, Tensor]


class Perceptrons(nn.Module):
    """Perceptrons with the same start, whose parameters are stacked: one step for all of them.

    Adam works entry by entry, so that each learns exactly as it would alone.
    """

    def __init__(self, inputs: int, outputs: int, models: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        layers = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, outputs)
        self.weights = nn.ParameterList(one.weight.detach().t().repeat(models, 1, 1) for one in layers)
        self.biases = nn.ParameterList(one.bias.detach().repeat(models, 1, 1) for one in layers)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, inputs)`` to ``(models, n, outputs)``, or ``(models, n)`` for one output."""
        models = len(self.weights[0])
        hidden = torch.baddbmm(self.biases[0], x.expand(models, -1, -1), self.weights[0]).relu()
        return torch.baddbmm(self.biases[1], hidden, self.weights[1]).squeeze(2)


def train(problem: Problem, losses: Sequence[nn.Module], batch: int, steps: int = STEPS) -> list[list[Look]]:
    """For each loss, its looks: Adam at 1e-3, no schedule, no sampler, the same batches for all."""
    x, y = problem.train
    model = Perceptrons(x.shape[1], problem.outputs, len(losses), problem.seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(problem.seed)
    looks: list[list[Look]] = [[] for _ in losses]
    order = torch.zeros(0, dtype=torch.int64)
    for step in range(1, steps + 1):
        if len(order) < batch:
            order = torch.randperm(len(x), generator=generator)
        some, order = order[:batch], order[batch:]
        optimizer.zero_grad()
        scores, labels = model(x[some]), y[some]
        torch.stack([loss(one, labels) for one, loss in zip(scores.unbind(0), losses, strict=True)]).sum().backward()
        optimizer.step()
        if step % (steps // LOOKS) == 0:
            with torch.no_grad():
                chosen, judged = model(problem.choose[0]), model(problem.judge[0])
            for number, pair in enumerate(zip(chosen, judged, strict=True)):
                looks[number].append(pair)
    return looks


class Entropy(nn.Module):
    """Cross-entropy of one score, of classes or of labels; ``weighted`` gives every class the same share."""

    weights: Tensor

    def __init__(self, problem: Problem, weighted: bool) -> None:
        super().__init__()
        y = problem.train[1]
        self.classes = y.ndim == 1 and problem.outputs > 1
        if self.classes:
            counts = torch.bincount(y, minlength=problem.outputs).float()
            weights = len(y) / (problem.outputs * counts.clamp_min(1))
        else:  # (2,) or (2, c): what a 0 and what a 1 weighs
            ones = y.float().mean(0)
            weights = 0.5 / torch.stack((1 - ones, ones)).clamp_min(1 / len(y))
        self.register_buffer("weights", weights if weighted else torch.ones_like(weights))

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        if self.classes:
            return functional.cross_entropy(scores, targets, self.weights)
        weights = torch.where(targets > 0, self.weights[1], self.weights[0])
        return functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), weights)
