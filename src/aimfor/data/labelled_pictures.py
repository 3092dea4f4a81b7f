"""Where pictures and their labels are: class folders, train and test folders, or a table of paths.

::

    photos/cat/1.jpg, photos/dog/7.jpg                      one folder a class
    photos/train/cat/1.jpg, photos/test/dog/7.jpg           parts, then classes (val is training data)
    photos.csv                                              a column of paths, one or several of labels
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from pathlib import Path

import numpy as np

from ..errors import InputError, nearest
from .columns.cells import Array, Column
from .pictures import SUFFIXES, Pictures, digest, image_files
from .source import Source
from .tables import read_table

TRAIN, VALIDATION, TEST = {"train", "training"}, {"val", "valid", "validation"}, {"test", "testing"}
_ON, _OFF = ("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f", "-1")


def read_pictures(
    path: Path,
    target: str | None,
    *,
    labelled: bool = True,
    encoding: str = "utf8",
    rows: int | None = None,
    skip_corrupt: bool = False,
    decoded: Container[str] = (),
) -> Source:
    """All pictures of a folder or a table, by reference, every one of them readable.

    Several labels at once are ``(n, l)`` of "1", "0" and None (unknown). Pictures whose hash is in ``decoded`` have
    been read before and are not decoded again.

    Raises:
        InputError: No pictures, no labels, a file that cannot be read, the same picture in two classes.
    """
    source = Source(path.name.split(".")[0] or path.resolve().name, {})
    if path.is_dir():
        _read_folder(source, path, labelled)
    elif path.suffix.lower() in SUFFIXES:
        if labelled:
            raise InputError("data", f"one picture, {path.name}", "a folder of pictures, or a table of their paths")
        source.pictures = Pictures([path.name], [path])
    else:
        columns = read_table(path, encoding=encoding, rows=rows)
        _read_rows(source, path, columns, target, labelled)
    source.row_names = list(source.as_pictures().names)
    _read_all(source, skip_corrupt, decoded)
    if labelled:
        _refuse_contradictions(source)
    return source


def _read_folder(source: Source, folder: Path, labelled: bool) -> None:
    files = image_files(folder)
    if not files:
        raise InputError("data", f"the folder {folder.name} without images", f"files such as {', '.join(SUFFIXES[:3])}")
    source.pictures = Pictures([str(path.relative_to(folder)) for path in files], files)
    paths = [path.relative_to(folder).parts for path in files]
    loose = next((names[0] for names in paths if len(names) == 1), None)
    if loose is not None:
        if labelled:
            came = f"the image {loose} directly in {folder.name}"
            remedy = "Move the images into subfolders named after their class."
            raise InputError("data", came, "one subfolder of images per class", remedy)
        return
    first = [names[0].lower() for names in paths]
    if set(first) <= TRAIN | VALIDATION | TEST and TRAIN & set(first) and all(len(names) > 2 for names in paths):
        aside = "test" if TEST & set(first) else "val"  # what is there to test on
        source.labels = np.array([names[1] for names in paths], dtype=object)
        test = np.array([name in (TEST if aside == "test" else VALIDATION) for name in first])
        if test.any():
            source.test = test
            source.notes.append(f"{int(test.sum())} pictures in {aside}/ are set aside for testing")
    else:
        source.labels = np.array([names[0] for names in paths], dtype=object)


def _read_rows(source: Source, path: Path, columns: dict[str, Column], target: str | None, labelled: bool) -> None:
    """Pictures of a column of paths, relative to the table's folder.

    ``target`` is one column of classes, or several of yes and no, separated by commas.

    Raises:
        InputError: No column of paths, a path out of the folder, a file that is not there, no such target.
    """
    files = next((name for name, column in columns.items() if _holds_paths(column)), None)
    if files is None:
        raise InputError(
            "data", f"{path.name} without a column of picture files", f"paths such as cat{SUFFIXES[1]}",
            "A pretrained network (--model) is for pictures; leave it out for a table.",
        )  # fmt: skip
    source.pictures = _inside(path.parent, [name or "" for name in columns[files].texts()])
    if not labelled:
        return
    targets = [name.strip() for name in target.split(",")] if target else []
    if not targets:
        others = [name for name in columns if name != files]
        raise InputError("target", "nothing", "the name of the column to predict", f"Columns: {', '.join(others[:8])}.")
    if target in columns:
        source.labels = columns[target].labels()
        return
    unknown = next((name for name in targets if name not in columns), None)
    if unknown is not None:
        raise InputError("target", repr(unknown), "a column of the table", nearest(unknown, columns))
    source.labels = np.stack([_yes_or_no(name, columns[name]) for name in targets], axis=1)
    source.label_names = targets


def _holds_paths(column: Column) -> bool:
    """Whether every value ends as a picture's file does."""
    _, texts = column.distinct() if column.kind == "text" else ((), [])
    return bool(texts) and all(text.lower().endswith(SUFFIXES) for text in texts)


def _inside(folder: Path, names: list[str]) -> Pictures:
    """Files of the folder; whatever would leave it is refused, also by links."""
    root, files = folder.resolve(), []
    for name in names:
        if not name:
            raise InputError("data", "an empty path", "the file of every picture")
        path = folder / name
        if Path(name).is_absolute() or not path.resolve().is_relative_to(root):
            raise InputError("data", f"the path {name}", f"a file inside {root.name}")
        if not path.is_file():
            raise InputError("data", f"{name}, which is not in {root.name}", "a file that exists")
        files.append(path)
    return Pictures(list(names), files)


def _yes_or_no(name: str, column: Column) -> Array:
    """ "1", "0", or None where it is not known."""
    labels = column.labels()
    strange = next((text for text in labels if text is not None and text.lower() not in _ON + _OFF), None)
    if strange is not None:
        raise InputError("target", f"{strange!r} in the column {name}", "1 or 0 for each of several labels")
    return np.array([None if text is None else "1" if text.lower() in _ON else "0" for text in labels], dtype=object)


def _read_all(source: Source, skip_corrupt: bool, decoded: Container[str]) -> None:
    """Opens every picture once and keeps the hash of its content."""
    errors: dict[int, InputError] = {}
    pictures, source.hashes = source.as_pictures(), [""] * len(source)
    for row in range(len(pictures)):
        try:
            content = pictures.content(row)
            source.hashes[row] = digest(content)
            if source.hashes[row] not in decoded:
                pictures.open(row, content)
        except InputError as error:
            if not skip_corrupt:
                raise
            errors[row] = error
    if errors:
        some = "; ".join(error.came for error in list(errors.values())[:5])
        source.notes.append(f"{len(errors)} pictures left out: {some}{'; …' if len(errors) > 5 else ''}")
        source.take([row for row in range(len(source)) if row not in errors])
    if not len(source):
        raise InputError("data", "no readable picture", "pictures")


def _refuse_contradictions(source: Source) -> None:
    """The same content with two labels is refused; in training and test it stays in test only; else it counts once."""
    assert source.labels is not None
    assert source.hashes is not None
    names, copies = source.as_pictures().names, defaultdict(list)
    for row, content in enumerate(source.hashes):
        copies[content].append(row)
    left_out: set[int] = set()
    for first, *others in copies.values():
        for row in others:
            if np.any(source.labels[row] != source.labels[first]):
                labels = f"{_label_of(source, first)} and {_label_of(source, row)}"
                came = f"{names[first]} and {names[row]}, the same picture as {labels}"
                raise InputError("data", came, "one label for one picture", "Remove or relabel one of them.")
        kept = next((row for row in (first, *others) if source.test is not None and source.test[row]), first)
        left_out |= {first, *others} - {kept}
    if left_out:
        some = ", ".join(names[row] for row in sorted(left_out)[:5])
        source.notes.append(f"{len(left_out)} pictures that occur twice are left out: {some}")
        source.take([row for row in range(len(source)) if row not in left_out])


def _label_of(source: Source, row: int) -> str:
    assert source.labels is not None
    if source.labels.ndim == 1:
        return repr(source.labels[row])
    return repr([name for name, value in zip(source.label_names, source.labels[row], strict=True) if value == "1"])
