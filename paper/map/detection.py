"""`map_detection`: windows of selective search, one linear layer on features of a frozen network; class by class.

Windows, features and batches (a quarter objects) are made as for `song_detection`, of fewer pictures. Suppression and
average precision of boxes are computed for all classes and pictures at once: a trial is judged at five checkpoints.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor

from ..detection.windows import Judge, windows
from ..experiments.song.detection import OBJECTS
from .contest import regime_of_folds
from .labels import focal, weighted
from .losses import Loss, MakeLoss, Method, then
from .task import Checkpoint, Rows, Task, items_of_best

DATA, METRIC = "voc2012_detection", "ap of boxes"
#: Pictures of the training part, of these those that choose, and pictures of the val part, which judge.
TRAIN, CHOOSERS, VAL = 450, 150, 300
Array = np.ndarray[Any, Any]


def is_class(labels: Tensor, classes: int) -> Tensor:
    """``(n, c)``: 1 in the column of its class, nowhere for background (−1)."""
    return functional.one_hot(labels + 1, classes + 1)[:, 1:]


def _softmax(shares: Tensor, knob: float, metric: str) -> Loss:
    """Over the classes and background, which has the score 0."""
    return lambda s, y, done: functional.cross_entropy(torch.cat((torch.zeros_like(s[:, :1]), s), 1), y + 1)


def _class_by_class(make: MakeLoss) -> MakeLoss:
    """A loss of several labels: each class against the rest."""

    def made(shares: Tensor, knob: float, metric: str) -> Loss:
        loss = make(shares, knob, metric)
        return lambda scores, labels, done: loss(scores, is_class(labels, scores.shape[1]), done)

    return made


def _ours(direct: bool) -> MakeLoss:
    """A class's list is the batch."""

    def make(shares: Tensor, knob: float, metric: str) -> Loss:
        loss = aimfor.MetricLoss("ap", aimfor.DirectEngine(epsilon=knob) if direct else None)
        return lambda scores, y, done: loss(scores.T, is_class(y, scores.shape[1]).T)

    return make


# In the order in which they are run.
METHODS = (
    Method("metric", _ours(False)),
    Method("softmax", _softmax),
    Method("1/√frequency", _class_by_class(weighted(0.5))),
    Method("1/frequency", _class_by_class(weighted(1.0))),
    Method("logistic", _class_by_class(weighted(0.0))),
    Method("softmax, then metric", then(_softmax, _ours(False)), (0.25, 0.5, 0.75)),
    Method("focal", _class_by_class(focal), (0.5, 1.0, 2.0)),
    Method("metric, direct", _ours(True), (0.1, 1.0, 10.0)),
)


def draw(task: Task, balanced: bool, generator: torch.Generator) -> Iterator[Tensor]:
    """A quarter of a batch is objects."""
    groups = [(task.train.y >= 0).nonzero().squeeze(1), (task.train.y == -1).nonzero().squeeze(1)]
    sizes = (OBJECTS, task.batch - OBJECTS)
    while True:
        yield torch.cat(
            [g[torch.randint(len(g), (n,), generator=generator)] for g, n in zip(groups, sizes, strict=True)]
        )


def load(folder: Path, name: str, fold: int) -> Task:
    train, val = windows(folder, TRAIN, VAL)
    order = np.random.default_rng(1).permutation(len(train.ends)).tolist()
    judges = {"choose": Judge(train, sorted(order[:CHOOSERS])), "judge": Judge(val, range(len(val.ends)))}
    rows = train.of(order[CHOOSERS:])
    parts = {name: Rows((w.x[judges[name].rows],), w.labels[judges[name].rows]) for name, w in
             (("choose", train), ("judge", val))}  # fmt: skip
    classes, batch = len(train.part.names), 2048
    labels = train.labels[rows]
    shares = torch.bincount(labels[labels >= 0], minlength=classes) / (labels >= 0).sum() * OBJECTS / batch
    return Task(
        train=Rows((train.x[rows],), labels),
        parts=parts,
        network=functools.partial(nn.Linear, train.x.shape[1], classes),
        evaluate=functools.partial(evaluate, parts, judges),
        metrics=(METRIC,),
        shares=shares,
        seed=0,
        steps=200,
        batch=batch,
        rates=(3e-3, 3e-1),
        draw=draw,
    )


def evaluate(
    parts: dict[str, Rows], judges: Mapping[str, Callable[[Tensor], Array]], checkpoints: Sequence[Checkpoint]
) -> dict[str, dict[str, Any]]:
    """Judged class by class."""

    def mean(scores: Tensor, y: Tensor) -> float:
        return float(np.nanmean(judges["choose"](scores)))

    return {METRIC: items_of_best(checkpoints, parts, mean, lambda scores, y: judges["judge"](scores).tolist())}


EXPERIMENT = regime_of_folds("map_detection", "The map: objects in pictures", {DATA: (0,)}, (METRIC,), METHODS, load)
