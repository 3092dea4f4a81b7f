"""Images with a class for every pixel, in three parts, and the tasks made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.errors import InputError

from ..experiment import Options
from .mask_folders import FIRST_STUFF, published_masks
from .tables import arrays

#: Class id of pixels that count nowhere.
IGNORED = 255
#: Classes of each set; ids from there on are unlabelled pixels.
CLASSES = {"camvid": 11, "stanford_background": 8, "voc": 21, "coco_stuff": 92}
#: The sky's class id ("sky-other", 157, in COCO-Stuff's own numbers).
SKY = {"camvid": 0, "stanford_background": 0, "coco_stuff": 157 - FIRST_STUFF}


@dataclass(frozen=True)
class MaskPart:
    """One part of a set.

    Attributes:
        x: ``(n, 3, h, w)`` images in [−1, 1], as the network sees them.
        y: ``(n, h, w)`` class ids of the same size, `IGNORED` where unlabelled.
        fine: ``(n, H, W)`` class ids at the size they came in: what test data is judged by.
    """

    x: Tensor
    y: Tensor
    fine: Tensor

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class MaskTask:
    """Three parts, the network every method trains, and the papers' size labels.

    Attributes:
        classes: How many; 2 for a binary mask, which has one score per pixel.
        sizes: By threshold, the rule that says of class ids ``(n, h, w)`` which images are big. The first is the one
            hyperparameters are chosen with.
    """

    train: MaskPart
    validation: MaskPart
    test: MaskPart
    make_model: Callable[[], nn.Module]
    classes: int
    sizes: dict[str, Callable[[Tensor], Tensor]]

    def class_shares(self) -> Tensor:
        known = self.train.y[self.train.y != IGNORED]
        return torch.bincount(known.long(), minlength=self.classes).float() / len(known)


def sets_for(options: Options, known: dict[str, int]) -> list[str]:
    """The two small sets; with ``--full`` also those whose published folders are there."""
    folders = {"voc": ("VOC2012", "VOCdevkit"), "coco_stuff": ("coco_stuff",)}
    data = options.data
    there = [
        name
        for name in folders
        if options.full and data is not None and any((data / folder).is_dir() for folder in folders[name])
    ]
    return [name for name in ("camvid", "stanford_background", *there) if name in known]


def load_parts(folder: Path, name: str, seed: int, *, images: int, masks: int) -> tuple[MaskPart, MaskPart, MaskPart]:
    """Training, validation and test part, from ``<name>/{train,val,test}.npz`` or from published folders.

    Where there is no validation part, a fifth of the training images, drawn by the seed, is taken for it.

    Args:
        folder: Of the data sets.
        name: Key of `CLASSES`.
        seed: Of that draw.
        images: The network sees images at their height and width divided by this,
        masks: and learns masks of theirs divided by this.

    Raises:
        InputError: The set is not in the folder.
    """
    raw = {split: _arrays(folder, name, split) for split in ("train", "val", "test")}
    missing = next((split for split in ("train", "test") if raw[split] is None), None)
    if missing:
        remedy = "See the page on reproducing the papers for where each set is looked for."
        raise InputError("data", f"{folder}, without {name} ({missing})", "a folder that holds it", remedy)
    parts = {split: from_arrays(*pair, images, masks) for split, pair in raw.items() if pair is not None}
    if "val" not in parts:
        order = torch.randperm(len(parts["train"]), generator=torch.Generator().manual_seed(seed))
        cut = len(order) // 5
        parts["val"], parts["train"] = rows(parts["train"], order[:cut]), rows(parts["train"], order[cut:])
    return parts["train"], parts["val"], parts["test"]


def _arrays(folder: Path, name: str, split: str) -> tuple[Any, Any] | None:
    path = folder / name / f"{split}.npz"
    if not path.exists():
        return published_masks(folder, name, split)
    raw = arrays(path)
    return raw["x"], np.where(raw["mask"] < CLASSES[name], raw["mask"], IGNORED)


def from_arrays(pictures: Any, ids: Any, images: int, masks: int) -> MaskPart:
    """A part from uint8 pictures ``(n, H, W, 3)`` and class ids ``(n, H, W)``, both divided in size.

    Pictures are averaged over squares; masks keep the pixel at the corner of each square.
    """
    fine = torch.from_numpy(np.ascontiguousarray(ids)).to(torch.uint8)
    x = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
    if images > 1:
        x = functional.avg_pool2d(x, images)
    return MaskPart(x.contiguous(memory_format=torch.channels_last), fine[:, ::masks, ::masks].contiguous(), fine)


def rows(part: MaskPart, index: Tensor) -> MaskPart:
    return MaskPart(part.x[index], part.y[index], part.fine[index])


def with_class(part: MaskPart, wanted: int) -> MaskPart:
    """The images that show a class."""
    return rows(part, (part.fine == wanted).flatten(1).any(1).nonzero().squeeze(1))


def one_class(part: MaskPart, wanted: int) -> MaskPart:
    """The same images with 1 for one class, 0 for the others and `IGNORED` as before."""

    def binary(masks: Tensor) -> Tensor:
        return torch.where(masks == IGNORED, masks, (masks == wanted).to(torch.uint8))

    return replace(part, y=binary(part.y), fine=binary(part.fine))
