"""Arrays of an npz file as a source: which are features, which labels, which rows are set aside."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ..errors import InputError, nearest
from .columns.cells import Column, from_array
from .columns.frames import columns_of
from .labels import labels_of
from .source import Array, Source


def read_npz(path: Path, name: str, target: str | None, labelled: bool) -> Source:
    try:
        # Opened here: numpy leaves a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays: dict[str, Array] = {key: file[key] for key in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            "data", f"{path.name}, which cannot be read ({error})", "an npz file of plain arrays"
        ) from None
    arrays, target = _joined(arrays, target)
    key = _feature_key(path, arrays, target)
    features = arrays.pop(key)
    n = len(features)
    labels = None
    if target is not None and target in arrays:
        labels = _npz_labels(target, arrays.pop(target), n)
    elif labelled:
        one_each = [k for k, v in arrays.items() if v.shape[:1] == (n,)]
        raise InputError("target", repr(target), "the name of an array in the file", nearest(target or "y", one_each))
    images, columns = _features(path, features, arrays.pop("feature_names", None))
    source = Source(name, columns, images, labels)
    mask = arrays.get("train")
    if mask is not None and mask.dtype == bool and mask.shape == (n,) and not mask.all():
        source.test = ~arrays.pop("train")
        source.notes.append(f"the array 'train' of {path.name} sets {int(source.test.sum())} rows aside for testing")
    source.extras = {extra: from_array(extra, values) for extra, values in arrays.items() if values.shape == (n,)}
    return source


def _joined(arrays: dict[str, Array], target: str | None) -> tuple[dict[str, Array], str | None]:
    """``X_train``, ``y_train``, ``X_test``, ``y_test`` as one ``X``, one ``y`` and the mask ``train``."""
    parts = [part for part in ("train", "val", "valid", "test") if {f"X_{part}", f"y_{part}"} <= arrays.keys()]
    if "train" not in parts or (target is not None and target not in ("y", "y_train")):
        return arrays, target
    x, y = ([arrays[f"{name}_{part}"] for part in parts] for name in "Xy")
    if len({one.shape[1:] for one in x}) > 1 or any(len(a) != len(b) for a, b in zip(x, y, strict=True)):
        return arrays, target
    mask = np.concatenate([np.full(len(one), part != "test") for part, one in zip(parts, x, strict=True)])
    rest = {name: array for name, array in arrays.items() if name == "feature_names"}
    return {"X": np.concatenate(x), "y": np.concatenate(y), "train": mask, **rest}, "y"


def _feature_key(path: Path, arrays: dict[str, Array], target: str | None) -> str:
    for key in ("X", "x", "features", "images"):
        if key in arrays and key != target and arrays[key].ndim >= 2:
            return key
    wide = [key for key, value in arrays.items() if value.ndim >= 2 and key != target]
    if len(wide) != 1:
        found = ", ".join(f"{key} {value.shape}" for key, value in arrays.items()) or "nothing"
        raise InputError("data", f"{path.name} holding {found}", "an array 'X' of features, (n, d) or (n, h, w, c)")
    return wide[0]


def _npz_labels(target: str, values: Array, n: int) -> Array:
    if values.shape not in ((n,), (n, 1)):
        raise InputError("target", f"{target!r} of shape {values.shape}", f"one label per row, ({n},)")
    return labels_of(from_array(target, values.reshape(-1)))


def _features(path: Path, features: Array, names: Array | None) -> tuple[Array | None, dict[str, Column]]:
    if len(features) == 0:
        raise InputError("data", f"{path.name} with 0 rows", "at least a few dozen rows")
    if features.dtype.kind not in "biuf":
        raise InputError("data", f"features of type {features.dtype} in {path.name}", "numbers")
    if features.ndim > 2:
        images = features[..., None] if features.ndim == 3 else features
        if images.ndim != 4 or images.dtype != np.uint8 or images.shape[3] not in (1, 3, 4):
            raise InputError(
                "data", f"an array of shape {features.shape} and type {features.dtype}", "uint8 images (n, h, w, c)"
            )
        return images, {}
    columns = columns_of(features)
    titles = [str(one) for one in names] if names is not None and len(names) == features.shape[1] else []
    if len(set(titles)) != features.shape[1]:
        titles = list(columns)
    return None, dict(zip(titles, columns.values(), strict=True))
