"""`map_lists`: documents ranked for queries. Grades are padded with −1; every fold makes its own trials."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor

from ..experiments.ours.mq2008 import fold
from .contest import regime_of_folds
from .losses import Loss, MakeLoss, Method, then
from .task import Checkpoint, Rows, Task, items_of_best

METRICS, DATA = ("ndcg@10", "mrr"), "mq2008"


def _rival(loss: Loss) -> MakeLoss:
    return lambda shares, knob, metric: loss


def squared(scores: Tensor, grades: Tensor, done: float) -> Tensor:
    graded = grades >= 0
    return functional.mse_loss(scores[graded], grades[graded].float())


def logistic(scores: Tensor, grades: Tensor, done: float) -> Tensor:
    graded = grades >= 0
    return functional.binary_cross_entropy_with_logits(scores[graded], (grades[graded] > 0).float())


def listnet(scores: Tensor, grades: Tensor, done: float) -> Tensor:
    """Cao 2007: cross-entropy between the grades' shares of a list and the softmax of its scores."""
    target = grades.clamp_min(0).float()
    logs = torch.log_softmax(scores.masked_fill(grades < 0, -1e9), 1)
    return -(target / target.sum(1, keepdim=True).clamp_min(1.0) * logs).sum(1).mean()


def _pairs(grades: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """List, better and worse document of every pair with two grades."""
    above = (grades[:, :, None] > grades[:, None, :]) & (grades[:, None, :] >= 0)
    pairs = above.nonzero()
    return pairs[:, 0], pairs[:, 1], pairs[:, 2]


def ranknet(scores: Tensor, grades: Tensor, done: float) -> Tensor:
    row, better, worse = _pairs(grades)
    return functional.softplus(scores[row, worse] - scores[row, better]).mean()


def _gains(grades: Tensor) -> tuple[Tensor, Tensor]:
    """Grades, the gains of the NDCG that judges, over the best DCG of the list; and the discounts by place."""
    gains = grades.clamp_min(0).float()
    discounts = 1.0 / torch.log2(torch.arange(grades.shape[1]) + 2.0)
    best = (gains.sort(1, descending=True).values * discounts).sum(1, keepdim=True)
    return gains / best.clamp_min(1e-6), discounts


def lambdaloss(scores: Tensor, grades: Tensor, done: float) -> Tensor:
    """Burges 2006: RankNet with every pair weighed by the NDCG that swapping it would change."""
    gains, discounts = _gains(grades)
    order = scores.detach().masked_fill(grades < 0, -1e9).argsort(1, descending=True)
    at = torch.empty_like(scores).scatter_(1, order, discounts.expand_as(scores))
    row, better, worse = _pairs(grades)
    change = (gains[row, better] - gains[row, worse]) * (at[row, better] - at[row, worse]).abs()
    return (functional.softplus(scores[row, worse] - scores[row, better]) * change).sum() / len(scores)


def approx_ndcg(shares: Tensor, knob: float, metric: str) -> Loss:
    """Qin 2010: NDCG of ranks that are sums of sigmoids."""

    def loss(scores: Tensor, grades: Tensor, done: float) -> Tensor:
        gains, _ = _gains(grades)
        graded = (grades >= 0).float()
        above = torch.sigmoid((scores[:, None, :] - scores[:, :, None]) / knob) * graded[:, None, :]
        ranks = 0.5 + above.sum(2)  # an item is half above itself
        return 1.0 - (gains * graded / torch.log2(1.0 + ranks)).sum(1).mean()

    return loss


def listmle(scores: Tensor, grades: Tensor, done: float) -> Tensor:
    """Xia 2008: the likelihood of an order by grade, ties broken by the order of the file."""
    order = grades.argsort(dim=1, descending=True, stable=True)
    sorted_scores, graded = scores.gather(1, order), grades.gather(1, order) >= 0
    tail = sorted_scores.masked_fill(~graded, -1e9).flip(1).logcumsumexp(1).flip(1)
    return ((tail - sorted_scores) * graded).sum(1).mean() / 10.0


def _ours(engine: bool) -> MakeLoss:
    def make(shares: Tensor, knob: float, metric: str) -> Loss:
        loss = aimfor.MetricLoss(metric, aimfor.DirectEngine(epsilon=knob) if engine else None)
        return lambda scores, grades, done: loss(scores, _targets(metric, grades), where=grades >= 0)

    return make


def _targets(metric: str, grades: Tensor) -> Tensor:
    return grades.clamp_min(0) if metric.startswith("ndcg") else (grades > 0).long()


# In the order in which they are run.
METHODS = (
    Method("metric", _ours(False), ours=True),
    Method("pointwise logistic", _rival(logistic)),
    Method("ListNet", _rival(listnet)),
    Method("RankNet", _rival(ranknet)),
    Method("LambdaLoss", _rival(lambdaloss)),
    Method("ListMLE", _rival(listmle)),
    Method("ApproxNDCG", approx_ndcg, (0.1, 0.5, 1.0)),
    Method("pointwise squared", _rival(squared)),
    Method("metric, direct", _ours(True), (0.1, 1.0, 10.0), ours=True),
    Method("ListNet, then metric", then(_rival(listnet), _ours(False)), (0.25, 0.5, 0.75), ours=True),
)


class Scorer(nn.Module):
    """One score for each document ``(b, l, d)`` that is there ``(b, l)``; 0 for the others."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)
        )

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        scores = functional.pad(self.layers(x[there]), (0, 1))  # the last is what padding gets
        at = (there.flatten().cumsum(0) - 1).view_as(there)
        return scores[torch.where(there, at, scores.shape[0] - 1)]


def trimmed(scores: Tensor, grades: Tensor) -> tuple[Tensor, Tensor]:
    """Without the places that are padding in every list."""
    longest = int((grades >= 0).sum(1).max())
    return scores[:, :longest], grades[:, :longest]


def load(folder: Path, name: str, number: int) -> Task:
    parts = [(rows.x, rows.y) for rows in fold(folder, number)]
    documents = parts[0][0][parts[0][1] >= 0]
    mean, deviation = documents.mean(0), documents.std(0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    train, choose, judge = (Rows((((x - mean) / deviation).clamp(-10, 10), y >= 0), y) for x, y in parts)
    return Task(
        train=train,
        parts={"choose": choose, "judge": judge},
        network=functools.partial(Scorer, documents.shape[1]),
        evaluate=functools.partial(evaluate, {"choose": choose, "judge": judge}),
        metrics=METRICS,
        shares=torch.ones(1),
        seed=number,
        steps=200,
        batch=32,
        loss_inputs=trimmed,
    )


def evaluate(parts: dict[str, Rows], checkpoints: Sequence[Checkpoint]) -> dict[str, dict[str, Any]]:
    """Judged query by query."""
    return {
        metric: items_of_best(checkpoints, parts, functools.partial(exact, metric), functools.partial(by_query, metric))
        for metric in METRICS
    }


def by_query(metric: str, scores: Tensor, grades: Tensor) -> list[float]:
    return [exact(metric, *query) for query in zip(scores.split(1), grades.split(1), strict=True)]


def exact(metric: str, scores: Tensor, grades: Tensor) -> float:
    loss = aimfor.MetricLoss(metric)
    return float(loss.value(scores.double(), _targets(metric, grades), where=grades >= 0))


EXPERIMENT = regime_of_folds(
    "map_lists", "The map: documents ranked for queries", {DATA: range(1, 6)}, METRICS, METHODS, load
)
