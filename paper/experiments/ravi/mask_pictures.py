"""Test images with their masks, small enough to be kept with the numbers, and the figure made of them."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.mask_data import IGNORED, MaskPart
from ...networks.mask_networks import resized
from ...report.figures import drawing

#: One colour for each class id, in this order; unlabelled pixels are black.
PALETTE = np.array(
    [
        (135, 196, 235), (150, 75, 60), (190, 190, 190), (110, 90, 140), (230, 150, 200), (60, 140, 60),
        (225, 205, 70), (170, 120, 60), (40, 70, 170), (220, 60, 50), (60, 190, 180), (120, 180, 90),
    ],
    dtype=np.uint8,
)  # fmt: skip


def packed(values: Tensor) -> dict[str, Any]:
    """Bytes as text: the shape, and the compressed content in base 64."""
    raw = values.to(torch.uint8).contiguous().numpy().tobytes()
    return {"shape": list(values.shape), "bytes": base64.b64encode(zlib.compress(raw, 9)).decode()}


def unpacked(stored: dict[str, Any]) -> np.ndarray[Any, Any]:
    raw = zlib.decompress(base64.b64decode(stored["bytes"]))
    return np.frombuffer(raw, dtype=np.uint8).reshape(stored["shape"])


def pictures(part: MaskPart, masks: dict[str, Tensor], count: int) -> dict[str, Any]:
    """``count`` images, evenly spread over the part (no choice by result), with the truth and each method's masks,
    at half the size they came in."""
    rows = torch.linspace(0, len(part) - 1, count + 2)[1:-1].round().long()
    truth = part.fine[rows][:, ::2, ::2]
    image = resized(part.x[rows], truth.shape[1:]).add(1.0).mul(127.5).round().clamp(0, 255).permute(0, 2, 3, 1)
    decided = {name: packed(mask[rows][:, ::2, ::2]) for name, mask in masks.items()}
    return {"image": packed(image), "truth": packed(truth), **decided}


def draw(stored: dict[str, Any], path: Path, title: str) -> None:
    """A PNG: one row per image, with its masks beside it."""
    columns = {name: unpacked(content) for name, content in stored.items()}
    unknown = columns["truth"] == IGNORED
    binary = int(columns["truth"][~unknown].max()) <= 1
    palette = PALETTE[[6, 0]] if binary else PALETTE  # what is looked for in the colour of the sky
    count = len(columns["truth"])
    with drawing(path, (1.9 * len(columns), 1.45 * count + 0.3)) as figure:
        figure.suptitle(title, fontsize=9)
        for row, line in enumerate(figure.subplots(count, len(columns), squeeze=False)):
            for axes, (name, content) in zip(line, columns.items(), strict=True):
                panel = content[row]
                if panel.ndim == 2:
                    panel = np.where(unknown[row][..., None], 0, palette[panel % len(palette)])
                axes.imshow(panel, interpolation="nearest")
                axes.set_axis_off()
                if row == 0:
                    axes.set_title(name, fontsize=8)
