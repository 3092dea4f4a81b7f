"""The network by cross-entropy, and how a network is trained further for a metric."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ....data.components import in_blocks
from ....targets.objective import Objective
from ...networks import losses
from ...networks.losses import loss_on_logits
from .base import Fitted, Job, Member, Rows, under
from .design import Design
from .tabular_network import TabularNetwork, scores_with, together
from .training import LossOfBatch, Schedule, Weights, train


class FittedByWeights(Fitted):
    """One network with its weights at each checkpoint; a subclass knows how rows enter it and what else is stored."""

    def __init__(self, network: nn.Module, outputs: int, weights: list[Weights]) -> None:
        self.network, self.outputs, self.weights = network, outputs, weights

    @property
    def checkpoints(self) -> int:
        return len(self.weights)

    def inputs(self, x: Tensor) -> Tensor:
        """Rows as the network takes them."""
        return x

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        weights = self.weights[checkpoint]
        return in_blocks(lambda part: together(scores_with(self.network, weights, self.inputs(part))), x).double()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            f"{checkpoint}/{name}": one for checkpoint, part in enumerate(self.weights) for name, one in part.items()
        }
        return tensors, {"outputs": self.outputs, "looks": self.checkpoints}

    @staticmethod
    def split(tensors: dict[str, Tensor], checkpoints: int) -> list[Weights]:
        """The weights of each checkpoint."""
        return [under(f"{checkpoint}/", tensors) for checkpoint in range(checkpoints)]


class FittedNetwork(FittedByWeights):
    """A network on columns and their pieces."""

    #: Made of (width, outputs); its weights are all that is stored.
    network_class: ClassVar[type[nn.Module]] = TabularNetwork

    def __init__(self, design: Design, network: nn.Module, outputs: int, weights: list[Weights]) -> None:
        super().__init__(network, outputs, weights)
        self.design = design

    def inputs(self, x: Tensor) -> Tensor:
        return self.design(x).float()

    def cut(self, checkpoint: int) -> Self:
        return type(self)(self.design, self.network, self.outputs, [self.weights[checkpoint]])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, facts = super().state()
        return tensors | {f"design/{name}": one for name, one in self.design.tensors.items()}, facts

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        design, outputs = Design(under("design/", tensors)), int(facts["outputs"])
        with torch.random.fork_rng(devices=[]):
            network = cls.network_class(design.width, outputs)
        return cls(design, network, outputs, cls.split(tensors, facts["looks"]))


def cross_entropy(scores: Tensor, rows: Rows) -> Tensor:
    """Of scores ``(n,)`` or ``(n, c)``, with the rows' weights."""
    each = losses.cross_entropy(scores, rows.y, reduction="none")
    if rows.weights is None:
        return each.mean()
    mass = rows.weights.to(each.dtype)
    return (each * mass).sum() / mass.sum().clamp_min(1e-12)


class Network(Member):
    """Each head by cross-entropy."""

    name = "network"
    title = "network"
    fitted = FittedNetwork

    def design(self, x: Tensor) -> Design:
        return Design.fit(x)

    def schedule(self, n: int) -> Schedule:
        """A step sees at least a twelfth of a small table; a large one gets about twenty passes at most."""
        batch = 128 if n < 1_000 else 256 if n < 20_000 else 512
        steps = max(16, min(100, round(2 * n / batch)))
        return Schedule(rate=6e-3, batch=batch, checkpoints=8, steps=steps, patience=2)

    def fit(self, job: Job) -> FittedNetwork:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            design = self.design(job.train.x)
            network = TabularNetwork(design.width, job.outputs)
            weights = train(
                network,
                designed(job, design),
                self.schedule(len(job.train.y)),
                _loss_of_heads,
                lambda scores: -float(cross_entropy(scores, job.held)),
            )
        return FittedNetwork(design, network, job.outputs, weights)


def designed(job: Job, design: Design) -> Job:
    """The job with the design's matrix in place of the columns: it is the same at every step, so it is made once."""
    rows = (job.train, job.held)
    train, held = (replace(one, x=in_blocks(lambda part: design(part).float(), one.x)) for one in rows)
    return replace(job, train=train, held=held)


def _loss_of_heads(scores: Tensor, batch: Rows, rows: Tensor) -> Tensor:
    """Mean cross-entropy of the heads, each on its own: heads that only had to be right on average would be alike."""
    n, heads, outputs = scores.shape
    spread = Rows(
        batch.x,
        batch.y.repeat_interleave(heads),
        None if batch.weights is None else batch.weights.repeat_interleave(heads),
    )
    flat = scores.reshape(n * heads, outputs)
    return cross_entropy(flat.squeeze(1) if outputs == 1 else flat, spread)


def train_for_metric(network: nn.Module, job: Job, own: Job, schedule: Schedule) -> list[Weights]:
    """A network that has learned by cross-entropy, trained further for the metric.

    Args:
        network: Trained in place.
        job: With the fitted member it comes from.
        own: The same job with rows as the network takes them.
        schedule: How long and how fast.
    """
    assert job.start is not None
    threshold = 0.0
    if job.objective.needs_threshold:
        threshold = job.objective.tuned(job.start.scores(job.train.x), job.train.y, job.train.weights)[0]

    def value(scores: Tensor) -> float:
        found = job.objective.best(scores.double(), job.held.y, job.held.weights)
        return found if math.isfinite(found) else -math.inf

    return train(network, own, schedule, loss_for_metric(job.objective, threshold), value)


def loss_for_metric(objective: Objective, threshold: float) -> LossOfBatch:
    """The metric's own loss of a batch; one of decisions is trained around the threshold, since it decides at 0."""
    metric, by_list = loss_on_logits(objective.metric), objective.metric.layout == "lists"
    moved = threshold if objective.needs_threshold else 0.0

    def loss(scores: Tensor, batch: Rows, rows: Tensor) -> Tensor:
        index = {} if by_list else {"index": rows}  # a table under a list metric is one list: lists carry no index
        found: Tensor = metric(together(scores) - moved, batch.y, weights=batch.weights, **index)
        return found

    return loss
