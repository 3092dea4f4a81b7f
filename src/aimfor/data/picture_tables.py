"""Tables and COCO files that say where pictures are and what is on them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, nearest
from .columns.cells import Column
from .labels import labels_of
from .pictures import SUFFIXES, Pictures
from .tables import read_table

Array = NDArray[Any]
Rows = tuple[Pictures, Array | None, list[str]]
_ON, _OFF = ("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f", "-1")


def table_rows(path: Path, target: str | None, *, labelled: bool, encoding: str, rows: int | None) -> Rows:
    """Pictures of a column of paths, relative to the table's folder.

    ``target`` is one column of classes, or several of yes and no, separated by commas.

    Raises:
        InputError: No column of paths, a path out of the folder, a file that is not there, no such target.
    """
    columns = read_table(path, encoding=encoding, rows=rows)
    found = path_column(columns)
    if found is None:
        raise InputError(
            "data", f"{path.name} without a column of picture files", f"paths such as cat{SUFFIXES[1]}",
            "A pretrained network (--model) is for pictures; leave it out for a table.",
        )  # fmt: skip
    pictures = inside(path.parent, [one or "" for one in columns[found].texts()])
    if not labelled:
        return pictures, None, []
    names = [one.strip() for one in target.split(",")] if target else []
    if not names:
        others = [name for name in columns if name != found]
        raise InputError("target", "nothing", "the name of the column to predict", f"Columns: {', '.join(others[:8])}.")
    if target in columns:
        return pictures, labels_of(columns[target]), []
    unknown = next((name for name in names if name not in columns), None)
    if unknown is not None:
        raise InputError("target", repr(unknown), "a column of the table", nearest(unknown, columns))
    return pictures, np.stack([_yes_or_no(name, columns[name]) for name in names], axis=1), names


def path_column(columns: dict[str, Column]) -> str | None:
    """The first column whose every value ends as a picture's file does."""
    for name, column in columns.items():
        texts = [one for one in column.texts() if one]
        if texts and all(one.lower().endswith(SUFFIXES) for one in texts):
            return name
    return None


def inside(folder: Path, names: list[str]) -> Pictures:
    """Files of the folder; whatever would leave it is refused, also by links."""
    root, files = folder.resolve(), []
    for name in names:
        if not name:
            raise InputError("data", "an empty path", "the file of every picture")
        path = folder / name
        if Path(name).is_absolute() or not path.resolve().is_relative_to(root):
            raise InputError("data", f"the path {name}", f"a file inside {folder.resolve().name}")
        if not path.is_file():
            raise InputError("data", f"{name}, which is not in {folder.resolve().name}", "a file that exists")
        files.append(path)
    return Pictures(list(names), files)


def _yes_or_no(name: str, column: Column) -> Array:
    """ "1", "0", or None where it is not known."""
    found: list[str | None] = []
    for value in labels_of(column):
        word = None if value is None else value.lower()
        if word is not None and word not in (*_ON, *_OFF):
            raise InputError("target", f"{value!r} in the column {name}", "1 or 0 for each of several labels")
        found.append(None if word is None else "1" if word in _ON else "0")
    return np.array(found, dtype=object)


def coco_rows(path: Path, labelled: bool) -> Rows:
    """Pictures and categories of a COCO file. One category each makes classes, else they are labels of yes and no.

    Files are looked for beside the JSON file and in ``images`` there.

    Raises:
        InputError: Not COCO, or a picture that is not there.
    """
    document = coco(path)
    names = {one["id"]: str(one["name"]) for one in document["categories"]}
    on: dict[Any, set[str]] = defaultdict(set)
    for one in document["annotations"]:
        if one["category_id"] not in names:
            raise InputError("data", f"the category {one['category_id']} in {path.name}", "one of its categories")
        on[one["image_id"]].add(names[one["category_id"]])
    files = [str(one["file_name"]) for one in document["images"]]
    beside = path.parent / "images"
    pictures = inside(beside if beside.is_dir() and not (path.parent / files[0]).exists() else path.parent, files)
    sets = [on[one["id"]] for one in document["images"]]
    if not labelled:
        return pictures, None, []
    if all(len(one) == 1 for one in sets):
        return pictures, np.array([next(iter(one)) for one in sets], dtype=object), []
    known = sorted(set().union(*sets))
    if not known:
        raise InputError("data", f"{path.name} without annotations", "categories of the pictures")
    return pictures, np.array([["1" if one in each else "0" for one in known] for each in sets], dtype=object), known


def coco(path: Path) -> dict[str, Any]:
    """The document, with images, annotations and categories in it."""
    try:
        document = json.loads(path.read_text(encoding="utf8"))
        fine = all(isinstance(document[key], list) for key in ("images", "annotations", "categories"))
        fine = fine and all("id" in one and "file_name" in one for one in document["images"])
        fine = fine and all({"image_id", "category_id"} <= one.keys() for one in document["annotations"])
        fine = fine and all({"id", "name"} <= one.keys() for one in document["categories"]) and document["images"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fine = False
    if not fine:
        raise InputError("data", f"{path.name}, which is no COCO file", "images, annotations and categories")
    return dict(document)
