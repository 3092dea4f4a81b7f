"""Images with a class for every pixel, in three parts, and the tasks made of them.

From ``.npz`` files, or through Pillow from the folders in which Pascal VOC and COCO-Stuff are published::

    VOC2012/JPEGImages/<name>.jpg, SegmentationClass/<name>.png, ImageSets/Segmentation/{train,val}.txt
    coco_stuff/images/{train,val}2017/<name>.jpg, pixelmaps/{train,val}2017/<name>.png

Test masks are not public in either, so "val" is what is tested on, and validation images come out of "train".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from aimfor.errors import InputError

from ..experiment import Options
from .tables import arrays

#: Class id of pixels that count nowhere.
IGNORED = 255
#: Height and width that images are brought to; the papers took 106 × 160.
SIZE = (96, 128)
#: COCO-Stuff's pixel maps number stuff from 92 to 182, 183 for everything else, 0 for unlabelled.
FIRST_STUFF, LAST_STUFF = 92, 183
Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
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
        labelled = self.train.y[self.train.y != IGNORED]
        return torch.bincount(labelled.long(), minlength=self.classes).float() / len(labelled)


def sets_for(options: Options, sizes: dict[str, int]) -> list[str]:
    """The two small sets; with ``--full`` also those whose published folders are there."""
    folders = {"voc": ("VOC2012", "VOCdevkit"), "coco_stuff": ("coco_stuff",)}
    data = options.data
    there = [
        name
        for name in folders
        if options.full and data is not None and any((data / folder).is_dir() for folder in folders[name])
    ]
    return [name for name in ("camvid", "stanford_background", *there) if name in sizes]


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
        fifth = len(order) // 5
        parts["val"], parts["train"] = rows(parts["train"], order[:fifth]), rows(parts["train"], order[fifth:])
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


def rows(images: MaskPart, index: Tensor) -> MaskPart:
    return MaskPart(images.x[index], images.y[index], images.fine[index])


def with_class(images: MaskPart, wanted: int) -> MaskPart:
    """The images that show a class."""
    return rows(images, (images.fine == wanted).flatten(1).any(1).nonzero().squeeze(1))


def one_class(images: MaskPart, wanted: int) -> MaskPart:
    """The same images with 1 for one class, 0 for the others and `IGNORED` as before."""

    def binary(masks: Tensor) -> Tensor:
        return torch.where(masks == IGNORED, masks, (masks == wanted).to(torch.uint8))

    return replace(images, y=binary(images.y), fine=binary(images.fine))


def read_voc(root: Path, split: str) -> Pair:
    """Pictures ``(n, h, w, 3)`` and ids 0 … 20 (0 is background), 255 on borders, of one list of the set.

    Raises:
        InputError: Pillow is not installed, or a file is missing.
    """
    listing = root / "ImageSets" / "Segmentation" / f"{split}.txt"
    if not listing.exists():
        raise InputError("data", f"{root}, without {listing.relative_to(root)}", "a VOC folder, e.g. VOCdevkit/VOC2012")
    names = listing.read_text(encoding="utf8").split()
    masks = [root / "SegmentationClass" / f"{name}.png" for name in names]
    return read_pairs([root / "JPEGImages" / f"{name}.jpg" for name in names], masks)


def read_coco_stuff(root: Path, split: str) -> Pair:
    """Pictures and ids 0 … 91 (stuff from 92 on, as its pixel maps number it; 91 is "other"), 255 where unlabelled.

    Raises:
        InputError: Pillow is not installed, the folders are missing or empty, or an image of a mask is.
    """
    masks = sorted((root / "pixelmaps" / f"{split}2017").glob("*.png"))
    if not masks:
        came = f"{root}, without masks in pixelmaps/{split}2017"
        raise InputError("data", came, "a folder with images/ and pixelmaps/", "Unpack stuff_*_pixelmaps.zip there.")
    pictures, ids = read_pairs([root / "images" / f"{split}2017" / f"{mask.stem}.jpg" for mask in masks], masks)
    inside = (ids >= FIRST_STUFF) & (ids <= LAST_STUFF)
    return pictures, np.where(inside, ids - FIRST_STUFF, IGNORED).astype(np.uint8)


def read_pairs(pictures: Sequence[Path], masks: Sequence[Path]) -> Pair:
    """Photographs averaged and masks picked to `SIZE`; every mask as large as its photograph."""
    try:
        from PIL import Image
    except ImportError as error:
        remedy = "pip install pillow, or aimfor[train]."
        raise InputError("data", "image files, without Pillow to read them", "Pillow installed", remedy) from error
    missing = next((path for path in (*pictures, *masks) if not path.exists()), None)
    if missing is not None or not pictures:
        raise InputError("data", f"no file {missing}" if missing else "an empty list", "an image for every mask")
    shape = (SIZE[1], SIZE[0])
    x = np.empty((len(pictures), *SIZE, 3), dtype=np.uint8)
    y = np.empty((len(masks), *SIZE), dtype=np.uint8)
    for row, (picture, mask) in enumerate(zip(pictures, masks, strict=True)):
        with Image.open(picture) as photo, Image.open(mask) as ids:
            if photo.size != ids.size:
                came = f"{mask.name} of {ids.size} beside {picture.name} of {photo.size}"
                raise InputError("data", came, "a mask of its image's size")
            if ids.mode not in ("P", "L"):
                raise InputError("data", f"{mask.name} in mode {ids.mode}", "one class id per pixel (mode P or L)")
            x[row] = np.asarray(photo.convert("RGB").resize(shape, Image.Resampling.LANCZOS))
            y[row] = np.asarray(ids.resize(shape, Image.Resampling.NEAREST))
    return x, y


def published_masks(folder: Path, name: str, split: str) -> Pair | None:
    """One part of a set in its published folders, or None when it is not there (or has no such part)."""
    if split == "val":
        return None
    given = {"train": "train", "test": "val"}[split]
    roots = {"voc": ("VOC2012", "VOCdevkit/VOC2012"), "coco_stuff": ("coco_stuff",)}.get(name, ())
    root = next((folder / root for root in roots if (folder / root).is_dir()), None)
    if root is None:
        return None
    return read_voc(root, given) if name == "voc" else read_coco_stuff(root, given)
