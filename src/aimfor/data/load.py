"""Reads whatever holds the data: a CSV, Parquet, Arrow or npz file, a folder of images, or a built-in set by name."""

from __future__ import annotations

import zipfile
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, nearest
from .columns.cells import Array, Column, columns_of, from_array
from .labelled_pictures import read_pictures
from .pictures import SUFFIXES
from .settings import Settings
from .source import Source, drop_unlabelled, groups_of, take_cluster, take_query, take_time, target_of
from .tables import check_size, read_table

BUILT_IN = ("digits", "digits_imbalanced", "digits_high", "breast_cancer", "wine", "iris")
#: Pixels of a side at most, unless the user says more: what the small network sees of a photo.
SIDE_AT_MOST = 64


def load(
    data: str,
    target: str | None,
    *,
    labelled: bool = True,
    encoding: str = "utf8",
    rows: int | None = None,
    image_size: int = 0,
    lazy: bool = False,
    skip_corrupt: bool = False,
    decoded: Container[str] = (),
) -> Source:
    """Reads any kind of source. With ``labelled=False`` a missing target is no error.

    ``lazy`` pictures are not read into memory: a pretrained network sees them one by one. What cannot be read is left
    out with ``skip_corrupt``, and named; pictures whose hash is in ``decoded`` are not decoded to find that out.

    Raises:
        InputError: Whatever is wrong with the file or the target, in one sentence.
    """
    path = Path(data)
    if data in BUILT_IN and not path.exists():
        source = _built_in(data, target)
    elif not path.exists():
        raise InputError("data", f"{data}, which does not exist", "a file or folder", _near_file(path))
    elif path.is_dir() or path.suffix.lower() in SUFFIXES or (lazy and path.suffix.lower() != ".npz"):
        how: dict[str, Any] = {"labelled": labelled, "encoding": encoding, "rows": rows}
        source = read_pictures(path, target, **how, skip_corrupt=skip_corrupt, decoded=decoded)
        if not lazy:
            _into_memory(source, path, image_size)
    else:
        source = _from_path(path, target, labelled, encoding, rows)
    if lazy and source.images is not None:
        source.pictures, source.images = source.as_pictures(), None
    if labelled:
        drop_unlabelled(source)
    return source


def take_roles(source: Source, settings: Settings) -> None:
    """Rows of a test file, groups, clusters, moments and queries, as the settings name them.

    Raises:
        InputError: No such file or column, or one that cannot have that role.
    """
    if settings.test is not None:
        _add_test(source, settings.test, settings.target, settings.encoding)
    if settings.group is not None:
        source.groups = groups_of(source.named, settings.group)
    if settings.cluster is not None:
        take_cluster(source, settings.cluster)
    if settings.time is not None:
        take_time(source, settings.time)
    if settings.query is not None:
        take_query(source, settings.query, settings.target)
    drop_unlabelled(source)


def _add_test(source: Source, test: str, target: str | None, encoding: str) -> None:
    """The rows of a further file, as those that the data sets aside for testing."""
    if source.kind != "table" or source.labels is None or source.test is not None:
        came = f"{test} beside data that is no table or has test rows of its own"
        raise InputError("--test", came, "a table without test rows", "Leave it out.")
    if not Path(test).is_file():
        raise InputError("--test", f"{test}, which is no file", "a table of test rows", _near_file(Path(test)))
    more = _from_path(Path(test), target, True, encoding, None)
    absent = next((name for name in source.columns if name not in more.columns), None)
    if absent is not None:
        came = f"{test} without the column {absent!r}"
        raise InputError("--test", came, "the columns of the training rows", nearest(absent, more.columns))
    assert more.labels is not None
    n = len(source)
    source.columns = {name: column.followed_by(more.columns[name]) for name, column in source.columns.items()}
    source.labels = np.concatenate((source.labels, more.labels))
    source.test = np.arange(len(source.labels)) >= n


def _near_file(path: Path) -> str:
    folder = path.parent
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    built_in = f"Built-in sets: {', '.join(BUILT_IN)}."
    return f"{nearest(path.name, names)} {built_in}" if names else built_in


def _into_memory(source: Source, path: Path, size: int) -> None:
    """Pixels ``(n, side, side, 3)``: ``size``, or for 0 the larger side of the first picture, at most 64."""
    pictures = source.pictures
    assert pictures is not None
    side = size or min(SIDE_AT_MOST, max(pictures.open(0).size))
    check_size(path, len(pictures) * side * side * 3 * 2)
    source.images = np.stack([pictures.square(row, side) for row in range(len(pictures))])
    source.pictures = None


def _from_path(path: Path, target: str | None, labelled: bool, encoding: str, rows: int | None) -> Source:
    name = path.name.split(".")[0] or path.name
    try:
        if path.suffix.lower() == ".npz":
            return _read_npz(path, name, target, labelled)
        columns = read_table(path, encoding=encoding, rows=rows)
    except PermissionError:
        raise InputError("data", f"{path}, which may not be read", "a file you have permission to read") from None
    labels = target_of(columns, target).labels() if labelled or target in columns else None
    if not columns:
        raise InputError("data", f"{path.name} with no column but the target", "at least one feature column")
    return Source(name, columns, labels=labels)


def _built_in(name: str, target: str | None) -> Source:
    from sklearn import datasets

    base = name.removesuffix("_imbalanced").removesuffix("_high")
    bunch: Any = getattr(datasets, f"load_{base}")()
    labels = np.array([str(bunch.target_names[i]) for i in bunch.target], dtype=object)
    columns = {str(title): from_array(title, bunch.data[:, i]) for i, title in enumerate(bunch.feature_names)}
    if target is not None and target not in ("target", "y", "label"):
        raise InputError("target", repr(target), f"'target' (or nothing) for the built-in set {name}")
    source = Source(name, columns, labels=labels)
    if name == "digits_imbalanced":
        # The digit 8 against all others, every other eight left out: about one positive in twenty.
        keep = np.ones(len(labels), dtype=bool)
        keep[np.flatnonzero(labels == "8")[::2]] = False
        source.labels = np.where(labels == "8", "1", "0").astype(object)
        source.take(np.flatnonzero(keep))
    if name == "digits_high":
        source.labels = np.where(labels.astype(int) >= 5, "5 to 9", "0 to 4").astype(object)
    return source


def _read_npz(path: Path, name: str, target: str | None, labelled: bool) -> Source:
    try:
        # Opened here: numpy leaves a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays: dict[str, Array] = {key: file[key] for key in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            "data", f"{path.name}, which cannot be read ({error})", "an npz file of plain arrays"
        ) from None
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


def _feature_key(path: Path, arrays: dict[str, Array], target: str | None) -> str:
    for key in ("X", "x", "features", "images"):
        if key in arrays and key != target and arrays[key].ndim >= 2:
            return key
    wide = [key for key, value in arrays.items() if value.ndim >= 2 and key != target]
    if len(wide) != 1:
        names = ", ".join(f"{key} {value.shape}" for key, value in arrays.items()) or "nothing"
        raise InputError("data", f"{path.name} holding {names}", "an array 'X' of features, (n, d) or (n, h, w, c)")
    return wide[0]


def _npz_labels(target: str, values: Array, n: int) -> Array:
    if values.shape not in ((n,), (n, 1)):
        raise InputError("target", f"{target!r} of shape {values.shape}", f"one label per row, ({n},)")
    return from_array(target, values.reshape(-1)).labels()


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
    titles = [str(name) for name in names] if names is not None and len(names) == features.shape[1] else []
    if len(set(titles)) != features.shape[1]:
        titles = list(columns)
    return None, dict(zip(titles, columns.values(), strict=True))
