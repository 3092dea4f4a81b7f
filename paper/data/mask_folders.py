"""Mask sets in the folders they are published in: Pascal VOC and COCO-Stuff, read through Pillow.

::

    VOC2012/JPEGImages/<name>.jpg, SegmentationClass/<name>.png, ImageSets/Segmentation/{train,val}.txt
    coco_stuff/images/{train,val}2017/<name>.jpg, pixelmaps/{train,val}2017/<name>.png

Test masks are not public in either, so "val" is what is tested on, and validation images come out of "train".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aimfor.errors import InputError

#: Height and width that images are brought to; the papers took 106 × 160.
SIZE = (96, 128)
UNLABELLED = 255
#: COCO-Stuff's pixel maps number stuff from 92 to 182, 183 for everything else, 0 for unlabelled.
FIRST_STUFF, LAST_STUFF = 92, 183
Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


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
    return pictures, np.where(inside, ids - FIRST_STUFF, UNLABELLED).astype(np.uint8)


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
