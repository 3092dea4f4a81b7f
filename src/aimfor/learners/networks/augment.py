"""Pictures changed at random while a network learns: only in ways that leave what they show as it is.

Photographs may be mirrored, shifted and shown in slightly different colours. A mirrored 2 is no digit and a
mirrored page no page, so drawings, digits and documents are only shifted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

PHOTOS, DRAWINGS, NOTHING = "photos", "drawings", ""
#: What a user is told.
SAID = {
    PHOTOS: "pictures are mirrored, shifted and slightly recoloured at random while learning, as suits photographs",
    DRAWINGS: "pictures are shifted at random while learning, never mirrored, as suits drawings, digits and documents",
}
#: Shifts go up to this share of a side; colours change by this share.
SHIFT, COLOUR = 1 / 8, 0.1
#: Mean difference of channels below which a picture is gray, and the share of black or white pixels of a drawing.
GRAY, FLAT = 3.0, 0.5


def sort_of(images: NDArray[Any]) -> str:
    """What pictures ``(n, h, w, c)`` uint8 are: gray or mostly black and white ones count as drawings.

    Example:
        >>> sort_of(np.full((2, 8, 8, 1), 255, dtype=np.uint8))
        'drawings'
    """
    some = images[:: max(1, len(images) // 200)].astype(np.float32)
    gray = some.shape[3] == 1 or float(np.abs(some - some.mean(3, keepdims=True)).mean()) < GRAY
    flat = float(((some < 8) | (some > 247)).all(3).mean()) > FLAT
    return DRAWINGS if gray or flat else PHOTOS


class Augment(nn.Module):
    """Changes pictures ``(b, c, h, w)`` of zero mean and unit deviation, in training mode alone."""

    def __init__(self, sort: str) -> None:
        super().__init__()
        self.sort = sort

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.sort == NOTHING:
            return x
        x = shifted(x)
        if self.sort != PHOTOS:
            return x
        x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x)
        scale = 1.0 + COLOUR * (2.0 * torch.rand(len(x), x.shape[1], 1, 1) - 1.0)
        return x * scale + COLOUR * torch.randn(len(x), x.shape[1], 1, 1)


def shifted(x: Tensor) -> Tensor:
    """Each picture moved by up to an eighth of its sides; the border is repeated."""
    n, channels, height, width = x.shape
    rows, columns = (_places(n, side) for side in (height, width))
    at = torch.arange(n)[:, None, None, None], torch.arange(channels)[None, :, None, None]
    moved: Tensor = x[at[0], at[1], rows[:, None, :, None], columns[:, None, None, :]]
    return moved


def _places(n: int, side: int) -> Tensor:
    most = max(1, round(SHIFT * side))
    offsets = torch.randint(-most, most + 1, (n, 1))
    return (torch.arange(side)[None] + offsets).clamp(0, side - 1)
