"""The last block of a backbone, fine-tuned: what the frozen part says about a picture is computed once and kept.

Only the last block, the layer after it and a new last layer learn. They see the map before that block, so that a step
costs a tenth of one through the whole network, and a fold needs no picture to be read again.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from ....data.backbones import load_backbone
from ....targets.objective import Objective
from ...networks.augment import NOTHING, PHOTOS
from .base import Job, Member, Rows
from .network import cross_entropy
from .pictures import FittedPictureNetwork
from .tabular_network import together
from .training import Schedule, train

BATCH, LOOKS = 32, 5
#: Features are about 0.1 each; enlarged, the last layer learns faster than what is pretrained.
ENLARGED = 8.0


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
            rate=3e-4, batch=min(BATCH, n), checkpoints=LOOKS, steps=max(1, n // BATCH), patience=2, decay=0.95
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
