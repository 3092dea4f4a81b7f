"""Where data comes from: a CSV, Parquet, Arrow or npz file, a folder of images, or a built-in set by name."""

from __future__ import annotations

import zipfile
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, nearest
from ...fitting.columns.cells import Column, from_array
from ...fitting.columns.frames import columns_of
from .images import read_folder
from .labels import labels_of
from .layouts import read_pictures
from .pictures import Pictures
from .tables import read_table

Array = NDArray[Any]
BUILT_IN = ("digits", "digits_imbalanced", "digits_high", "breast_cancer", "wine", "iris")

#: Groups that the report tells apart, at most.
MOST_IN_TABLE = 50
#: So many groups or more (patients, sites) are kept whole in every split; fewer (sexes, regions) could not be spread.
LEAST_WHOLE = 20


@dataclass
class Source:
    """Examples as they came, before any encoding.

    Attributes:
        name: Short name for folders and titles.
        columns: Feature columns of a table; empty for images.
        images: ``(n, h, w, c)`` uint8, all of one size, or None.
        pictures: Pictures that are read one by one, for a pretrained network, or None.
        labels: One label per row as text, or None when there is no target (prediction).
        row_names: What to call each row in predictions (image paths), or None for row numbers.
        test: True for rows that the data itself sets aside for testing, or None.
        groups: Group of each row for the group table, or None.
        queries: The query of each row as text, for ranked lists, or None.
        whole: Group of each row where rows of one group must stay in one part of every split, or None.
        extras: Further values per row that are not features (only from npz files).
        notes: Sentences about what was dropped or assumed.
        hashes: Of the pictures' contents, where they were computed.
        label_names: Of several labels at once, where ``labels`` is ``(n, l)``.
    """

    name: str
    columns: dict[str, Column]
    images: Array | None = None
    labels: Array | None = None
    row_names: list[str] | None = None
    test: Array | None = None
    groups: Array | None = None
    queries: Array | None = None
    whole: Array | None = None
    extras: dict[str, Column] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    hashes: list[str] | None = None
    label_names: list[str] = field(default_factory=list)
    pictures: Pictures | None = None

    def __len__(self) -> int:
        if self.pictures is not None:
            return len(self.pictures)
        return len(self.images) if self.images is not None else len(next(iter(self.columns.values())))

    @property
    def kind(self) -> str:
        """``table`` or ``pictures``."""
        return "table" if self.images is None and self.pictures is None else "pictures"

    def as_pictures(self) -> Pictures:
        if self.pictures is not None:
            return self.pictures
        assert self.images is not None
        names = self.row_names or [str(number) for number in range(len(self.images))]
        return Pictures(names, array=self.images)


def load(
    data: str,
    target: str | None,
    *,
    group: str | None = None,
    query: str | None = None,
    labelled: bool = True,
    encoding: str = "utf8",
    rows: int | None = None,
    image_size: int = 0,
    lazy: bool = False,
    skip_corrupt: bool = False,
    known: Container[str] = (),
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
        if lazy and path.suffix.lower() != ".npz":
            source = _lazy(path, target, labelled, encoding, rows, skip_corrupt, known)
        else:
            source = _from_path(path, target, labelled, encoding, rows, image_size)
    if lazy and source.images is not None:
        source.pictures, source.images = source.as_pictures(), None
    if group is not None:
        _take_group(source, group)
    if query is not None:
        _take_query(source, query, target)
    if source.labels is not None and source.labels.ndim == 1 and labelled:
        _drop_unlabelled(source)
    return source


def _near_file(path: Path) -> str:
    folder = path.parent
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    built_in = f"Built-in sets: {', '.join(BUILT_IN)}."
    return f"{nearest(path.name, names)} {built_in}" if names else built_in


def _lazy(
    path: Path,
    target: str | None,
    labelled: bool,
    encoding: str,
    rows: int | None,
    skip_corrupt: bool,
    known: Container[str],
) -> Source:
    found = read_pictures(
        path, target, labelled=labelled, encoding=encoding, rows=rows, skip_corrupt=skip_corrupt, known=known
    )
    source = Source(path.name.split(".")[0] or path.resolve().name, {}, pictures=found.pictures, labels=found.labels)
    source.row_names, source.test, source.notes = list(found.pictures.names), found.test, found.notes
    source.hashes, source.label_names = found.hashes, found.names
    return source


def _from_path(
    path: Path, target: str | None, labelled: bool, encoding: str, rows: int | None, image_size: int
) -> Source:
    name = path.name.split(".")[0] or path.name
    try:
        if path.is_dir():
            images, labels, files = read_folder(path, image_size, labelled=labelled)
            nested = all("/" in file for file in files)
            return Source(name, {}, images, labels if nested else None, files)
        if path.suffix.lower() == ".npz":
            return _read_npz(path, name, target, labelled)
        columns = read_table(path, encoding=encoding, rows=rows)
    except PermissionError:
        raise InputError("data", f"{path}, which may not be read", "a file you have permission to read") from None
    found = _take_target(columns, target, labelled)
    if not columns:
        raise InputError("data", f"{path.name} with no column but the target", "at least one feature column")
    return Source(name, columns, labels=found)


def _take_target(columns: dict[str, Column], target: str | None, labelled: bool) -> Array | None:
    if target is not None and target in columns:
        return labels_of(columns.pop(target))
    if not labelled:
        return None
    if target is None:
        raise InputError("target", "nothing", "the name of the column to predict", f"--target {list(columns)[-1]!r}?")
    raise InputError("target", repr(target), "a column of the table", nearest(target, columns))


def _read_npz(path: Path, name: str, target: str | None, labelled: bool) -> Source:
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
        source.columns = {title: column.take(keep) for title, column in columns.items()}
        source.labels = np.where(labels[keep] == "8", "1", "0").astype(object)
    if name == "digits_high":
        source.labels = np.where(labels.astype(int) >= 5, "5 to 9", "0 to 4").astype(object)
    return source


def groups_of(columns: dict[str, Column], group: str, most: int | None = MOST_IN_TABLE) -> Array:
    """The group of each row, by the values of a column. Raises `InputError` for no such column, or too many values."""
    if group not in columns:
        raise InputError("group", repr(group), "a column of the data", nearest(group, columns))
    groups = np.array(["(missing)" if one is None else one for one in columns[group].texts()], dtype=object)
    if most is not None and len(set(groups)) > most:
        raise InputError("group", f"{group!r} with {len(set(groups))} values", f"a column with at most {most} values")
    return groups


def _take_group(source: Source, group: str) -> None:
    """Few groups are for the report alone, many are kept whole in every split."""
    values = groups_of({**source.extras, **source.columns}, group, most=None)
    count = len(set(values))
    if count <= MOST_IN_TABLE:
        source.groups = values
    if count < LEAST_WHOLE:
        source.notes.append(f"{group!r} has {count} values: rates are broken down by it, and splits do not look at it")
        return
    source.whole = values
    source.notes.append(f"rows of one {group!r} stay together in test rows and folds ({count} groups)")


def _take_query(source: Source, query: str, target: str | None) -> None:
    """The query column is what holds a list together, never a feature: a new query has a new name."""
    known = {**source.extras, **source.columns}
    if source.images is not None:
        raise InputError("--query", repr(query), "a column of a table, not pictures")
    if query == target:
        raise InputError("--query", f"{query!r}, which is the target", "the column that names the query of each row")
    if query not in known:
        raise InputError("--query", repr(query), "a column of the data", nearest(query, known))
    source.queries = np.array(known[query].texts(), dtype=object)
    source.columns.pop(query, None)
    if not source.columns:
        raise InputError("data", "no column but the target and the query", "at least one feature column")


def _drop_unlabelled(source: Source) -> None:
    assert source.labels is not None
    known = np.array([label is not None for label in source.labels], dtype=bool)
    if not known.any():
        raise InputError("target", "a column without a single value", "a label in at least some rows")
    if not known.all():
        source.notes.append(f"{int((~known).sum())} rows without a target were left out")
    if source.queries is not None:
        named = np.array([one is not None for one in source.queries], dtype=bool)
        if not named.any():
            raise InputError("--query", "a column without a single value", "a query for at least some rows")
        if not named.all():
            source.notes.append(f"{int((~named).sum())} rows without a query were left out")
        known &= named
    if known.all():
        return
    source.labels = source.labels[known]
    source.columns = {name: column.take(known) for name, column in source.columns.items()}
    if source.images is not None:
        source.images = source.images[known]
    if source.pictures is not None:
        source.pictures = source.pictures.take(np.flatnonzero(known).tolist())
        source.hashes = None
    for part in ("test", "groups", "queries", "whole"):
        value = getattr(source, part)
        if value is not None:
            setattr(source, part, value[known])
    if source.row_names is not None:
        source.row_names = [name for name, keep in zip(source.row_names, known, strict=True) if keep]
