"""Contact sheets: small pictures inside the page, with what was said about them, for eyes and for screen readers."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..data import checkpoint
from ..targets.identities import Gallery
from ..targets.neighbours import nearest, query_values
from ..targets.pixels import IGNORED, Scenes

if TYPE_CHECKING:
    from PIL import Image

    from ..data.pictures import Pictures
    from .masks import MaskRun

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
    text = f"is {truth}, decided {decided}" if truth != decided else f"{truth}, found"
    return tile(pictures, row, f"{pictures.names[row]}: {text}")


def tile(pictures: Pictures, row: int, text: str, side: int = SIDE) -> dict[str, str]:
    """A small picture with a text for eyes and for screen readers."""
    return {"picture": thumbnail(pictures.open(row), side), "alt": text, "caption": text}


def sheet(title: str, text: str, tiles: list[dict[str, str]]) -> dict[str, Any]:
    """A titled row of tiles ``{"picture": data address, "alt": what it shows, "caption": what was said}``."""
    return {"title": title, "text": text, "tiles": tiles}


#: Queries shown of the worst and of the middle, and neighbours of each.
QUERIES, NEIGHBOURS = 5, 7


def neighbour_sheets(gallery: Gallery, vectors: Tensor) -> list[dict[str, Any]]:
    """Test pictures with their neighbours among test pictures: the worst lists, one a class, then ordinary ones."""
    rows = torch.from_numpy(gallery.rows(test=True))
    y, mine = torch.from_numpy(gallery.y)[rows], vectors[rows]
    values = query_values(mine, y, (1,))["map@r"]
    found = nearest(mine, None, min(NEIGHBOURS, len(rows) - 1))
    order = values.argsort(stable=True).tolist()
    worst = list({int(y[one]): one for one in reversed(order)}.values())  # of each class the worst query
    worst.sort(key=lambda one: float(values[one]))
    middle = order[len(order) // 2 :: max(1, len(order) // (4 * QUERIES))]
    chosen = [("Hard to find", one) for one in worst[:QUERIES]]
    chosen += [("An ordinary query", one) for one in middle[:QUERIES] if one not in worst[:QUERIES]]
    sheets = []
    for title, one in chosen:
        own = gallery.names[int(y[one])]
        tiles = [_neighbour_tile(gallery, int(rows[one]), f"query, {own}")]
        for rank, (place, cosine) in enumerate(
            zip(found.places[one].tolist(), found.cosines[one].tolist(), strict=True), 1
        ):
            name = gallery.names[int(y[place])]
            verdict = "HIT" if int(y[place]) == int(y[one]) else f"miss, {name}"
            tiles.append(_neighbour_tile(gallery, int(rows[place]), f"{rank}: {verdict} ({cosine:.2f})"))
        words = f"MAP@R {float(values[one]):.2f}. The query, then its nearest neighbours with their cosines."
        sheets.append(sheet(f"{title}: {own}", words, tiles))
    return sheets


def _neighbour_tile(gallery: Gallery, row: int, text: str) -> dict[str, str]:
    return tile(gallery.pictures, row, f"{text}: {gallery.pictures.names[row]}", 112)


#: Colours of classes in PNG files and reports: far apart, for colour-blind readers as well.
PALETTE = (
    (0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0),
    (204, 121, 167), (153, 153, 153), (102, 0, 102), (170, 255, 195), (128, 0, 0),
)  # fmt: skip
#: Pictures shown of the hardest.
SHOWN = 6


def mask_sheets(run: MaskRun, scenes: Scenes, values: dict[str, float]) -> list[dict[str, Any]]:
    known = {name: value for name, value in values.items() if not np.isnan(value)}
    order = sorted(known, key=lambda name: known[name])
    rows = {name: row for row, name in enumerate(scenes.pictures.names)}
    hardest = [tile for name in order[:SHOWN] for tile in _three(run, scenes, rows[name], known[name])]
    easiest = [tile for name in order[::-1][:2] for tile in _three(run, scenes, rows[name], known[name])]
    words = "The picture with the decision over it, the truth over it, and where they differ (red)."
    return [sheet("The hardest test pictures", words, hardest), sheet("The easiest", words, easiest)]


def _three(run: MaskRun, scenes: Scenes, row: int, value: float) -> list[dict[str, str]]:
    """Decision, truth and difference over one picture."""
    from PIL import Image

    called, truth = run.decide(scenes.pictures, row), scenes.mask(row)
    pixels = np.asarray(scenes.pictures.open(row)).astype(float)
    table, counts = np.array(PALETTE, dtype=float), truth != IGNORED

    def over(ids: Any, where: Any) -> Any:
        return np.where(where[..., None], 0.45 * pixels + 0.55 * table[ids % len(table)], pixels)

    wrong = ((called != truth) & counts)[..., None]
    shown = {
        "decided": over(called, called > 0),
        "truth": over(np.where(counts, truth, 0), (truth > 0) & counts),
        "difference": np.where(wrong, 0.3 * pixels + 0.7 * np.array([255.0, 0.0, 0.0]), pixels),
    }
    name = scenes.pictures.names[row]
    return [
        {
            "picture": thumbnail(Image.fromarray(one.astype(np.uint8))),
            "alt": f"{name}, {kind}",
            "caption": f"{name}: {value:.3f}" if kind == "decided" else kind,
        }
        for kind, one in shown.items()
    ]
