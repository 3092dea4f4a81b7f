"""A folder with one subfolder of images per class, or an array of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from .tables import check_size

if TYPE_CHECKING:
    from PIL import Image

Array = NDArray[Any]
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def image_files(folder: Path) -> list[Path]:
    """All images below the folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def read_folder(folder: Path, size: int = 0, *, labelled: bool = True) -> tuple[Array, Array, list[str]]:
    """Images ``(n, h, w, 3)`` uint8, labels (the subfolder's name) and relative paths.

    All images are brought to one size: ``size`` pixels square, or for 0 that of the first image, at most 64.

    Raises:
        InputError: No images, images outside subfolders, or a file that is not an image.
    """
    files = image_files(folder)
    if not files:
        raise InputError("data", f"the folder {folder.name} without images", f"files such as {', '.join(SUFFIXES[:3])}")
    names = [str(path.relative_to(folder)) for path in files]
    labels = np.array([path.relative_to(folder).parts[0] for path in files], dtype=object)
    loose = [name for name in names if "/" not in name and "\\" not in name]
    if labelled and loose:
        raise InputError(
            "data",
            f"the image {loose[0]} directly in {folder.name}",
            "one subfolder of images per class",
            "Move the images into subfolders named after their class.",
        )
    side = size or min(64, max(_open(files[0]).size))
    check_size(folder, len(files) * side * side * 3 * 2)
    pixels = np.stack([_pixels(path, side) for path in files])
    return pixels, labels, names


def _open(path: Path) -> Image.Image:
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise InputError("data", "a folder of images", "Pillow to read it", "Install it: pip install pillow.") from None
    try:
        image = Image.open(path)
        image.load()
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise InputError("data", f"{path.name}, which is not a readable image ({error})", "an image file") from None
    return image


def _pixels(path: Path, side: int) -> Array:
    from PIL import Image

    image = _open(path).convert("RGB")
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8)
