"""Contact sheets: small pictures inside the page, with what was said about them, for eyes and for screen readers."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...fitting import checkpoint

if TYPE_CHECKING:
    from PIL import Image

    from ..data.pictures import Pictures
    from ..run.folder import Prepared

#: Longest side of a picture in the page, and the quality it is stored at: about 5 kB each.
SIDE, QUALITY = 160, 72
#: Pictures in a sheet, of the hardest of a class, and classes that have one.
SHOWN, HARDEST, MOST_CLASSES = 12, 6, 12
#: Where a run keeps its sheets, so that a report can be written anew without the pictures.
SHEETS = "sheets.json"
TILE = ("picture", "alt", "caption")
JPEG = re.compile(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+")


def thumbnail(image: Image.Image, side: int = SIDE) -> str:
    """The picture as a data address."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    content = io.BytesIO()
    small.save(content, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def picture_sheets(
    pictures: Pictures, rows: Sequence[int], y: Tensor, scores: Tensor, threshold: float, classes: list[str]
) -> list[dict[str, Any]]:
    """Test pictures worth a look: confident mistakes, hits just above the threshold, the hardest of each class.

    Args:
        pictures: All of them.
        rows: The place of each test picture among them.
        y: ``(n,)`` class ids of the test pictures.
        scores: ``(n,)`` scores, or ``(n, c)``.
        threshold: Of scores ``(n,)``.
        classes: Names by class id.
    """
    if scores.ndim == 1:
        decided, own = (scores > threshold).long(), torch.where(y == 1, scores - threshold, threshold - scores)
        sure = (scores - threshold).abs()
    else:
        decided, chances = scores.argmax(1), scores.double().softmax(1)
        own, sure = chances.gather(1, y[:, None]).squeeze(1), chances.amax(1)

    def tiles(chosen: Tensor) -> list[dict[str, str]]:
        return [_tile(pictures, rows[one], classes[int(y[one])], classes[int(decided[one])]) for one in chosen.tolist()]

    wrong = (decided != y).nonzero().reshape(-1)
    found = []
    if len(wrong):
        words = (
            "Test pictures decided wrongly, the most confident first. Wrong labels in the data show up here as well."
        )
        found.append(
            sheet("The most confident mistakes", words, tiles(wrong[sure[wrong].argsort(descending=True)][:SHOWN]))
        )
    hits = ((decided == y) & (y == 1)).nonzero().reshape(-1)
    if scores.ndim == 1 and len(hits):
        words = f"Pictures of {classes[1]} that were found by the smallest margin."
        found.append(sheet("Hits at the threshold", words, tiles(hits[sure[hits].argsort()][:SHOWN])))
    for place, name in enumerate(classes[:MOST_CLASSES]):
        mine = (y == place).nonzero().reshape(-1)
        if len(mine):
            words = "Pictures whose true class got the lowest probability, whatever was decided."
            found.append(sheet(f"Hardest pictures of {name}", words, tiles(mine[own[mine].argsort()][:HARDEST])))
    return found


def write_sheets(folder: Path, ready: Prepared, scores: Tensor, threshold: float) -> None:
    """sheets.json of a run on pictures; nothing for a table."""
    if ready.source.kind == "pictures":
        found = ready.source.as_pictures(), ready.parts.test.tolist(), ready.test[1]
        sheets = picture_sheets(*found, scores, threshold, ready.labels.classes)
        checkpoint.write_json(folder / SHEETS, {"sheets": sheets})


def read_sheets(folder: Path) -> list[dict[str, Any]]:
    """What `write_sheets` wrote, with nothing but small JPEG pictures in it; empty where there is none."""
    if not (folder / SHEETS).exists():
        return []
    document = checkpoint.read_json(folder / SHEETS)
    with checkpoint.reading(folder / SHEETS):
        sheets = [
            sheet(str(one["title"]), str(one["text"]), [{key: str(tile[key]) for key in TILE} for tile in one["tiles"]])
            for one in document["sheets"]
        ]
        if not all(JPEG.fullmatch(tile["picture"]) for one in sheets for tile in one["tiles"]):
            raise ValueError("a picture that is no JPEG")
    return sheets


def _tile(pictures: Pictures, row: int, truth: str, decided: str) -> dict[str, str]:
    name = pictures.names[row]
    said = f"is {truth}, decided {decided}" if truth != decided else f"{truth}, found"
    return {"picture": thumbnail(pictures.open(row)), "alt": f"{name}: {said}", "caption": f"{name}: {said}"}


def sheet(title: str, text: str, tiles: list[dict[str, str]]) -> dict[str, Any]:
    """A titled row of tiles ``{"picture": data address, "alt": what it shows, "caption": what was said}``."""
    return {"title": title, "text": text, "tiles": tiles}
