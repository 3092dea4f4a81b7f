"""`map_labels`: several labels a person, on features of a frozen network. Labels that are not annotated are −1."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.data.components import Components

from ..data import frozen, voc
from .contest import regime
from .losses import Loss, MakeLoss, Method, then
from .task import Checkpoint, Rows, Task, best_of, best_where_tuned

METRICS, DATA, SIDE, WIDTH = ("multilabel_ap", "multilabel_f1"), "voc2012_action_large", 160, 256
Raw = tuple[Tensor, Tensor, np.ndarray]


def entropy(scores: Tensor, y: Tensor, shares: Tensor, power: float) -> Tensor:
    """Of what is annotated; yes and no of a label weigh 1/their share to a power, mean 1 over the batch."""
    each = functional.binary_cross_entropy_with_logits(scores, y.clamp_min(0).to(scores), reduction="none")
    weights = torch.where(y > 0, shares, 1.0 - shares) ** -power * (y >= 0)
    return (each * weights).sum() / weights.sum()


def weighted(power: float) -> MakeLoss:
    return lambda shares, knob, metric: lambda scores, y, done: entropy(scores, y, shares, power)


def focal(shares: Tensor, knob: float, metric: str) -> Loss:
    """Lin 2017: ``(1 − p)^γ`` times cross-entropy."""
    return asymmetric(shares, knob, metric, shift=0.0, of_truth=knob)


def asymmetric(shares: Tensor, knob: float, metric: str, shift: float = 0.05, of_truth: float = 0.0) -> Loss:
    """Ridnik 2021: a no counts ``p^γ``, after its probability has been lowered by ``shift``; a yes counts in full."""

    def loss(scores: Tensor, y: Tensor, done: float) -> Tensor:
        chance = torch.sigmoid(scores)
        lowered = (chance - shift).clamp_min(0.0)
        right = -((1.0 - chance).clamp_min(1e-6) ** of_truth) * functional.logsigmoid(scores)
        wrong = -(lowered.clamp_min(1e-6) ** knob) * torch.log1p(-lowered.clamp_max(1.0 - 1e-6))
        return torch.where(y > 0, right, wrong)[y >= 0].mean()

    return loss


def _default(shares: Tensor, knob: float, metric: str) -> Loss:
    loss = aimfor.MetricLoss(metric)
    return lambda scores, y, done: loss(scores, y.clamp_min(0), where=y >= 0)


METHODS = (
    Method("metric", _default, ours=True),
    Method("cross-entropy", weighted(0.0)),
    Method("1/frequency", weighted(1.0)),
    Method("1/√frequency", weighted(0.5)),
    Method("focal", focal, (0.5, 1.0, 2.0)),
    Method("asymmetric", asymmetric, (1.0, 2.0, 4.0)),
    Method("cross-entropy, then metric", then(weighted(0.0), _default), (0.25, 0.5, 0.75), ours=True),
)


#: One photograph that the list has under two ids.
TWICE = {"2011_006818": "2010_006097"}


@functools.cache
def read(folder: Path, split: str) -> Raw:
    """Features, labels, and the image of each person."""
    persons = voc.load_large(folder, split)
    images = np.array([TWICE.get(image, image) for image in persons.images.tolist()])
    return frozen.features(persons.crops, SIDE), torch.from_numpy(persons.labels).long(), images


@functools.cache
def load(folder: Path, name: str, metrics: tuple[str, ...], seed: int) -> Task:
    """Cut by image, so that no photograph has persons in two parts."""
    (x, y, images), (x_test, y_test, _) = read(folder, "train"), read(folder, "val")
    named, number = np.unique(images, return_inverse=True)
    fifth = torch.from_numpy((np.random.default_rng(seed).permutation(len(named)) % 5)[number])
    fit = fifth >= 2
    small = Components.fit(x[fit], WIDTH)
    parts = {
        "choose": Rows((small(x[fifth == 0]),), y[fifth == 0]),
        "judge": Rows((small(x[fifth == 1]),), y[fifth == 1]),
        "confirm": Rows((small(x_test),), y_test),
    }
    labels = y[fit]
    return Task(
        train=Rows((small(x[fit]),), labels),
        parts=parts,
        network=functools.partial(nn.Linear, small.width, y.shape[1]),
        evaluate=functools.partial(evaluate, parts),
        metrics=METRICS,
        shares=(labels > 0).sum(0) / (labels >= 0).sum(0),
        seed=seed,
        steps=300,
        batch=256,
    )


def evaluate(parts: dict[str, Rows], checkpoints: Sequence[Checkpoint]) -> dict[str, dict[str, float]]:
    """Average precision, and F1 at thresholds that are best on the choosing persons."""
    return {
        "multilabel_ap": best_of(checkpoints, parts, mean_ap),
        "multilabel_f1": best_where_tuned(checkpoints, parts, thresholds, mean_f1),
    }


def mean_ap(scores: Tensor, y: Tensor) -> float:
    return float(aimfor.MetricLoss("multilabel_ap").value(scores.double(), y.clamp_min(0), where=y >= 0))


def mean_f1(scores: Tensor, y: Tensor, tuned: Tensor) -> float:
    moved = scores.double() - tuned
    return float(aimfor.MetricLoss("multilabel_f1").value(moved, y.clamp_min(0), where=y >= 0))


def thresholds(scores: Tensor, y: Tensor) -> Tensor:
    """The best of each label."""
    columns = zip(scores.double().unbind(1), y.unbind(1), strict=True)
    f1 = aimfor.FBeta(1.0)
    return torch.stack(
        [f1.best_threshold(column[labels >= 0], labels[labels >= 0]).threshold for column, labels in columns]
    )


EXPERIMENT = regime("map_labels", "The map: several labels", {DATA: (METRICS, METHODS)}, load)
