"""`map_unseen`: neighbours of classes that training never saw, on frozen features. Every fold makes its own trials."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.data.components import Components
from aimfor.learners.networks.sampler import PerClassBatchSampler

from ..experiments.ours.retrieval_features import SETS, SPLITS, data
from ..experiments.ours.retrieval_losses import multi_similarity, of_package, smooth_ap, supervised_contrastive
from .contest import regime_of_folds
from .losses import Loss, MakeLoss, Method, then
from .task import Checkpoint, Rows, Task, items_of_best

METRICS, SIZE = ("map@r", "recall@1"), 64
#: Vectors and labels to a scalar.
VectorLoss = Callable[[Tensor, Tensor], Tensor]


class Embedding(nn.Module):
    """``size`` numbers, then their products with a vector for each training class, then the cosines with it."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.layer, self.classes = nn.Linear(inputs, SIZE, bias=False), nn.Linear(SIZE, classes)

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.layer(x)
        cosines = functional.normalize(vectors) @ functional.normalize(self.classes.weight).T
        return torch.cat((vectors, self.classes(vectors), cosines), 1)


def _parts(outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    classes = (outputs.shape[1] - SIZE) // 2
    vectors, products, cosines = outputs.split((SIZE, classes, classes), 1)
    return vectors, products, cosines


def _softmax(shares: Tensor, knob: float, metric: str) -> Loss:
    return lambda outputs, y, done: functional.cross_entropy(_parts(outputs)[1], y)


def _cosine_softmax(shares: Tensor, knob: float, metric: str) -> Loss:
    return lambda outputs, y, done: functional.cross_entropy(knob * _parts(outputs)[2], y)


def _cosine_softmax_of_8(shares: Tensor, knob: float, metric: str) -> Loss:
    return _cosine_softmax(shares, 8.0, metric)


def _of_vectors(make: Callable[[float], VectorLoss]) -> MakeLoss:
    def made(shares: Tensor, knob: float, metric: str) -> Loss:
        loss = make(knob)
        return lambda outputs, y, done: loss(_parts(outputs)[0], y)

    return made


def _ours(temperature: float) -> VectorLoss:
    return aimfor.RetrievalLoss("map@r", temperature=temperature)


def _with_classes(shares: Tensor, knob: float, metric: str) -> Loss:
    """`RetrievalLoss` with ``anchor=0.1``, whose last layer over the classes is the network's own here."""
    lists = _of_vectors(_ours)(shares, knob, metric)
    classes = _softmax(shares, 0.0, metric)
    return lambda outputs, y, done: 0.9 * lists(outputs, y, done) + 0.1 * classes(outputs, y, done)


def _partial(loss: Callable[[float, Tensor, Tensor], Tensor]) -> MakeLoss:
    return _of_vectors(lambda knob: functools.partial(loss, knob))


METHODS = (
    Method("softmax", _softmax),
    Method("cosine softmax", _cosine_softmax, (4.0, 8.0, 16.0)),
    Method("metric", _of_vectors(lambda knob: aimfor.RetrievalLoss("map@r"))),
    Method("metric, temperature", _of_vectors(_ours), (0.02, 0.05, 0.1)),
    Method("metric + classes", _with_classes, (0.02, 0.05, 0.1)),
    Method("supervised contrastive", _partial(supervised_contrastive), (0.05, 0.1, 0.2)),
    Method("multi-similarity", _partial(multi_similarity), (0.3, 0.5, 0.7)),
    Method("SmoothAP", _partial(smooth_ap), (0.02, 0.05, 0.1)),
    Method(
        "FastAP (package)",
        _of_vectors(lambda knob: of_package("FastAPLoss", num_bins=int(knob))),
        (5.0, 10.0, 20.0),
    ),
    Method(
        "cosine softmax, then metric",
        then(_cosine_softmax_of_8, _of_vectors(lambda knob: _ours(0.05))),
        (0.25, 0.5, 0.75),
    ),
)


def per_class(task: Task, balanced: bool, generator: torch.Generator) -> Iterator[Tensor]:
    """16 classes × 4 pictures."""
    sampler = PerClassBatchSampler(task.train.y, 16, 4, seed=task.seed)
    while True:
        for rows in sampler:
            yield torch.as_tensor(rows)


def load(folder: Path, name: str, fold: int) -> Task:
    x, y, hand = data(folder, name)
    judge, choose = hand == fold, hand == (fold + 1) % SPLITS
    learn = ~(judge | choose)
    small = Components.fit(x[learn])
    parts = {
        "choose": Rows((small(x[choose]),), y[choose]),
        "judge": Rows((small(x[judge]),), y[judge]),
    }
    labels = y[learn].unique(return_inverse=True)[1]
    return Task(
        train=Rows((small(x[learn]),), labels),
        parts=parts,
        network=functools.partial(Embedding, small.width, int(labels.max()) + 1),
        evaluate=functools.partial(evaluate, parts),
        metrics=METRICS,
        shares=torch.ones(1),
        seed=fold,
        steps=200,
        batch=64,
        draw=per_class,
    )


def evaluate(parts: dict[str, Rows], checkpoints: Sequence[Checkpoint]) -> dict[str, dict[str, Any]]:
    """Judged class by class."""

    def items(metric: str, outputs: Tensor, y: Tensor) -> list[float]:
        return [float(value) for value in by_class(outputs, y)[metric]]

    def mean(metric: str, outputs: Tensor, y: Tensor) -> float:
        return float(by_class(outputs, y)[metric].mean())

    return {
        metric: items_of_best(checkpoints, parts, functools.partial(mean, metric), functools.partial(items, metric))
        for metric in METRICS
    }


def by_class(outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """MAP@R and recall@1 of each class, means over its pictures: each asks for all others of the part, by cosine."""
    unit = functional.normalize(outputs[:, :SIZE])
    relevant = (y[:, None] == y).sum(1) - 1
    nearest = (unit @ unit.T).fill_diagonal_(-torch.inf).topk(int(relevant.max()), 1).indices
    hits, rank = (y[nearest] == y[:, None]).double(), torch.arange(1, nearest.shape[1] + 1)
    precision = hits.cumsum(1) / rank * hits * (rank <= relevant[:, None])
    each = {"map@r": precision.sum(1) / relevant, "recall@1": hits[:, 0]}
    classes = y.unique()
    return {name: torch.stack([value[y == label].mean() for label in classes]) for name, value in each.items()}


EXPERIMENT = regime_of_folds(
    "map_unseen", "The map: neighbours of unseen classes", dict.fromkeys(SETS, range(SPLITS)), METRICS, METHODS, load
)
