"""Members for pictures themselves: a small network on pixels, the same for the metric, a backbone's fine-tuned end.

What the frozen part of a backbone says about a picture is computed once and kept: only the last block, the layer after
it and a new last layer learn, from the map before that block, so that a step costs a tenth of one through the whole
network, and a fold needs no picture to be read again.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from ....data.backbones import load_backbone
from ....targets.objective import Objective
from ...networks.augment import NOTHING, PHOTOS, Augment
from ...networks.losses import why_untrainable
from ...networks.models import build
from .base import Job, Member, Rows
from .network import FittedByWeights, Schedule, Weights, cross_entropy, together, train, train_for_metric

#: Pictures per step, and steps in all: a network on pictures takes a hundred times as long as one on columns.
BATCH, STEPS, CHECKPOINTS = 64, 320, 8
#: Maps per step of the last block of a backbone, and its checkpoints.
TAIL_BATCH, TAIL_CHECKPOINTS = 32, 5
#: Its features are about 0.1 each; enlarged, the last layer learns faster than what is pretrained.
ENLARGED = 8.0


class _OneHead(nn.Module):
    """Pictures ``(b, c, h, w)`` to scores ``(b, 1, outputs)``, changed at random in training mode."""

    def __init__(self, inner: nn.Module, sort: str) -> None:
        super().__init__()
        self.augment, self.inner = Augment(sort), inner

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(self.augment(x))
        return found.reshape(len(x), 1, -1)


class FittedPictureNetwork(FittedByWeights):
    """A network on pictures; which network it is, no file says."""

    def __init__(self, network: nn.Module, shape: tuple[int, ...], outputs: int, weights: list[Weights]) -> None:
        super().__init__(network, outputs, weights)
        self.shape = shape

    def cut(self, checkpoint: int) -> Self:
        return type(self)(self.network, self.shape, self.outputs, [self.weights[checkpoint]])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, facts = super().state()
        return tensors, facts | {"shape": list(self.shape)}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        return cls.of_sort(tensors, facts, NOTHING)

    @classmethod
    def of_sort(cls, tensors: dict[str, Tensor], facts: dict[str, Any], sort: str) -> Self:
        """From a state; ``sort`` says how pictures are changed if it learns further."""
        shape, outputs = tuple(int(one) for one in facts["shape"]), int(facts["outputs"])
        with torch.random.fork_rng(devices=[]):
            network = _OneHead(build("auto", shape, outputs), sort)
        weights = cls.split(tensors, int(facts["looks"]))
        for part in weights:
            network.load_state_dict(part)  # raises for weights of another network
        return cls(network.eval(), shape, outputs, weights)


class PictureNetwork(Member):
    """A network on pixels by cross-entropy.

    Args:
        sort: How pictures may be changed while learning; see `augment`.
    """

    name = "pictures_network"
    title = "network on pictures"
    unit = "steps"

    def __init__(self, sort: str = NOTHING) -> None:
        self.sort = sort

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return None if rows.x.ndim == 4 else "there are columns, not pictures"

    def schedule(self, n: int) -> Schedule:
        steps = max(4, min(STEPS, round(30 * n / BATCH))) // CHECKPOINTS
        return Schedule(rate=3e-3, batch=BATCH, checkpoints=CHECKPOINTS, steps=max(1, steps), patience=3, decay=0.95)

    def fit(self, job: Job) -> FittedPictureNetwork:
        shape = tuple(job.train.x.shape[1:])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            network = _OneHead(build("auto", shape, job.outputs), self.sort)
            weights = train(
                network,
                job,
                self.schedule(len(job.train.y)),
                lambda scores, batch, rows: cross_entropy(together(scores), batch),
                lambda scores: -float(cross_entropy(scores, job.held)),
            )
        return FittedPictureNetwork(network.eval(), shape, job.outputs, weights)

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> FittedPictureNetwork:
        return FittedPictureNetwork.of_sort(tensors, facts, self.sort)


class PictureMetric(PictureNetwork):
    """The network at its chosen checkpoint, trained further by the metric's own engine."""

    name = "pictures_metric"
    title = "network on pictures for the metric"
    starts_from = "pictures_network"
    chosen_by_metric = True

    def schedule(self, n: int) -> Schedule:
        return Schedule(rate=1e-3, batch=2 * BATCH, checkpoints=4, steps=6, patience=2, decay=0.9, weight_decay=0.0)

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return super().why_not(objective, rows, outputs) or why_untrainable(objective)

    def fit(self, job: Job) -> FittedPictureNetwork:
        assert isinstance(job.start, FittedPictureNetwork)
        tensors, facts = job.start.cut(-1).state()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            network = self.restore(tensors, facts).network
            weights = train_for_metric(network, job, job, self.schedule(len(job.train.y)))
        return FittedPictureNetwork(network.eval(), job.start.shape, job.outputs, weights)


class TailNetwork(nn.Module):
    """Maps ``(b, c, h, w)`` before the last block to scores ``(b, 1, outputs)``; mirrored at random for photographs."""

    def __init__(self, tail: nn.Module, width: int, outputs: int, sort: str = NOTHING) -> None:
        super().__init__()
        self.tail, self.sort = copy.deepcopy(tail), sort
        self.dropout, self.last = nn.Dropout(0.2), nn.Linear(width, outputs)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, maps: Tensor) -> Tensor:
        if self.training and self.sort == PHOTOS:
            maps = torch.where(torch.rand(len(maps), 1, 1, 1) < 0.5, maps.flip(3), maps)
        scores: Tensor = self.last(self.dropout(ENLARGED * self.tail(maps)))
        return scores.unsqueeze(1)


class FittedTail(FittedPictureNetwork):
    """A fine-tuned tail. Its maps are the last columns of a row."""

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        return super().scores(maps_in(x, self.shape), checkpoint)

    @classmethod
    def of(cls, backbone: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        shape, outputs = tuple(int(one) for one in facts["shape"]), int(facts["outputs"])
        network = made(backbone, outputs)
        found = cls(network.eval(), shape, outputs, cls.split(tensors, int(facts["looks"])))
        for part in found.weights:
            network.load_state_dict(part)
        return found


def made(backbone: str, outputs: int, sort: str = NOTHING) -> TailNetwork:
    loaded = load_backbone(backbone)
    return TailNetwork(loaded.tail(), loaded.width, outputs, sort)


def maps_in(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The maps ``(n, c, h, w)`` at the end of rows ``(n, d)``."""
    size = shape[0] * shape[1] * shape[2]
    return x[:, x.shape[1] - size :].reshape(len(x), *shape).contiguous()


class TunedTail(Member):
    """Fine-tunes the last block by cross-entropy.

    Args:
        backbone: Its name.
        shape: Of the maps at the end of a row.
        sort: Photographs are mirrored at random.
    """

    name = "features_tuned"
    title = "fine-tuned last block"
    unit = "passes"

    def __init__(self, backbone: str = "", shape: tuple[int, ...] = (), sort: str = NOTHING) -> None:
        self.backbone, self.shape, self.sort = backbone, shape, sort

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return None if self.shape else "there are no maps to learn from"

    def schedule(self, n: int) -> Schedule:
        return Schedule(
            rate=3e-4,
            batch=min(TAIL_BATCH, n),
            checkpoints=TAIL_CHECKPOINTS,
            steps=max(1, n // TAIL_BATCH),
            patience=2,
            decay=0.95,
        )

    def fit(self, job: Job) -> FittedTail:
        learn, held = (replace(rows, x=maps_in(rows.x, self.shape)) for rows in (job.train, job.held))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            network = made(self.backbone, job.outputs, self.sort)
            weights = train(
                network,
                replace(job, train=learn, held=held),
                self.schedule(len(learn.y)),
                lambda scores, batch, rows: cross_entropy(together(scores), batch),
                lambda scores: -float(cross_entropy(scores, job.held)),
            )
        return FittedTail(network.eval(), self.shape, job.outputs, weights)

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> FittedTail:
        return FittedTail.of(self.backbone, tensors, facts)
