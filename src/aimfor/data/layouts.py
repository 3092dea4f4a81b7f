"""Where pictures and their labels are: class folders, train and test folders, names, a table of paths, a COCO file.

::

    photos/cat/1.jpg, photos/dog/7.jpg                      one folder a class
    photos/train/cat/1.jpg, photos/test/dog/7.jpg           parts, then classes (val is training data)
    photos/cat.1.jpg, photos/dog_7.jpg                      the class begins the name
    photos.csv                                              a column of paths, one or several of labels
    annotations.json                                        COCO: images, annotations, categories
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container
from pathlib import Path

import numpy as np

from ..errors import InputError
from .picture_tables import coco_rows, table_rows
from .pictures import SUFFIXES, Pictures, digest, image_files
from .source import Source

Words = tuple[str, ...]
TRAIN: Words = ("train", "training")
VALIDATION: Words = ("val", "valid", "validation")
TEST: Words = ("test", "testing")
_NUMBERED = re.compile(r"^(.*?[^\d._\- (])[._\- ]*\(?\d+\)?$")


def read_pictures(
    path: Path,
    target: str | None,
    *,
    labelled: bool = True,
    encoding: str = "utf8",
    rows: int | None = None,
    skip_corrupt: bool = False,
    known: Container[str] = (),
) -> Source:
    """All pictures of a folder, a table or a COCO file, by reference, every one of them readable.

    Several labels at once are ``(n, l)`` of "1", "0" and None (unknown).

    Those whose hash is ``known`` have been read before and are not decoded again.

    Raises:
        InputError: No pictures, no labels, a file that cannot be read, the same picture in two classes.
    """
    found = Source(path.name.split(".")[0] or path.resolve().name, {})
    if path.is_dir():
        _folder(found, path, labelled)
    elif path.suffix.lower() in SUFFIXES:
        if labelled:
            raise InputError("data", f"one picture, {path.name}", "a folder of pictures, or a table of their paths")
        found.pictures = Pictures([path.name], [path])
    elif path.suffix.lower() == ".json":
        found.pictures, found.labels, found.label_names = coco_rows(path, labelled)
    else:
        found.pictures, found.labels, found.label_names = table_rows(
            path, target, labelled=labelled, encoding=encoding, rows=rows
        )
    found.row_names = list(found.as_pictures().names)
    _read_all(found, skip_corrupt, known)
    if labelled:
        _refuse_contradictions(found)
    return found


def _folder(found: Source, folder: Path, labelled: bool) -> None:
    files = image_files(folder)
    if not files:
        raise InputError("data", f"the folder {folder.name} without images", f"files such as {', '.join(SUFFIXES[:3])}")
    found.pictures = Pictures([str(path.relative_to(folder)) for path in files], files)
    parts = [path.relative_to(folder).parts for path in files]
    first = {one[0].lower() for one in parts if len(one) > 1}
    if any(len(one) == 1 for one in parts):
        _by_name(found, folder, labelled, [one[0] for one in parts if len(one) == 1])
    elif first <= {*TRAIN, *VALIDATION, *TEST} and first & set(TRAIN) and all(len(one) > 2 for one in parts):
        _by_part(found, parts)
    else:
        found.labels = np.array([one[0] for one in parts], dtype=object)


def _by_part(found: Source, parts: list[tuple[str, ...]]) -> None:
    places = [one[0].lower() for one in parts]
    aside = TEST if set(places) & set(TEST) else VALIDATION  # what is there to test on
    found.labels = np.array([one[1] for one in parts], dtype=object)
    test = np.array([place in aside for place in places])
    if test.any():
        found.test = test
        found.notes.append(f"{int(test.sum())} pictures in {aside[0]}/ are set aside for testing")


def _by_name(found: Source, folder: Path, labelled: bool, loose: list[str]) -> None:
    """The class begins the name: ``cat.12.jpg``."""
    matches = [_NUMBERED.match(Path(name).stem) for name in found.as_pictures().names]
    classes = Counter(match.group(1) for match in matches if match)
    plain = len(loose) == len(matches) and all(matches)
    if plain and len(classes) >= 2 and len(classes) <= 0.2 * len(matches) + 2 and min(classes.values()) >= 2:
        found.labels = np.array([match.group(1) for match in matches if match], dtype=object)
        found.notes.append("classes are taken from the file names: " + ", ".join(sorted(classes)[:8]))
    elif labelled:
        raise InputError(
            "data",
            f"the image {loose[0]} directly in {folder.name}",
            "one subfolder of images per class, or names such as cat.1.jpg and dog.7.jpg",
            "Move the images into subfolders named after their class.",
        )


def _read_all(found: Source, skip_corrupt: bool, known: Container[str]) -> None:
    """Opens every picture once and keeps the hash of its content."""
    bad: dict[int, InputError] = {}
    pictures, found.hashes = found.as_pictures(), list[str]()
    for row in range(len(pictures)):
        try:
            content = pictures.content(row)
            found.hashes.append(digest(content))
            if found.hashes[-1] not in known:
                pictures.open(row, content)
        except InputError as error:
            if not skip_corrupt:
                raise
            bad[row] = error
            found.hashes += [""] * (row + 1 - len(found.hashes))
    if bad:
        some = "; ".join(f"{error.came}" for error in list(bad.values())[:5])
        found.notes.append(f"{len(bad)} pictures left out: {some}{'; …' if len(bad) > 5 else ''}")
        found.take([row for row in range(len(found)) if row not in bad])
    if not len(found):
        raise InputError("data", "no readable picture", "pictures")


def _refuse_contradictions(found: Source) -> None:
    """The same content with two labels is refused; in training and test it stays in test only; else it counts once."""
    assert found.labels is not None
    assert found.hashes is not None
    pictures = found.as_pictures()
    places: dict[str, list[int]] = defaultdict(list)
    for row, one in enumerate(found.hashes):
        places[one].append(row)
    left_out: list[int] = []
    for rows in places.values():
        names = [pictures.names[row] for row in rows]
        for row, name in zip(rows[1:], names[1:], strict=True):
            if np.any(found.labels[row] != found.labels[rows[0]]):
                came = f"{names[0]} and {name}, the same picture as {_said(found, rows[0])} and {_said(found, row)}"
                raise InputError("data", came, "one label for one picture", "Remove or relabel one of them.")
        tested = [row for row in rows if found.test is not None and found.test[row]]
        left_out += [row for row in rows if row != (tested or rows)[0]]
    if left_out:
        some = ", ".join(pictures.names[row] for row in sorted(left_out)[:5])
        found.notes.append(f"{len(left_out)} pictures that occur twice are left out: {some}")
        gone = set(left_out)
        found.take([row for row in range(len(found)) if row not in gone])


def _said(found: Source, row: int) -> str:
    assert found.labels is not None
    one = found.labels[row]
    if found.labels.ndim == 1:
        return repr(one)
    return repr([name for name, value in zip(found.label_names, one, strict=True) if value == "1"])
