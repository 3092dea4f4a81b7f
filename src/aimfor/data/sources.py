"""Where data comes from: a CSV, Parquet, Arrow or npz file, a folder of images, or a built-in set by name."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, nearest
from .columns.cells import from_array
from .labels import labels_of
from .layouts import read_pictures
from .npz import read_npz
from .pictures import SUFFIXES
from .source import Source, drop_unlabelled, groups_of, take_cluster, take_query, take_time, target_of
from .tables import check_size, read_table

BUILT_IN = ("digits", "digits_imbalanced", "digits_high", "breast_cancer", "wine", "iris")


def load(
    data: str,
    target: str | None,
    *,
    group: str | None = None,
    cluster: str | None = None,
    query: str | None = None,
    labelled: bool = True,
    encoding: str = "utf8",
    rows: int | None = None,
    image_size: int = 0,
    lazy: bool = False,
    skip_corrupt: bool = False,
    known: Container[str] = (),
    test: str | None = None,
    time: str | None = None,
) -> Source:
    """Reads any kind of source. With ``labelled=False`` a missing target is no error.

    ``lazy`` pictures are not read into memory: a pretrained network sees them one by one. What cannot be read is left
    out with ``skip_corrupt``, and named; what is ``known`` by its hash is not decoded to find that out.

    Raises:
        InputError: Whatever is wrong with the file or the column names, in one sentence.
    """
    if data in BUILT_IN and not Path(data).exists():
        source = _built_in(data, target)
    else:
        path = Path(data)
        if not path.exists():
            raise InputError("data", f"{data}, which does not exist", "a file or folder", _near_file(path))
        pictures = path.is_dir() or path.suffix.lower() in SUFFIXES
        if pictures or (lazy and path.suffix.lower() != ".npz"):
            how: dict[str, Any] = {"labelled": labelled, "encoding": encoding, "rows": rows}
            source = read_pictures(path, target, **how, skip_corrupt=skip_corrupt, known=known)
            if not lazy:
                _into_memory(source, path, image_size)
        else:
            source = _from_path(path, target, labelled, encoding, rows)
    if test is not None:
        _add_test(source, test, target, encoding)
    if lazy and source.images is not None:
        source.pictures, source.images = source.as_pictures(), None
    if group is not None:
        source.groups = groups_of(source.named, group)
    if cluster is not None:
        take_cluster(source, cluster)
    if time is not None:
        take_time(source, time)
    if query is not None:
        take_query(source, query, target)
    if source.labels is not None and source.labels.ndim == 1 and labelled:
        drop_unlabelled(source)
    return source


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
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    built_in = f"Built-in sets: {', '.join(BUILT_IN)}."
    return f"{nearest(path.name, names)} {built_in}" if names else built_in


#: Pixels of a side at most, unless the user says more: what the small network sees of a photo.
SIDE_AT_MOST = 64


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
            return read_npz(path, name, target, labelled)
        columns = read_table(path, encoding=encoding, rows=rows)
    except PermissionError:
        raise InputError("data", f"{path}, which may not be read", "a file you have permission to read") from None
    found = labels_of(target_of(columns, target)) if labelled or target in columns else None
    if not columns:
        raise InputError("data", f"{path.name} with no column but the target", "at least one feature column")
    return Source(name, columns, labels=found)


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
