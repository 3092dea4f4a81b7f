"""Members for ranked lists: a linear one and a network by the metric of lists itself, and ridge on the grades."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ....targets.objective import Objective
from ...networks.losses import loss_on_logits, why_untrainable
from .base import Job, Member, Rows
from .linear import Design, FittedLinear
from .network import FittedNetwork, Schedule, designed, together, train


class LinearNetwork(nn.Module):
    """``(n, width)`` to ``(n, 1, outputs)``: a `TabularNetwork` of one head and no hidden layer."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.last = nn.Linear(width, outputs, bias=False)  # within a list an offset means nothing
        nn.init.zeros_(self.last.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.last(inputs)[:, None, :]
        return scores


class FittedRankedLinear(FittedNetwork):
    """Coefficients of the columns and their pieces at each checkpoint."""

    network_class = LinearNetwork


class RankedNetwork(Member):
    """The network of the ensemble, by the metric's own loss on whole lists.

    The mean score of the heads is what the metric sees. For NDCG@10 engine "direct" was above soft ranks
    and listwise softmax on training folds of MQ2008 (0.718, 0.711 and 0.711 out of fold), and did not overfit.
    """

    name = "ranked_network"
    title = "network for the metric of lists"
    chosen_by_metric = True
    fitted: type[FittedNetwork] = FittedNetwork

    def schedule(self) -> Schedule:
        return Schedule(rate=6e-3, batch=1024, checkpoints=12, steps=8, patience=4)

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return why_untrainable(objective)

    def fit(self, job: Job) -> FittedNetwork:
        metric = loss_on_logits(job.objective.metric)

        def loss(scores: Tensor, batch: Rows, rows: Tensor) -> Tensor:
            loss_of_lists: Tensor = metric(together(scores), batch.y, groups=batch.lists)
            return loss_of_lists

        def value(scores: Tensor) -> float:
            value_here = job.objective.value(scores.double(), job.held.y, lists=job.held.lists)
            return value_here if math.isfinite(value_here) else -math.inf

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            design = Design.fit(job.train.x)
            network = self.fitted.network_class(design.width, 1)
            weights = train(network, designed(job, design), self.schedule(), loss, value)
        return self.fitted(design, network, 1, weights)


class RankedLinear(RankedNetwork):
    """A weighted sum of columns and their pieces."""

    name = "ranked_linear"
    title = "linear for the metric of lists"
    fitted = FittedRankedLinear

    def schedule(self) -> Schedule:
        return Schedule(rate=2e-2, batch=2048, checkpoints=12, steps=8, patience=4)


class RankedRidge(Member):
    """Ridge regression of the grades on the columns: blind to lists, and hard to beat where lists are few."""

    name = "ranked_ridge"
    title = "ridge regression on grades"
    unit = "penalties, from strong to weak"
    chosen_by_metric = True
    fitted = FittedLinear
    #: A penalty counts for so many rows of standardised columns.
    penalties = (10_000.0, 1_000.0, 100.0, 10.0, 1.0)

    def fit(self, job: Job) -> FittedLinear:
        design = Design.fit(job.train.x, pieces=1)  # columns alone
        x, y = design(job.train.x), job.train.y.double()
        mean = y.mean()
        square, product = x.t() @ x, x.t() @ (y - mean)
        unit = torch.eye(design.width, dtype=torch.float64)
        coefficients = torch.stack([torch.linalg.solve(square + penalty * unit, product) for penalty in self.penalties])
        return FittedLinear(design, coefficients[:, None], mean.expand(len(self.penalties), 1).clone(), 1)
