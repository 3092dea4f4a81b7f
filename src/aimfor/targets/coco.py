"""Masks in a COCO file: polygons and run-length codes, drawn as class ids.

Of objects that overlap the smaller one is seen. Regions marked ``iscrowd`` do not count. Class 0 is what nobody marked;
the categories follow in the order of their ids.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.picture_tables import coco, inside
from ..data.pictures import MOST_PIXELS, Pictures
from ..errors import InputError

Mask = NDArray[np.bool_]
#: Id of the pixels that do not count.
IGNORED = 255
BACKGROUND = "background"


@dataclass(frozen=True)
class Shapes:
    """The objects of one picture.

    Attributes:
        name: Of the picture, for messages.
        size: Height and width.
        objects: Class id and segmentation of each, in the order they are drawn.
    """

    name: str
    size: tuple[int, int]
    objects: list[tuple[int, Any]]

    def values(self) -> NDArray[np.int64]:
        """``(h, w)`` class ids. Raises `InputError` for a segmentation that is none."""
        found = np.zeros(self.size, dtype=np.int64)
        for number, segmentation in self.objects:
            try:
                found[drawn(segmentation, self.size)] = number
            except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
                raise InputError(
                    "--masks", f"a segmentation of {self.name} ({error})", "polygons, or counts with a size"
                ) from None
        return found


def coco_scenes(folder: Path, path: Path) -> tuple[Pictures, list[Shapes], list[str], list[str]]:
    """Pictures of the folder that the file lists, their objects, names of classes, and notes.

    Raises:
        InputError: Not COCO, a picture that is not there, categories without annotations of any shape.
    """
    document = coco(path)
    categories = sorted(document["categories"], key=lambda one: one["id"])
    numbers = {one["id"]: place for place, one in enumerate(categories, 1)}
    if not categories or len(categories) >= IGNORED:
        raise InputError("--masks", f"{len(categories)} categories in {path.name}", f"between 1 and {IGNORED - 1}")
    objects: dict[Any, list[tuple[float, int, Any]]] = defaultdict(list)
    without = 0
    for one in document["annotations"]:
        if one["category_id"] not in numbers:
            raise InputError("--masks", f"the category {one['category_id']} in {path.name}", "one of its categories")
        if not one.get("segmentation"):
            without += 1
            continue
        number = IGNORED if one.get("iscrowd") else numbers[one["category_id"]]
        objects[one["image_id"]].append((_area(one), number, one["segmentation"]))
    if not objects:
        raise InputError("--masks", f"{path.name} without a single segmentation", "polygons or run-length codes")
    pictures = inside(folder, [str(one["file_name"]) for one in document["images"]])
    shapes = [_shapes(one, objects[one["id"]]) for one in document["images"]]
    notes = [f"{without} annotations without a segmentation are left out"] if without else []
    return pictures, shapes, [BACKGROUND, *(str(one["name"]) for one in categories)], notes


def _area(annotation: dict[str, Any]) -> float:
    box = annotation.get("bbox") or (0, 0, 0, 0)
    found = annotation.get("area", box[2] * box[3] if len(box) == 4 else 0)
    return float(found) if isinstance(found, int | float) else 0.0


def _shapes(image: dict[str, Any], objects: list[tuple[float, int, Any]]) -> Shapes:
    height, width = image.get("height"), image.get("width")
    if not isinstance(height, int) or not isinstance(width, int) or not 0 < height * width <= MOST_PIXELS:
        raise InputError("--masks", f"{image['file_name']} of {width} × {height}", "its width and height")
    ordered = sorted(objects, key=lambda one: (one[1] != IGNORED, -one[0]))  # crowds first, then from large to small
    return Shapes(str(image["file_name"]), (height, width), [(number, shape) for _, number, shape in ordered])


def drawn(segmentation: Any, size: tuple[int, int]) -> Mask:
    """``(h, w)`` of a list of polygons, or of run-length codes ``{"size": [h, w], "counts": numbers or text}``."""
    if isinstance(segmentation, list):
        found = np.zeros(size, dtype=bool)
        for polygon in segmentation:
            found |= filled(np.asarray(polygon, dtype=np.float64).reshape(-1, 2), size)
        return found
    counts = segmentation["counts"]
    if [int(one) for one in segmentation["size"]] != list(size):
        raise ValueError(f"codes for {segmentation['size']} in a picture of {list(size)}")
    return from_counts(unpacked(counts) if isinstance(counts, str) else [int(one) for one in counts], size)


def filled(corners: NDArray[np.float64], size: tuple[int, int]) -> Mask:
    """The pixels whose centre is inside a polygon of corners ``(n, 2)``, x then y; even-odd."""
    if len(corners) < 3 or not bool(np.isfinite(corners).all()):
        raise ValueError(f"a polygon of {len(corners)} finite corners")
    height, width = size
    (x0, y0), (x1, y1) = corners.T, np.roll(corners, -1, axis=0).T
    found = np.zeros(size, dtype=bool)
    first, last = (int(np.clip(one, 0, height)) for one in (np.floor(y0.min()), np.ceil(y0.max())))
    centres = np.arange(width) + 0.5
    for row in range(first, last):
        y = row + 0.5
        crossing = (y0 <= y) != (y1 <= y)
        at = x0[crossing] + (y - y0[crossing]) * (x1 - x0)[crossing] / (y1 - y0)[crossing]
        found[row] = np.searchsorted(np.sort(at), centres) % 2 == 1
    return found


def from_counts(counts: list[int], size: tuple[int, int]) -> Mask:
    """Runs of zeros and ones in turn, down the columns."""
    if min(counts, default=0) < 0 or sum(counts) != size[0] * size[1]:
        raise ValueError(f"runs of {sum(counts)} pixels for {size[0] * size[1]}")
    runs = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return np.asarray(runs.reshape(size[1], size[0]).T, dtype=bool)


def unpacked(text: str) -> list[int]:
    """Counts from COCO's text: five bits a character from 48 on, low bits first; from the third on differences from the
    count before the last.
    """
    counts: list[int] = []
    place = 0
    while place < len(text):
        value = shift = 0
        more = True
        while more:
            code = ord(text[place]) - 48
            if not 0 <= code < 64:
                raise ValueError(f"the character {text[place]!r}")
            value |= (code & 31) << shift
            shift, more, place = shift + 5, bool(code & 32), place + 1
            if not more and code & 16:
                value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    return counts
