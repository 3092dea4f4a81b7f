"""What the default may do after the rivals: train on by a loss, or refit the last layer for the metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from aimfor import Metric
from aimfor.refit import HeadFitter
from aimfor.refit.features import FeatureRows, collect, last_linear, make_rows
from aimfor.refit.objectives import HeadObjective, objectives_for
from aimfor.sorted import HasPairs

from .protocol import Budget, Checkpoint, Contender, Contest, Loss, Split, scores_for
from .training import averaged, restored, scores_of

#: From a task to what came of it. Called twice: on training data to be judged, on all labelled data for good.
Way = Callable[[Contest], Checkpoint]

OWN, METRIC, HEAD = "own loss", "metric", "head"

#: Fewer than `HeadFitter`'s own, to fit many data sets into an hour.
RIDGES = (1.0, 0.03, 1e-3)


def ways_on(metric: Metric, leader: Checkpoint, own: Contender, budget: Budget, seed: int) -> dict[str, Way]:
    """From the rivals' best checkpoint: its own loss or the metric's for a further phase at the same rate with averaged
    weights, or the last layer refitted."""
    rate = leader.rate
    by_own, by_metric = replace(own, name=f"{own.name} on"), Contender("fine-tuned", metric_loss(metric), own.balanced)
    return {
        OWN: partial(averaged, start=leader, method=by_own, rate=rate, budget=budget, seed=seed),
        METRIC: partial(averaged, start=leader, method=by_metric, rate=rate, budget=budget, seed=seed),
        HEAD: Refit(metric, leader),
    }


class Refit:
    """`HeadFitter` on a checkpoint's features. Objective and ridge are chosen at the first call and kept."""

    def __init__(self, metric: Metric, point: Checkpoint) -> None:
        self.metric, self.point = metric, point
        self.ridges: tuple[float, ...] = RIDGES
        self.objectives: tuple[str, ...] | None = None

    def __call__(self, task: Contest) -> Checkpoint:
        model = restored(task, self.point)
        model.eval()
        with torch.no_grad():
            layer = last_linear(model, task.train.x[:8])
        original = model.get_submodule(layer)
        assert isinstance(original, torch.nn.Linear)
        features, _, _ = collect(model, _batches(task.train), layer)
        judge, _, _ = collect(model, _batches(task.validation), layer)
        validation = [judge, task.validation.targets_for(self.metric), task.validation.where]
        fit = HeadFitter(self.metric, ridges=self.ridges, iterations=50, objectives=self.objectives).fit(
            features,
            task.train.targets_for(self.metric),
            validation=tuple(part for part in validation if part is not None),
            original=original,
            where=task.train.where,
        )
        ridge = fit.record.chosen.ridge
        if ridge is not None:
            self.ridges, self.objectives = (ridge,), (fit.record.chosen.objective,)
        fit.install(model, layer)
        name = f"head on {self.point.name}"
        return Checkpoint(name, model.state_dict(), scores_of(model, task.validation.x), self.point.rate)


def metric_loss(metric: Metric) -> Loss:
    """The metric's own objective (see `fine_tune_objective`) as a loss of batches."""

    def loss(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        batch = Split(scores.detach().unsqueeze(-1) if targets.ndim == scores.ndim else scores.detach(), targets)
        part = make_rows(metric, "features", batch.x, batch.targets_for(metric), None, batch.where, None, len(shares))
        return fine_tune_objective(metric, part).loss(scores_for(metric, scores))

    return loss


def fine_tune_objective(metric: Metric, part: FeatureRows) -> HeadObjective:
    """What the whole network is tuned on: all pairs for AUROC and its kin, soft counts for F_β and IoU, the metric's
    own engine for ranked lists where it has one, the top pairs for the rest."""
    found = {objective.name: objective for objective in objectives_for(metric, part)}
    if isinstance(metric, HasPairs):
        return found["all pairs"]
    order = ("soft counts", "top pairs") if part.kind == "binary" else ("metric", "listwise softmax")
    return next(found[name] for name in order if name in found)


def _batches(part: Split, size: int = 2048) -> list[tuple[Tensor, Tensor]]:
    return list(zip(part.x.split(size), part.y.split(size), strict=True))
