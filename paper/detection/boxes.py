"""Overlap and pooling of boxes ``(n, 4)``, each ``(x0, y0, x1, y1)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from aimfor.errors import InputError

Boxes = np.ndarray[Any, np.dtype[np.float64]]


def checked(name: str, boxes: Boxes, size: tuple[float, float] | None = None) -> Boxes:
    """The boxes as float64, after refusing those that have no area or leave the picture of ``size`` (width, height)."""
    array = np.asarray(boxes, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 4 or not np.isfinite(array).all():
        raise InputError(name, f"shape {array.shape}", "finite boxes (n, 4): x0, y0, x1, y1")
    flat = (array[:, 2] <= array[:, 0]) | (array[:, 3] <= array[:, 1])
    if flat.any():
        raise InputError(name, f"the box {array[flat][0].tolist()}, without area", "x0 < x1 and y0 < y1")
    if size is not None:
        edge = np.array([size[0], size[1], size[0], size[1]])
        outside = ((array < -1e-6) | (array > edge + 1e-6)).any(1)
        if outside.any():
            came = f"the box {array[outside][0].tolist()} in a picture of {size[0]:g} × {size[1]:g}"
            raise InputError(name, came, "boxes inside their picture", "Cut them at its edges.")
    return array


def overlaps(first: Boxes, second: Boxes) -> Boxes:
    """Intersection over union of every box with every other, ``(n, m)``."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0.0, None).prod(2)
    area, other = ((boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second))
    ious: Boxes = shared / (area[:, None] + other[None, :] - shared)
    return ious


def pooled(maps: Tensor, boxes: Tensor) -> Tensor:
    """Mean of a feature map over each box, ``(n, c)``, by one integral image: four corners a box whatever its size.

    A cell is constant over its square, so the integral is bilinear between the corners of cells and the mean over a box
    with any real corners is exact.

    Args:
        maps: ``(c, h, w)``.
        boxes: ``(n, 4)`` in cells of the map; cut at its edges.
    """
    c, h, w = maps.shape
    whole = maps.new_zeros((h + 1, w + 1, c), dtype=torch.float64)
    whole[1:, 1:] = maps.permute(1, 2, 0).double().cumsum(0).cumsum(1)
    x0, y0, x1, y1 = (boxes.double()[:, side] for side in range(4))
    x0, x1 = x0.clamp(0, w), x1.clamp(0, w)
    y0, y1 = y0.clamp(0, h), y1.clamp(0, h)
    total = _at(whole, y1, x1) - _at(whole, y0, x1) - _at(whole, y1, x0) + _at(whole, y0, x0)
    area = ((x1 - x0) * (y1 - y0)).clamp_min(1e-12)
    return (total / area[:, None]).to(maps.dtype)


def _at(whole: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The integral at real points, between the corners of cells."""
    row = y.floor().long().clamp_max(whole.shape[0] - 2)
    column = x.floor().long().clamp_max(whole.shape[1] - 2)
    down, right = (y - row)[:, None], (x - column)[:, None]
    upper = (1 - right) * whole[row, column] + right * whole[row, column + 1]
    lower = (1 - right) * whole[row + 1, column] + right * whole[row + 1, column + 1]
    return (1 - down) * upper + down * lower
