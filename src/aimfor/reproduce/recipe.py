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
from ..head.objectives import Objective, objectives_for
from ..head.part import Part as HeadPart
from ..head.part import make_part
from ..metrics.base import Metric
from ..metrics.registry import metric_from_name
from ..pairwise import HasPairs
from .choosing import best, chosen
from .protocol import RIVALS, Budget, Checkpoint, Loss, Method, Part, Task
from .training import fine_tune, scores_of, train_all

#: Fewer than `MetricHead`'s own, to fit many data sets into an hour.
RIDGES = (1.0, 0.03, 1e-3)


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
    leader, _, _ = best(metric, everything, task.validation)
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
    original = model.get_submodule(layer)
    assert isinstance(original, torch.nn.Linear)
    features, _, _ = collect(model, _batches(task.train), layer)
    judge, _, _ = collect(model, _batches(task.validation), layer)
    validation = [judge, task.validation.targets_for(metric), task.validation.where]
    fit = MetricHead(metric, ridges=RIDGES, iterations=50).fit(
        features,
        task.train.targets_for(metric),
        validation=tuple(part for part in validation if part is not None),
        original=original,
        where=task.train.where,
    )
    fit.install(model, layer)
    return Checkpoint(f"head on {point.name}", model.state_dict(), scores_of(model, task.validation.x), point.rate)


def _tuned(task: Task, metric: Metric, leader: Checkpoint, own: Method, budget: Budget, seed: int) -> list[Checkpoint]:
    """The whole network on the metric's own objective, from the rival's checkpoint, at a lower rate."""
    method = Method("fine-tuned", metric_loss(metric), own.balanced)
    return fine_tune(task, leader, method, leader.rate / 10, budget, seed)


def metric_loss(metric: Metric) -> Loss:
    """The metric's own objective (see `fine_tune_objective`) as a loss of batches."""

    def loss(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        batch = Part(scores.detach().unsqueeze(-1) if targets.ndim == scores.ndim else scores.detach(), targets)
        part = make_part(metric, "features", batch.x, batch.targets_for(metric), None, batch.where, None, len(shares))
        return fine_tune_objective(metric, part).loss(scores)

    return loss


def fine_tune_objective(metric: Metric, part: HeadPart) -> Objective:
    """What the whole network is tuned on: all pairs for AUROC and its kin, soft counts for F_β and IoU, the metric's
    own engine for ranked lists where it has one, the top pairs for the rest."""
    found = {objective.name: objective for objective in objectives_for(metric, part)}
    if isinstance(metric, HasPairs):
        return found["all pairs"]
    order = ("soft counts", "top pairs") if part.kind == "binary" else ("metric", "listwise softmax")
    return next(found[name] for name in order if name in found)


def _batches(part: Part, size: int = 2048) -> list[tuple[Tensor, Tensor]]:
    return list(zip(part.x.split(size), part.y.split(size), strict=True))
