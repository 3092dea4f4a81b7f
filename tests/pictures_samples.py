"""Small pictures of two kinds, and a network that needs no weights and no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from aimfor.data import backbones


class Tiny(nn.Module):
    """Means over the cells of a 3 × 3 grid; maps are pooled pictures."""

    def features(self, x: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(x, 3).flatten(1)

    def maps(self, x: Tensor) -> list[Tensor]:
        return [functional.avg_pool2d(x, stride) for stride in (4, 8, 16, 32)]


def tiny(digest: str = "0123456789abcdef") -> backbones.Backbone:
    return backbones.Backbone(backbones.LITE0, Tiny(), (127.0,) * 3, (128.0,) * 3, 27, digest)  # type: ignore[arg-type]


def picture(kind: int, seed: int, side: int = 24) -> Image.Image:
    """Noise, brighter in the upper (0) or lower (1) half."""
    pixels = np.random.default_rng(seed).integers(0, 120, (side, side, 3))
    half = slice(side // 2) if kind == 0 else slice(side // 2, side)
    pixels[half] += 25 + 10 * (seed % 5)
    return Image.fromarray(pixels.astype(np.uint8))


def class_folders(folder: Path, n: int = 24, names: tuple[str, str] = ("cat", "dog"), **how: Any) -> Path:
    for seed in range(n):
        place = folder / names[seed % 2]
        place.mkdir(parents=True, exist_ok=True)
        picture(seed % 2, seed, **how).save(place / f"{seed}.png")
    return folder


def patterned(kind: int, seed: int, side: int = 24) -> Image.Image:
    """A pattern of 3 × 3 gray cells for each kind, in noise and at any brightness."""
    cells = np.random.default_rng([7, kind]).integers(0, 2, (3, 3)) * 60
    random = np.random.default_rng([kind, seed])
    pixels = np.kron(cells, np.ones((side // 3, side // 3)))[..., None] + random.integers(0, 60, (side, side, 3))
    return Image.fromarray((pixels + 40 * random.random()).astype(np.uint8))


def many_classes(folder: Path, classes: int = 8, each: int = 4) -> Path:
    for kind in range(classes):
        place = folder / f"kind{kind}"
        place.mkdir(parents=True)
        for seed in range(each):
            patterned(kind, seed).save(place / f"{seed}.png")
    return folder


__all__ = ["Tiny", "class_folders", "many_classes", "patterned", "picture", "tiny", "torch"]
