"""The built-in networks: linear, MLP, a small residual network."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...data.components import in_blocks
from ...errors import InputError

Shape = tuple[int, ...]


class Clip(nn.Module):
    """Inputs held within ±10, so that one stray value cannot dominate; the encoder leaves them as they are."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-10.0, 10.0)


def linear(shape: Shape, outputs: int, hidden: int, dropout: float) -> nn.Module:
    """One affine layer."""
    return nn.Sequential(Clip(), nn.Flatten(), nn.Linear(math.prod(shape), outputs))


def mlp(shape: Shape, outputs: int, hidden: int, dropout: float) -> nn.Module:
    """Two hidden layers with ReLU and a little dropout."""
    return nn.Sequential(
        Clip(),
        nn.Flatten(),
        nn.Linear(math.prod(shape), hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, outputs),
    )


class GroupNorm(nn.GroupNorm):
    """torch's, on pictures laid out as rows: its gradient has crashed the process on maps that lay channels last, as
    a map of one pixel always does.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(2)).reshape(x.shape)


class _Block(nn.Module):
    """Two 3×3 convolutions around a shortcut. Group norm: its answer does not depend on who else is in the batch."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = GroupNorm(8, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = GroupNorm(8, outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.first(x)))
        y = self.norm2(self.second(y))
        return torch.relu(y + self.shortcut(x))


def resnet(shape: Shape, outputs: int, hidden: int, dropout: float) -> nn.Module:
    """A small residual network: 16, 32 and 64 channels, one block each, mean over the picture, one affine layer."""
    if len(shape) != 3:
        raise InputError("--model", "resnet for a table", "images", "Use --model mlp or linear.")
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False),
        _Block(16, 16, 1),
        _Block(16, 32, 2),
        _Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, outputs),
    )


BUILT_IN: dict[str, Callable[[Shape, int, int, float], nn.Module]] = {"linear": linear, "mlp": mlp, "resnet": resnet}


def build(name: str, shape: Shape, outputs: int, hidden: int = 128, dropout: float = 0.1) -> nn.Module:
    """A fresh model for inputs of ``shape`` (without the batch dimension) and ``outputs`` scores.

    ``"auto"`` is an MLP for tables and the residual network for images.

    Raises:
        InputError: Unknown name.
    """
    if name == "auto":
        name = "resnet" if len(shape) == 3 else "mlp"
    if name not in BUILT_IN:
        raise InputError("model", repr(name), f"auto, {', '.join(BUILT_IN)}")
    return BUILT_IN[name](shape, outputs, hidden, dropout)


def scores_of(model: nn.Module, x: Tensor, outputs: int) -> Tensor:
    """Scores of many rows without gradient: ``(n,)`` for one output, else ``(n, c)``. Leaves the mode as it was.

    Example:
        >>> scores_of(nn.Linear(3, 1), torch.zeros(5, 3), outputs=1).shape
        torch.Size([5])
    """
    mode = model.training
    model.eval()
    with torch.no_grad():
        scores = in_blocks(lambda rows: shaped(model(rows), outputs), x)
    model.train(mode)
    return scores


def shaped(scores: Tensor, outputs: int) -> Tensor:
    return scores.reshape(-1) if outputs == 1 else scores
