"""Pictures by reference: one is read when it is needed, brought upright, to RGB and one size, or refused in a line."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

if TYPE_CHECKING:
    from PIL import Image

Array = NDArray[Any]
#: Pixels of a picture at most: a few bytes of a file can claim billions.
MOST_PIXELS = 80_000_000


@dataclass(frozen=True)
class Pictures:
    """Files, or an array ``(n, h, w, c)`` uint8, each with a name.

    Attributes:
        names: What each is called in predictions and reports.
        files: One path each; empty for an array.
        array: The pixels; None for files.
    """

    names: list[str]
    files: list[Path] = field(default_factory=list)
    array: Array | None = None

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: Sequence[int]) -> Pictures:
        chosen = replace(self, names=[self.names[row] for row in rows])
        if self.array is not None:
            return replace(chosen, array=self.array[list(rows)])
        return replace(chosen, files=[self.files[row] for row in rows])

    def content(self, row: int) -> bytes:
        """What the picture's hash is of: the file's bytes, or shape and pixels."""
        if self.array is not None:
            pixels: bytes = self.array[row].tobytes()
            return f"{self.array[row].shape}".encode() + pixels
        try:
            return self.files[row].read_bytes()
        except OSError as error:
            raise InputError("data", f"{self.names[row]} ({error.strerror})", "a file that may be read") from None

    def open(self, row: int, content: bytes | None = None) -> Image.Image:
        """Upright, in RGB. Raises `InputError` naming the file."""
        from PIL import Image

        if self.array is not None:
            pixels = self.array[row]
            return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels[..., :3]).convert("RGB")
        return decoded(self.content(row) if content is None else content, self.names[row])

    def square(self, row: int, side: int) -> NDArray[np.uint8]:
        """``(side, side, 3)``."""
        return squared(self.open(row), side)


def pictures_of(path: Path) -> Pictures:
    """One picture, or all of a folder; every one of them readable. Raises `InputError` where there is none."""
    files = image_files(path) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise InputError("data", f"{path}, without pictures", "a folder of pictures, or one")
    root = path if path.is_dir() else path.parent
    pictures = Pictures([str(file.relative_to(root)) for file in files], files)
    for row in range(len(pictures)):
        pictures.open(row)
    return pictures


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def squared(image: Image.Image, side: int) -> NDArray[np.uint8]:
    from PIL import Image

    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(image, dtype=np.uint8)


def decoded(content: bytes, name: str) -> Image.Image:
    """A picture from a file's bytes: turned as its EXIF says, the first frame of several, in RGB.

    Raises:
        InputError: Empty, cut off, no picture at all, of a kind without a range (32-bit), or far too large.
    """
    image = opened(content, name)
    try:
        from PIL import ImageOps

        return _rgb(ImageOps.exif_transpose(image), name)
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:
        raise unreadable(name, error) from None


def opened(content: bytes, name: str) -> Image.Image:
    """The picture in its own mode, read to its end."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise InputError("data", "pictures", "Pillow to read them", "Install it: pip install pillow.") from None
    if not content:
        raise InputError("data", f"{name}, which is empty", "a picture", SKIP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is stricter
        try:
            image = Image.open(io.BytesIO(content))
            if image.size[0] * image.size[1] > MOST_PIXELS:
                size = f"{image.size[0]} × {image.size[1]} pixels"
                raise InputError("data", f"{name} of {size}", f"at most {MOST_PIXELS // 10**6} million", SKIP)
            image.load()
        except Image.DecompressionBombError:
            raise InputError(
                "data", f"{name}, which claims too many pixels", f"at most {MOST_PIXELS // 10**6} million", SKIP
            ) from None
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
            raise unreadable(name, error) from None
    return image


SKIP = "Repair or remove it, or leave such files out with --skip-corrupt."


def unreadable(name: str, error: BaseException) -> InputError:
    words = " ".join(str(error).split())
    reason = "not a known kind of picture" if "cannot identify" in words else words[:80] or type(error).__name__
    return InputError("data", f"{name}, which is not a readable image ({reason})", "a picture", SKIP)


def _rgb(image: Image.Image, name: str) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits a pixel, which Pillow would cut off at 255
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise InputError(
                "data", f"{name} with values {values.min()} … {values.max()}", "8 or 16 bits a pixel", SKIP
            )
        return Image.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise InputError("data", f"{name} of floating-point numbers", "8 or 16 bits a pixel", SKIP)
    return image.convert("RGB")


SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def image_files(folder: Path) -> list[Path]:
    """All images below the folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
