"""Frozen features of a pretrained network for image sets, computed once and kept in the temporary folder."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aimfor.data.backbones import LITE0, load_backbone
from aimfor.data.features import FeatureStore, features_of
from aimfor.data.pictures import Pictures

from .images import read_split


@functools.cache
def frozen_split(folder: Path, name: str, split: str, most: int, side: int) -> tuple[Tensor, Tensor]:
    """Features ``(n, 1280)`` of EfficientNet-Lite0 and class ids of at most ``most`` images, drawn evenly by class."""
    images, labels = read_split(folder, name, split)
    rows = evenly(labels, most)
    of_pictures = features(np.ascontiguousarray(images[rows]), side)
    return of_pictures, torch.from_numpy(np.asarray(labels)[rows]).long()


def features(images: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], side: int) -> Tensor:
    """Of pictures ``(n, h, w)`` or ``(n, h, w, c)`` uint8, scaled to ``side`` pixels."""
    network = load_backbone(LITE0)
    store = FeatureStore.beside(Path(tempfile.gettempdir()) / "aimfor", network, side)
    array = images[..., None] if images.ndim == 3 else images
    pictures = Pictures([str(row) for row in range(len(array))], array=array)
    return torch.from_numpy(features_of(pictures, network, side, store))


def evenly(labels: np.ndarray[tuple[int, ...], np.dtype[np.int64]], most: int) -> list[int]:
    """Rows with about as many of each class, at most ``most`` of all, always the same, in order."""
    random, classes = np.random.default_rng(0), np.unique(labels)
    each = max(1, most // len(classes))
    picked = [random.permutation(np.flatnonzero(labels == label))[:each] for label in classes]
    return sorted(int(row) for of_class in picked for row in of_class)
