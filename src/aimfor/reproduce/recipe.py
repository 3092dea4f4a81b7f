"""One metric on one task: every rival, the best of them, and aimfor's default, all chosen on validation data.

The default is a superset of the rivals' checkpoints: the last layer refitted (`MetricHead`) and the whole network
fine-tuned on the metric are candidates beside them. What validation data does not prefer is not used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..head import MetricHead
from ..head.collect import collect, last_linear
from ..head.objectives import objectives_for
from ..head.part import make_part
from ..metrics.base import Metric
from ..metrics.registry import metric_from_name
from .choosing import best, chosen
from .protocol import RIVALS, Budget, Checkpoint, Method, Task
from .training import fine_tune, scores_of, train_all

#: Fewer than `MetricHead`'s own, to fit many data sets into an hour.
RIDGES = (1.0, 0.03, 1e-3)
#: Which objective the whole network is fine-tuned on, by the metric's class (see `objectives_for`).
FINE_TUNE = {"AUROC": "all pairs", "AUROCOneVsRest": "all pairs", "AUCMu": "all pairs", "FBeta": "soft counts"}


def run_all(
    task: Task,
    metrics: list[str],
    budget: Budget,
    seed: int,
    *,
    rivals: tuple[Method, ...] = RIVALS,
    papers: tuple[Method, ...] = (),
) -> dict[str, Any]:
    """Trains every rival (and the papers' methods) once, then answers for every metric.

    Returns:
        By metric: ``rivals`` and ``papers`` (name → test), ``rival`` (the one validation chose) and ``default``,
        each with name, validation and test; ``ours``: the default's two new candidates, each by itself.
    """
    pools = train_all(task, [*rivals, *papers], budget, seed)
    return {name: _one_metric(task, metric_from_name(name), budget, seed, pools, rivals, papers) for name in metrics}


def _one_metric(
    task: Task,
    metric: Metric,
    budget: Budget,
    seed: int,
    pools: dict[str, list[Checkpoint]],
    rivals: tuple[Method, ...],
    papers: tuple[Method, ...],
) -> dict[str, Any]:
    everything = [point for rival in rivals for point in pools[rival.name]]
    leader, _, _ = best(metric, everything, task.validation.y)
    own = next(rival for rival in rivals if rival.name == leader.name)
    # The rival's own loss, for as many further steps on as large batches as ours get.
    again = fine_tune(task, leader, replace(own, name=f"{own.name}, continued"), leader.rate / 10, budget, seed)
    rival_pool = [*everything, *again]
    rival = chosen(task, metric, rival_pool)
    head, tuned = [refit(task, metric, leader)], _tuned(task, metric, leader, own, budget, seed)
    default = chosen(task, metric, [*rival_pool, *head, *tuned])
    ours = {"head": chosen(task, metric, head), "fine-tuned": chosen(task, metric, tuned)}
    single = {name: chosen(task, metric, pool) for name, pool in pools.items()}
    return {
        "rivals": {method.name: single[method.name].test for method in rivals},
        "papers": {method.name: single[method.name].test for method in papers},
        "rival": vars(rival),
        "default": vars(default),
        "ours": {name: vars(part) for name, part in ours.items()},
    }


def refit(task: Task, metric: Metric, point: Checkpoint) -> Checkpoint:
    """`MetricHead` on a checkpoint's features."""
    model = task.make_model()
    model.load_state_dict(point.state)
    model.eval()
    with torch.no_grad():
        layer = last_linear(model, task.train.x[:8])
    features, _, _ = collect(model, _batches(task.train.x, task.train.y), layer)
    judge, _, _ = collect(model, _batches(task.validation.x, task.validation.y), layer)
    original = model.get_submodule(layer)
    assert isinstance(original, torch.nn.Linear)
    fit = MetricHead(metric, ridges=RIDGES, iterations=50).fit(
        features, task.train.y, validation=(judge, task.validation.y), original=original
    )
    fit.install(model, layer)
    name = f"head on {point.name}"
    return Checkpoint(name, model.state_dict(), scores_of(model, task.validation.x), point.rate)


def _tuned(task: Task, metric: Metric, leader: Checkpoint, own: Method, budget: Budget, seed: int) -> list[Checkpoint]:
    """The whole network on the metric's own objective, from the rival's checkpoint, at a lower rate."""
    wanted = FINE_TUNE.get(type(metric).__name__, "top pairs")

    def loss(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        part = make_part(metric, "features", scores.detach().reshape(len(targets), -1), targets, None, None, None)
        objective = next(o for o in objectives_for(metric, part) if o.name == wanted)
        return objective.loss(scores)

    method = Method(f"fine-tuned on {wanted}", loss, own.balanced)
    return fine_tune(task, leader, method, leader.rate / 10, budget, seed)


def _batches(x: Tensor, y: Tensor, size: int = 2048) -> list[tuple[Tensor, Tensor]]:
    return list(zip(x.split(size), y.split(size), strict=True))
