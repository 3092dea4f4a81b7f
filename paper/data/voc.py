"""Persons of VOC 2012's action task: crops, ten labels each, and parts that never share an image.

From ``voc2012_action/{train,test}.npz`` (a small copy) or from the published folders
``VOCdevkit/VOC2012/{Annotations,JPEGImages,ImageSets/Action}``, whose test labels are not public: the official
*val* list is the test part in both.
"""

from __future__ import annotations

import csv
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from torch.nn import functional

from aimfor.errors import InputError

from ..protocol.protocol import Split
from .tables import arrays

ACTIONS = (
    "jumping",
    "phoning",
    "playinginstrument",
    "reading",
    "ridingbike",
    "ridinghorse",
    "running",
    "takingphoto",
    "usingcomputer",
    "walking",
)
#: A person's box is enlarged by this share of its size on every side.
MARGIN = 0.15


@dataclass(frozen=True)
class Persons:
    """Crops ``(n, side, side, 3)`` uint8, labels ``(n, 10)`` (1 does, 0 does not, −1 not annotated), image of each."""

    crops: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    images: np.ndarray[Any, Any]

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: np.ndarray[Any, Any] | None = None, side: int = 32) -> Split:
        """Images ``(n, 3, side, side)`` in [−1, 1] and their labels; all persons, or those at ``rows``."""
        kept = np.arange(len(self)) if rows is None else rows
        x = torch.from_numpy(self.crops[kept]).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
        if x.shape[-1] != side:
            x = functional.interpolate(x, (side, side), mode="area")
        return Split(x.contiguous(), torch.from_numpy(self.labels[kept]).long())


def load(folder: Path, split: str, side: int = 64) -> Persons:
    """The persons of one split, "train" or "test".

    Raises:
        InputError: Neither form of the data is there, or the folders contradict themselves.
    """
    small = folder / "voc2012_action" / f"{split}.npz"
    if small.exists():
        raw = arrays(small)
        if tuple(raw["classes"].tolist()) != ACTIONS:
            raise InputError("data", f"{small.name} with classes {raw['classes'].tolist()}", f"{list(ACTIONS)}")
        return Persons(raw["x"], raw["y"], np.array([name.rsplit("_", 1)[0] for name in raw["name"].tolist()]))
    published = folder / "VOCdevkit" / "VOC2012"
    if not (published / "ImageSets" / "Action").is_dir():
        remedy = "Give the folder that holds voc2012_action/ or VOCdevkit/VOC2012/."
        raise InputError("data", f"{folder}, without VOC 2012's actions", "a folder that holds them", remedy)
    return from_devkit(published, {"train": "train", "test": "val"}[split], side)


def load_large(folder: Path, split: str) -> Persons:
    """The persons of ``voc2012_action_large``, "train" or "val": crops of 160 pixels, padded by 16 as in the paper."""
    from PIL import Image

    source = folder / "voc2012_action_large"
    with (source / f"{split}.csv").open(encoding="utf8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    with zipfile.ZipFile(source / f"{split}.zip") as packed:
        crops = np.stack([np.asarray(Image.open(io.BytesIO(packed.read(row["file"])))) for row in rows])
    # An empty cell was not annotated: neither yes nor no.
    labels = np.array([[-1 if row[action] == "" else int(float(row[action])) for action in ACTIONS] for row in rows])
    return Persons(crops, labels, np.array([row["image"] for row in rows]))


def box_sizes(folder: Path, split: str) -> np.ndarray[Any, Any]:
    """``(n,)`` share of its image that each person's box covers, in the order of `load_large`."""
    with (folder / "voc2012_action_large" / f"{split}.csv").open(encoding="utf8", newline="") as lines:
        rows = [{key: float(row[key]) for key in _CORNERS} for row in csv.DictReader(lines)]
    sides = ((row["xmax"] - row["xmin"]) * (row["ymax"] - row["ymin"]) / (row["width"] * row["height"]) for row in rows)
    return np.array(list(sides))


_CORNERS = ("xmin", "ymin", "xmax", "ymax", "width", "height")


# ---------------------------------------------------------------- the published folders


def from_devkit(folder: Path, listed: str, side: int) -> Persons:
    """The persons of ``ImageSets/Action/<action>_<listed>.txt``, cut out of ``JPEGImages``.

    A line is ``image object label``: the object's place in the annotation (from 1), and 1 or −1. A person whom the
    list of an action leaves out is not annotated for it.
    """
    from PIL import Image

    labels: dict[tuple[str, int], list[int]] = {}
    for number, action in enumerate(ACTIONS):
        path = folder / "ImageSets" / "Action" / f"{action}_{listed}.txt"
        if not path.exists():
            raise InputError("data", f"{folder}, without {path.name}", "one list for each of the ten actions")
        for line in path.read_text(encoding="utf8").splitlines():
            person, label = _entry(path, line)
            labels.setdefault(person, [-1] * len(ACTIONS))[number] = label
    persons = sorted(labels)
    crops = np.empty((len(persons), side, side, 3), dtype=np.uint8)
    for row, (image, number_of_object) in enumerate(persons):
        box = _box(folder / "Annotations" / f"{image}.xml", number_of_object)
        with Image.open(folder / "JPEGImages" / f"{image}.jpg") as picture:
            person_crop = picture.convert("RGB").crop(_enlarged(box, picture.size))
            crops[row] = np.asarray(person_crop.resize((side, side), Image.Resampling.BILINEAR))
    answers = np.array([labels[person] for person in persons], dtype=np.int64).reshape(-1, len(ACTIONS))
    return Persons(crops, answers, np.array([image for image, _ in persons]))


def _entry(path: Path, line: str) -> tuple[tuple[str, int], int]:
    fields = line.split()
    if len(fields) != 3 or not fields[1].isdigit() or fields[2] not in ("1", "-1", "0"):
        raise InputError("data", f"the line {line!r} in {path.name}", "an image, the place of an object, and 1 or -1")
    return (fields[0], int(fields[1])), {"1": 1, "-1": 0, "0": -1}[fields[2]]


def _box(path: Path, number: int) -> tuple[float, float, float, float]:
    """xmin, ymin, xmax, ymax of the person at that place (from 1) among the annotated objects."""
    objects = ElementTree.parse(path).getroot().findall("object")
    name = objects[number - 1].findtext("name") if 1 <= number <= len(objects) else None
    if name != "person":
        raise InputError("data", f"{path.name} with object {number} a {name}", "a person, as the action lists say")
    sides = [objects[number - 1].findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
    xmin, ymin, xmax, ymax = (float(side or "nan") for side in sides)
    if not (xmin < xmax and ymin < ymax):
        raise InputError("data", f"{path.name} with the box {sides}", "xmin < xmax and ymin < ymax")
    return xmin, ymin, xmax, ymax


def _enlarged(box: tuple[float, float, float, float], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The box with its margin, cut at the image's edges; whole pixels."""
    xmin, ymin, xmax, ymax = box
    dx, dy = MARGIN * (xmax - xmin), MARGIN * (ymax - ymin)
    left, top = max(0, int(xmin - dx)), max(0, int(ymin - dy))
    return left, top, min(size[0], round(xmax + dx)), min(size[1], round(ymax + dy))


# ---------------------------------------------------------------- parts


def by_image(persons: Persons, fraction: float, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows of (rest, fraction), drawn image by image, so that no image has persons in both."""
    images = np.unique(persons.images)
    taken = np.random.default_rng(seed).permutation(images)[: round(fraction * len(images))]
    inside = np.isin(persons.images, taken)
    return np.flatnonzero(~inside), np.flatnonzero(inside)
