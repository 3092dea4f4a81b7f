"""Small image sets: read in the formats they are published in, as tensors, and with the imbalances of Meng's tables.

The small ``.npz`` copies are looked for first; a user who has the full sets (CIFAR's python batches, STL-10's binaries,
MNIST's idx files) points ``--data`` at them.
"""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from aimfor.errors import InputError

from ..protocol.protocol import Split
from .tables import arrays, stratified

#: Classes of each set; cats and dogs are two.
CLASSES = {"cats_vs_dogs": 2, "cifar10": 10, "cifar100": 100, "stl10": 10}
Images = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


class _ArraysOnly(pickle.Unpickler):
    """CIFAR's batches are pickles; nothing but numpy arrays may be made from them."""

    ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer"})

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in self.ALLOWED:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        if (module, name) == ("_codecs", "encode"):  # how bytes are written for old readers
            return super().find_class(module, name)
        raise InputError("data", f"a pickle that wants {module}.{name}", "a CIFAR batch, which holds arrays alone")


def cifar_batches(paths: list[Path], key: str) -> Images:
    """``(n, 32, 32, 3)`` uint8 images and labels from python batches; ``key`` is "labels" or "fine_labels"."""
    images, labels = [], []
    for path in paths:
        batch = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        if not isinstance(batch, dict) or "data" not in batch or key not in batch:
            raise InputError("data", f"{path.name} without 'data' and {key!r}", "a CIFAR python batch")
        images.append(np.asarray(batch["data"], dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.append(np.asarray(batch[key], dtype=np.int64))
    return np.concatenate(images), np.concatenate(labels)


def stl10_binary(images: Path, labels: Path) -> Images:
    """``(n, 96, 96, 3)`` uint8 images (stored by column) and labels 0 … 9 (stored from 1)."""
    raw = np.fromfile(images, dtype=np.uint8)
    if raw.size % (3 * 96 * 96):
        raise InputError("data", f"{images.name} of {raw.size} bytes", "a multiple of 3 × 96 × 96")
    return raw.reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1), np.fromfile(labels, dtype=np.uint8).astype(np.int64) - 1


def idx(path: Path) -> np.ndarray[Any, Any]:
    """An array of bytes in MNIST's own format, plain or gzipped."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise InputError("data", f"{path.name}, which does not start as one", "an idx file of unsigned bytes")
    dimensions = raw[3]
    shape = np.frombuffer(raw, dtype=">i4", count=dimensions, offset=4)
    body = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * dimensions)
    if body.size != int(shape.prod()):
        raise InputError("data", f"{path.name} with {body.size} values", f"{int(shape.prod())}, as its head says")
    return body.reshape(tuple(int(side) for side in shape))


def read_split(folder: Path, name: str, split: str) -> Images:
    """Images and labels of ``<name>/<split>.npz``, or of that split in the set's published format.

    Raises:
        InputError: Neither is there.
    """
    path = folder / name / f"{split}.npz"
    if path.exists():
        raw = arrays(path)
        return raw["x"], raw["y"]
    arrays_of_split = published(folder, name, split)
    if arrays_of_split is None:
        remedy = f"Give the folder that holds {name}/{split}.npz or the set's published files."
        raise InputError("data", f"{folder}, without {name} ({split})", "a folder that holds it", remedy)
    return arrays_of_split


def published(folder: Path, name: str, split: str) -> Images | None:
    """One split of a set in its published format, or None when it is not there."""
    if name == "cifar10":
        batches = [f"data_batch_{number}" for number in range(1, 6)] if split == "train" else ["test_batch"]
        paths = [folder / "cifar-10-batches-py" / batch for batch in batches]
        return cifar_batches(paths, "labels") if all(path.exists() for path in paths) else None
    if name == "cifar100":
        path = folder / "cifar-100-python" / split
        return cifar_batches([path], "fine_labels") if path.exists() else None
    if name == "stl10":
        parts = [folder / "stl10_binary" / f"{split}_{kind}.bin" for kind in ("X", "y")]
        return stl10_binary(*parts) if all(path.exists() for path in parts) else None
    if name == "mnist":
        return _mnist(folder / "mnist", "train" if split == "train" else "t10k")
    return None


def _mnist(folder: Path, prefix: str) -> Images | None:
    """``(n, 28, 28)`` uint8 images and labels from idx files, gzipped or not, with either spelling of their names."""
    files = []
    for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        names = [f"{prefix}-{kind}", f"{prefix}-{kind.replace('-idx', '.idx')}"]
        paths = [folder / (name + suffix) for name in names for suffix in ("", ".gz")]
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            return None
        files.append(idx(path))
    images, labels = files
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise InputError("data", f"images {images.shape} and labels {labels.shape}", "(n, rows, columns) and (n,)")
    return images, labels.astype(np.int64)


def load(folder: Path, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images ``(n, 3, 32, 32)`` in [−1, 1] with their class ids.

    From ``<name>/train.npz`` and ``<name>/test.npz``, or from the set's published files.

    Raises:
        InputError: Neither is there.
    """
    parts: list[Tensor] = []
    for split in ("train", "test"):
        images, labels = read_split(folder, name, split)
        x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
        if x.shape[-1] != 32:
            x = functional.interpolate(x, (32, 32), mode="area")
        parts += [x.contiguous(), torch.from_numpy(labels).long()]
    return parts[0], parts[1], parts[2], parts[3]


def thinned(labels: Tensor, keep: dict[int, int], seed: int) -> Tensor:
    """Positions with at most ``keep[label]`` of each label, drawn at random, in order."""
    generator = torch.Generator().manual_seed(seed)
    picked = []
    for label, count in keep.items():
        members = (labels == label).nonzero().squeeze(1)
        picked.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return torch.cat(picked).sort().values


def binary_parts(folder: Path, name: str, positives: float, seed: int, size: int | None) -> tuple[Split, Split, Split]:
    """Meng's binary task: half of the classes positive, negatives dropped until positives have the given share.

    Args:
        folder: Of the data sets.
        name: Key of `CLASSES`.
        positives: Share of positives in training and validation data; test data keeps all.
        seed: Of the draws.
        size: At most so many positives (None: all there are). A quarter of the thinned data is for validation.
    """
    x, y, test_x, test_y = load(folder, name)
    half = CLASSES[name] // 2
    y, test_y = (y < half).long(), (test_y < half).long()
    count = int(y.sum()) if size is None else min(size, int(y.sum()))
    rows = thinned(y, {1: count, 0: round(count * (1 - positives) / positives)}, seed)
    return (*_split(x[rows], y[rows], seed), Split(test_x, test_y))


def three_class_parts(folder: Path, name: str, drop: float, seed: int, size: int | None) -> tuple[Split, Split, Split]:
    """Meng's three-class task: classes grouped in three, a share ``drop`` of the first two groups left out."""
    x, y, test_x, test_y = load(folder, name)
    edges = torch.tensor({"stl10": [3, 6], "cifar10": [3, 6], "cifar100": [33, 66]}[name])
    y, test_y = torch.bucketize(y, edges, right=True), torch.bucketize(test_y, edges, right=True)
    least = int(torch.bincount(y).min())
    count = least if size is None else min(size, least)
    few = round(count * (1 - drop))
    rows = thinned(y, {0: few, 1: few, 2: count}, seed)
    return (*_split(x[rows], y[rows], seed), Split(test_x, test_y))


def _split(x: Tensor, y: Tensor, seed: int) -> tuple[Split, Split]:
    fit, judge = stratified(y, 0.25, seed)
    return Split(x[fit], y[fit]), Split(x[judge], y[judge])
