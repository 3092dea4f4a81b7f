"""Members for features of a pretrained network (`Components`): columns whose sizes mean something, many of them.

All see the columns as they are; trees see only the first few dozen, because they look at one column at a time and
their time grows with the number of columns.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from ....data.components import in_blocks
from ....errors import refusal
from ....metrics.average_precision import AveragePrecision
from ....metrics.base import Metric
from ....refit import HeadFitter
from ....refit.features import make_rows
from ....refit.objectives import objectives_for
from ....targets.objective import Objective
from .base import Fitted, Job, Member, Rows
from .linear import Design, Linear
from .network import Network
from .trees import FittedTrees, Trees

#: Columns that trees see.
TREE_COLUMNS = 48
#: Penalties of the head, from strong to weak: its checkpoints, for each objective.
RIDGES = (0.1, 0.01)
#: Cross-entropy is the linear member's; these are what a head adds.
OBJECTIVES = ("all pairs", "balanced cross-entropy", "metric")


class FeatureLinear(Linear):
    """Logistic regression on components as they are."""

    name = "features_linear"
    title = "linear on features"

    def __init__(self) -> None:
        super().__init__(strengths=(0.003, 0.01, 0.03, 0.1, 0.3), iterations=100)

    def design(self, x: Tensor) -> Design:
        return Design.as_it_is(x)


class FeatureNetwork(Network):
    """The ensemble's network on components."""

    name = "features_network"
    title = "network on features"

    def design(self, x: Tensor) -> Design:
        return Design.as_it_is(x)


class FittedFeatureTrees(FittedTrees):
    """Trees on the first columns."""

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        return super().scores(x[:, :TREE_COLUMNS].contiguous(), checkpoint)


class FeatureTrees(Trees):
    """Boosted trees on the first components."""

    name = "features_trees"
    title = "boosted trees on features"
    fitted = FittedFeatureTrees

    def __init__(self) -> None:
        super().__init__(rounds=150, learning_rate=0.1, num_leaves=15)

    def fit(self, job: Job) -> FittedTrees:
        return super().fit(_first_columns(job))


def _first_columns(job: Job) -> Job:
    train, held = (replace(rows, x=rows.x[:, :TREE_COLUMNS].contiguous()) for rows in (job.train, job.held))
    return replace(job, train=train, held=held)


class FittedHead(Fitted):
    """Layers ``(checkpoints, outputs, d)`` with biases ``(checkpoints, outputs)``, float64."""

    def __init__(self, weights: Tensor, biases: Tensor) -> None:
        self.weights, self.biases = weights, biases

    @property
    def checkpoints(self) -> int:
        return len(self.weights)

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        weight, bias = self.weights[checkpoint].t(), self.biases[checkpoint]
        scores = in_blocks(lambda block: block.double() @ weight + bias, x)
        return scores.squeeze(1) if scores.shape[1] == 1 else scores

    def at(self, checkpoint: int) -> Self:
        return type(self)(self.weights[checkpoint, None], self.biases[checkpoint, None])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"weights": self.weights, "biases": self.biases}, {}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        return cls(tensors["weights"], tensors["biases"])


class Head(Member):
    """A linear layer fitted on all rows at once by losses made for the metric (`HeadFitter`)."""

    name = "features_head"
    title = "linear for the metric"
    chosen_by_metric = True
    fitted = FittedHead

    def __init__(self, ridges: tuple[float, ...] = RIDGES) -> None:
        self.ridges = ridges

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        some = rows.take(torch.cat([(rows.y == label).nonzero()[:3, 0] for label in rows.y.unique()]))
        return refusal(lambda: _candidates(_metric(objective), some, some, (1.0,), 1))

    def fit(self, job: Job) -> FittedHead:
        layers = _candidates(_metric(job.objective), job.train, job.held, self.ridges, 60)
        weights = torch.stack([layer.weight.detach().double() for layer in layers])
        biases = torch.stack([layer.bias.detach().double() for layer in layers])
        return FittedHead(weights @ _turn(weights.shape[2]).t(), biases)


def _candidates(metric: Metric, train: Rows, held: Rows, ridges: tuple[float, ...], iterations: int) -> list[nn.Linear]:
    """Layers on turned columns, objective by objective, from strong to weak penalties."""
    turn = _turn(train.x.shape[1])
    turned, held_out = (replace(rows, x=(rows.x.double() @ turn).float()) for rows in (train, held))
    whole = make_rows(metric, "x", turned.x, turned.y, turned.weights, None, None)
    names = [objective.name for objective in objectives_for(metric, whole) if objective.name in OBJECTIVES]
    fitter = HeadFitter(metric, ridges=ridges, iterations=iterations, tolerance=1e-4, objectives=names)
    validation = tuple(tensor for tensor in (held_out.x, held_out.y, held_out.weights) if tensor is not None)
    return fitter.candidates(turned.x, turned.y, turned.weights, validation)[1]


@functools.cache
def _turn(width: int) -> Tensor:
    """A fixed rotation ``(d, d)`` after which all columns have about the same deviation.

    `HeadFitter` standardises columns, which would make the smallest component as large as the first. After the rotation
    there is nothing to standardise, and a penalty on the coefficients means the same before and after it.
    """
    generator = torch.Generator().manual_seed(0)
    rotation: Tensor = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    return rotation


def _metric(objective: Objective) -> Metric:
    """Decisions are made by the ensemble; what a layer can do for them is the order of the rows."""
    return AveragePrecision() if objective.binary and objective.needs_threshold else objective.metric
