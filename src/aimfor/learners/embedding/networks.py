"""From a picture's features (or pixels) to its vector: as they are, whitened, a linear head, or a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...data.components import Components
from ..networks.models import build

#: Numbers in the vector of a trained network.
WIDTH = 128


class Whitened(nn.Module):
    """Components of the features, brought to one size: what rows differ in most no longer drowns the rest."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("deviation", torch.ones(inputs))
        self.register_buffer("axes", torch.zeros(inputs, width))

    @classmethod
    def fit(cls, x: Tensor, width: int = WIDTH) -> Whitened:
        """From rows without labels."""
        found = Components.fit(x, width)
        made = cls(x.shape[1], found.width)
        deviation = found(x).std(0, correction=0).clamp_min(1e-6)
        made.mean, made.deviation, made.axes = found.mean, found.deviation, found.axes / deviation
        return made

    def forward(self, x: Tensor) -> Tensor:
        mean, deviation, axes = (getattr(self, name) for name in ("mean", "deviation", "axes"))
        vectors: Tensor = ((x - mean) / deviation) @ axes
        return vectors


class Head(nn.Module):
    """A linear layer on whitened components that begins as the identity, so that training can only turn and stretch."""

    def __init__(self, first: Whitened) -> None:
        super().__init__()
        width = first.width
        self.first, self.last = first, nn.Linear(width, width, bias=False)
        nn.init.eye_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        vectors: Tensor = self.last(self.first(x))
        return vectors


def untrained(kind: str, x: Tensor) -> nn.Module:
    """What learns nothing from labels: ``plain`` (numbers as they are) or ``whitened``."""
    return nn.Flatten() if kind == "plain" else Whitened.fit(x)


def trainable(x: Tensor) -> nn.Module:
    """A head on features ``(n, d)``; a small residual network on pictures ``(n, c, h, w)``."""
    if x.ndim == 2:
        return Head(Whitened.fit(x))
    return build("auto", tuple(x.shape[1:]), WIDTH)


def empty(kind: str, shape: tuple[int, ...], width: int) -> nn.Module:
    """A network of the kind to load weights into."""
    if kind == "plain":
        return nn.Flatten()
    if len(shape) == 3:
        return build("auto", shape, width)
    first = Whitened(shape[0], width)
    return first if kind == "whitened" else Head(first)
