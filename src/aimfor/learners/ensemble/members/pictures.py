"""Members for pictures themselves, without a backbone: a small network on pixels, and then for the metric."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from ....targets.objective import Objective
from ...networks.losses import why_untrainable
from ...networks.models import build
from .base import Job, Member, Rows
from .network import FittedByWeights, Schedule, Weights, cross_entropy, together, train, train_for_metric

#: Pictures per step, and steps in all: a network on pictures takes a hundred times as long as one on columns.
BATCH, STEPS, CHECKPOINTS = 64, 320, 8


class _OneHead(nn.Module):
    """Pictures ``(b, c, h, w)`` to scores ``(b, 1, outputs)``."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.inner(x)
        return scores.reshape(len(x), 1, -1)


class FittedPictureNetwork(FittedByWeights):
    """A network on pictures; which network it is, no file says."""

    def __init__(self, network: nn.Module, shape: tuple[int, ...], outputs: int, weights: list[Weights]) -> None:
        super().__init__(network, outputs, weights)
        self.shape = shape

    def at(self, checkpoint: int) -> Self:
        return type(self)(self.network, self.shape, self.outputs, [self.weights[checkpoint]])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, facts = super().state()
        return tensors, facts | {"shape": list(self.shape)}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        shape, outputs = tuple(map(int, facts["shape"])), int(facts["outputs"])
        with torch.random.fork_rng(devices=[]):
            network = _OneHead(build("auto", shape, outputs))
        return cls(network.eval(), shape, outputs, cls.split(tensors, int(facts["looks"])))


class PictureNetwork(Member):
    """A network on pixels by cross-entropy."""

    name = "pictures_network"
    title = "network on pictures"
    unit = "steps"

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return None if rows.x.ndim == 4 else "there are columns, not pictures"

    def schedule(self, n: int) -> Schedule:
        steps = max(4, min(STEPS, round(30 * n / BATCH))) // CHECKPOINTS
        return Schedule(rate=3e-3, batch=BATCH, checkpoints=CHECKPOINTS, steps=max(1, steps), patience=3, decay=0.95)

    def fit(self, job: Job) -> FittedPictureNetwork:
        shape = tuple(job.train.x.shape[1:])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            network = _OneHead(build("auto", shape, job.outputs))
            weights = train(
                network,
                job,
                self.schedule(len(job.train.y)),
                lambda scores, batch, rows: cross_entropy(together(scores), batch),
                lambda scores: -float(cross_entropy(scores, job.held)),
            )
        return FittedPictureNetwork(network.eval(), shape, job.outputs, weights)

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> FittedPictureNetwork:
        return FittedPictureNetwork.restore(tensors, facts)


class PictureMetric(PictureNetwork):
    """The network at its chosen checkpoint, trained further by the metric's own engine."""

    name = "pictures_metric"
    title = "network on pictures for the metric"
    starts_from = "pictures_network"
    chosen_by_metric = True

    def schedule(self, n: int) -> Schedule:
        return Schedule(rate=1e-3, batch=2 * BATCH, checkpoints=4, steps=6, patience=2, decay=0.9, weight_decay=0.0)

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return super().why_not(objective, rows, outputs) or why_untrainable(objective)

    def fit(self, job: Job) -> FittedPictureNetwork:
        assert isinstance(job.start, FittedPictureNetwork)
        tensors, facts = job.start.at(-1).state()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            network = self.restore(tensors, facts).network
            weights = train_for_metric(network, job, job, self.schedule(len(job.train.y)))
        return FittedPictureNetwork(network.eval(), job.start.shape, job.outputs, weights)
