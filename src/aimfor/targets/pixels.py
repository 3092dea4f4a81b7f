"""Pictures and their masks: PNG files of class ids beside pictures of the same names and sizes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..data.pictures import Pictures, image_files, opened
from ..errors import InputError

Bytes = NDArray[np.uint8]
#: Id of the pixels that do not count.
IGNORED = 255


@dataclass(frozen=True)
class Scenes:
    """Pictures with masks.

    Attributes:
        pictures: By reference.
        masks: One PNG file each.
        groups: The drive, patient or scene of each.
        classes: Names, in the order of their ids.
        ignore: The value of pixels that do not count, or None.
        foreground: The value that means class 1 in masks of two values (255), or None where values are ids.
        notes: What was left out or assumed.
    """

    pictures: Pictures
    masks: list[Path]
    groups: list[str]
    classes: list[str]
    ignore: int | None
    foreground: int | None
    notes: list[str] = field(default_factory=list)

    def mask(self, row: int) -> Bytes:
        """``(h, w)`` class ids, 255 where a pixel does not count."""
        values = _values_of(self.masks[row])
        if self.foreground is not None:
            return np.asarray(values == self.foreground, dtype=np.uint8)
        return np.where(values == self.ignore, IGNORED, values).astype(np.uint8)


def read_scenes(
    folder: Path,
    masks: Path,
    *,
    classes: Path | None = None,
    ignore: int | None = None,
    cluster: str | None = None,
) -> Scenes:
    """Every picture of the folder with its mask, all checked.

    Args:
        folder: Of pictures.
        masks: Of PNG files with the pictures' names.
        classes: A text file with one name per line, or JSON: a list, or names by id.
        ignore: The value of pixels that do not count; 255 where masks have it beside class ids.
        cluster: A regular expression; what it matches in a picture's path names its drive, patient or scene.

    Raises:
        InputError: A picture without a mask, sizes that differ, values that are no class, a damaged file.
    """
    if not folder.is_dir():
        raise InputError("data", f"{folder}, which is no folder", "a folder")
    if not masks.is_dir():
        remedy = "pycocotools' annToMask draws the masks of a COCO file." if masks.suffix.lower() == ".json" else ""
        raise InputError("--masks", f"{masks}, which is no folder", "a folder of PNG files", remedy)
    files = [path for path in image_files(folder) if not path.resolve().is_relative_to(masks.resolve())]
    if not files:
        raise InputError("data", f"the folder {folder.name} without images", "pictures")
    pictures = Pictures([str(path.relative_to(folder)) for path in files], files)
    mask_files = [_mask_file(masks, name) for name in pictures.names]
    values: set[int] = set()
    for row, path in enumerate(mask_files):
        values |= _checked(pictures, row, path)
    notes: list[str] = []
    foreground = 255 if values <= {0, 255} and ignore is None and 255 in values else None
    if foreground is None and ignore is None and 255 in values:
        ignore = IGNORED
        notes.append("pixels of value 255 do not count (choose with --ignore)")
    ids = {0, 1} if foreground is not None else values - {ignore}
    titles = _titles(classes, max(ids, default=0) + 1)
    strange = sorted(ids - set(range(len(titles))))
    if strange:
        path = next(path for path in mask_files if (_values_of(path) == strange[0]).any())
        raise InputError(
            "--masks",
            f"{path.name} with the value {strange[0]}",
            f"class ids 0 … {len(titles) - 1}" + (f", or {ignore}" if ignore is not None else ""),
            "Name more classes with --classes, or what does not count with --ignore.",
        )
    return Scenes(pictures, mask_files, _groups(pictures.names, cluster, notes), titles, ignore, foreground, notes)


def _mask_file(masks: Path, name: str) -> Path:
    stem = Path(name).with_suffix("")
    for candidate in (masks / f"{stem}.png", masks / f"{stem}_mask.png", masks / f"{stem.name}.png"):
        if candidate.is_file():
            return candidate
    raise InputError(
        "--masks", f"no mask of {name}", f"{stem}.png in {masks.name}", "Add it, or move the picture away."
    )


def _values_of(path: Path) -> NDArray[np.int64]:
    """One number a pixel. Raises `InputError` for a mask in colours."""
    image = opened(path.read_bytes(), path.name)
    if image.mode not in ("P", "L", "1", "I", "I;16"):
        raise InputError("--masks", f"{path.name} in mode {image.mode}", "one class id per pixel (PNG of mode P or L)")
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 255:
        raise InputError("--masks", f"{path.name} with values up to {values.max()}", "ids of at most 255")
    return values


def _checked(pictures: Pictures, row: int, path: Path) -> set[int]:
    values, size = _values_of(path), pictures.open(row).size
    if values.shape != (size[1], size[0]):
        height, width = values.shape
        came = f"{path.name} of {width} × {height} beside {pictures.names[row]} of {size[0]} × {size[1]}"
        raise InputError("--masks", came, "a mask of its picture's size")
    return set(np.unique(values).tolist())


def _titles(path: Path | None, count: int) -> list[str]:
    """Names from a file, or for so many ids."""
    if path is None:
        return ["background", "foreground"] if count == 2 else [str(number) for number in range(count)]
    try:
        text = path.read_text(encoding="utf8")
        names = json.loads(text) if path.suffix.lower() == ".json" else list(filter(str.strip, text.splitlines()))
        if isinstance(names, dict):
            by_id = {int(key): str(value) for key, value in names.items()}
            names = [by_id.get(number, str(number)) for number in range(max(by_id) + 1)]
        titles = [str(name).strip() for name in names]
    except (OSError, ValueError, TypeError) as error:
        raise InputError("--classes", f"{path} ({error})", "one name per line, or JSON") from None
    if len(titles) < 2:
        raise InputError("--classes", f"{len(titles)} names in {path.name}", "at least two classes")
    return titles


def _groups(names: list[str], cluster: str | None, notes: list[str]) -> list[str]:
    if cluster is None:
        notes.append("every picture is a cluster of its own; neighbouring frames belong together (--cluster REGEX)")
        return names
    try:
        pattern = re.compile(cluster)
    except re.error as error:
        raise InputError("--cluster", f"{cluster!r} ({error})", "a regular expression, such as '^[^_]+'") from None
    matches = [pattern.search(name) for name in names]
    if None in matches:
        came = f"{cluster!r}, which matches nothing in {names[matches.index(None)]}"
        raise InputError("--cluster", came, "a match in every path")
    return [match.group(1 if pattern.groups else 0) for match in matches if match]


def sized(pictures: Pictures, row: int, size: tuple[int, int]) -> Bytes:
    """``(h, w, 3)`` at this height and width."""
    from PIL import Image

    image = pictures.open(row)
    if image.size != (size[1], size[0]):
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(image, dtype=np.uint8)


def coarse(ids: Bytes, size: tuple[int, int]) -> Bytes:
    """Class ids at this height and width: the pixel in the middle of each cell."""
    rows = ((np.arange(size[0]) + 0.5) * ids.shape[0] / size[0]).astype(int)
    columns = ((np.arange(size[1]) + 0.5) * ids.shape[1] / size[1]).astype(int)
    return np.ascontiguousarray(ids[rows][:, columns])


def common_size(pictures: Pictures, side: int) -> tuple[int, int]:
    """Height and width for all: the shape of the middle picture, about ``side``² pixels, multiples of 32."""
    shapes = sorted(pictures.open(row).size for row in range(0, len(pictures), max(1, len(pictures) // 25)))
    width, height = shapes[len(shapes) // 2]
    scale = side / (width * height) ** 0.5
    return tuple(max(32, 32 * round(length * scale / 32)) for length in (height, width))
