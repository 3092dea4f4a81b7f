"""Contact sheets: small pictures inside the page, with what was said about them, for eyes and for screen readers."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

#: Longest side of a picture in the page, and the quality it is stored at: about 5 kB each.
SIDE, QUALITY = 160, 72


def thumbnail(image: Image.Image, side: int = SIDE) -> str:
    """The picture as a data address."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    content = io.BytesIO()
    small.save(content, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def sheet(title: str, text: str, tiles: list[dict[str, str]]) -> dict[str, Any]:
    """A titled row of tiles ``{"picture": data address, "alt": what it shows, "caption": what was said}``."""
    return {"title": title, "text": text, "tiles": tiles}
