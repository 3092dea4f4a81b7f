"""Image sets in the formats they are published in: CIFAR's python batches, STL-10's binaries, MNIST's idx files.

A user who has the full sets points ``--data`` at them; the small ``.npz`` copies are looked for first.
"""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.errors import InputError

from .tables import arrays

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
    found = published(folder, name, split)
    if found is None:
        remedy = f"Give the folder that holds {name}/{split}.npz or the set's published files."
        raise InputError("data", f"{folder}, without {name} ({split})", "a folder that holds it", remedy)
    return found


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
        parts = [folder / "stl10_binary" / f"{split}_{part}.bin" for part in ("X", "y")]
        return stl10_binary(*parts) if all(path.exists() for path in parts) else None
    if name == "mnist":
        return _mnist(folder / "mnist", "train" if split == "train" else "t10k")
    return None


def _mnist(folder: Path, prefix: str) -> Images | None:
    """``(n, 28, 28)`` uint8 images and labels from idx files, gzipped or not, with either spelling of their names."""
    found = []
    for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        names = [f"{prefix}-{kind}", f"{prefix}-{kind.replace('-idx', '.idx')}"]
        paths = [folder / (name + suffix) for name in names for suffix in ("", ".gz")]
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            return None
        found.append(idx(path))
    images, labels = found
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise InputError("data", f"images {images.shape} and labels {labels.shape}", "(n, rows, columns) and (n,)")
    return images, labels.astype(np.int64)
