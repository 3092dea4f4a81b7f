"""Contact sheets: small pictures inside the page, with what was decided about them, for eyes and for screen readers."""

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
from ..targets.identities import Gallery, nearest, query_values
from ..targets.pixels import IGNORED, Scenes

if TYPE_CHECKING:
    from PIL import Image

    from ..data.pictures import Pictures
    from .masks import MaskRun

Sheet = dict[str, Any]
#: Longest side of a picture in the page, and the quality it is stored at: about 5 kB each.
SIDE, QUALITY = 160, 72
#: Pictures in a sheet, of the hardest of a class, and classes that have one.
MOST, HARDEST, MOST_CLASSES = 12, 6, 12
#: Queries of the worst and of the middle, and neighbours of each.
QUERIES, NEIGHBOURS = 5, 7
#: Where a run keeps its sheets, so that a report can be written anew without the pictures.
SHEETS = "sheets.json"
TILE = ("picture", "alt", "caption")
JPEG = re.compile(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+")
#: Colours of classes in PNG files and reports: far apart, for colour-blind readers as well.
PALETTE = (
    (0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0),
    (204, 121, 167), (153, 153, 153), (102, 0, 102), (170, 255, 195), (128, 0, 0),
)  # fmt: skip


def read_sheets(folder: Path) -> list[Sheet]:
    """The sheets of a run, with nothing but small JPEG pictures in them."""
    document = checkpoint.read_json(folder / SHEETS)
    with checkpoint.reading(folder / SHEETS):
        sheets = [
            sheet(str(row["title"]), str(row["text"]), [{key: str(tile[key]) for key in TILE} for tile in row["tiles"]])
            for row in document["sheets"]
        ]
        if not all(JPEG.fullmatch(tile["picture"]) for row in sheets for tile in row["tiles"]):
            raise ValueError("a picture that is no JPEG")
    return sheets


def sheet(title: str, text: str, tiles: list[dict[str, str]]) -> Sheet:
    """A titled row of tiles ``{"picture": data address, "alt": what it shows, "caption": what is written below}``."""
    return {"title": title, "text": text, "tiles": tiles}


def tile(pictures: Pictures, row: int, text: str, side: int = SIDE) -> dict[str, str]:
    """A small picture with a text for eyes and for screen readers."""
    return {"picture": thumbnail(pictures.open(row), side), "alt": text, "caption": text}


def thumbnail(image: Image.Image, side: int = SIDE) -> str:
    """The picture as a data address."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    content = io.BytesIO()
    small.save(content, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def picture_sheets(
    pictures: Pictures, rows: Sequence[int], y: Tensor, scores: Tensor, threshold: float, classes: list[str]
) -> list[Sheet]:
    """Test pictures worth a look: confident mistakes, hits just above the threshold, the hardest of each class.

    Args:
        pictures: All of them.
        rows: The number of each test picture among them.
        y: ``(n,)`` class ids of the test pictures.
        scores: ``(n,)`` scores, or ``(n, c)``.
        threshold: Of scores ``(n,)``.
        classes: Names by class id.
    """
    if scores.ndim == 1:
        decided, own = (scores > threshold).long(), torch.where(y == 1, scores - threshold, threshold - scores)
        confidence = (scores - threshold).abs()
    else:
        decided, chances = scores.argmax(1), scores.double().softmax(1)
        own, confidence = chances.gather(1, y[:, None]).squeeze(1), chances.amax(1)

    def small(number: int) -> dict[str, str]:
        row, truth, decision = rows[number], classes[int(y[number])], classes[int(decided[number])]
        text = f"is {truth}, decided {decision}" if truth != decision else f"{truth}, found"
        return tile(pictures, row, f"{pictures.names[row]}: {text}")

    def tiles(numbers: Tensor) -> list[dict[str, str]]:
        return [small(number) for number in numbers.tolist()]

    sheets = []
    wrong = (decided != y).nonzero().reshape(-1)
    if len(wrong):
        text = "Test pictures decided wrongly, the most confident first. Wrong labels in the data show up here as well."
        order = confidence[wrong].argsort(descending=True)
        sheets.append(sheet("The most confident mistakes", text, tiles(wrong[order][:MOST])))
    hits = ((decided == y) & (y == 1)).nonzero().reshape(-1)
    if scores.ndim == 1 and len(hits):
        text = f"Pictures of {classes[1]} that were found by the smallest margin."
        sheets.append(sheet("Hits at the threshold", text, tiles(hits[confidence[hits].argsort()][:MOST])))
    for number, name in enumerate(classes[:MOST_CLASSES]):
        mine = (y == number).nonzero().reshape(-1)
        if len(mine):
            text = "Pictures whose true class got the lowest probability, whatever was decided."
            sheets.append(sheet(f"Hardest pictures of {name}", text, tiles(mine[own[mine].argsort()][:HARDEST])))
    return sheets


def label_sheets(
    pictures: Pictures, rows: Sequence[int], y: Tensor, margins: Tensor, labels: Sequence[str]
) -> list[Sheet]:
    """Mistakes on test pictures, the surest first; labels without one have no sheet. Unknown labels are no mistakes.

    Args:
        pictures: All of them.
        rows: The number of each test picture among them.
        y: ``(n, l)`` in {1, 0, −1 (unknown)}.
        margins: ``(n, l)`` scores above the threshold of the label.
        labels: Their names.
    """
    sheets = []
    for name, truth, margin in zip(labels[:MOST_CLASSES], y.t(), margins.t(), strict=False):
        alarms = ((truth == 0) & (margin > 0)).nonzero().reshape(-1)
        misses = ((truth == 1) & (margin <= 0)).nonzero().reshape(-1)
        tiles = []
        for wrong, text in ((alarms, f"called {name}, is not"), (misses, f"is {name}, missed")):
            surest = wrong[margin[wrong].abs().argsort(descending=True)][:HARDEST]
            chosen = [rows[number] for number in surest.tolist()]
            tiles += [tile(pictures, row, f"{pictures.names[row]}: {text}", 128) for row in chosen]
        if tiles:
            text = f"{len(alarms)} false alarms and {len(misses)} misses among test pictures; the surest of each."
            sheets.append(sheet(f"Mistakes about {name}", text, tiles))
    return sheets


def neighbour_sheets(gallery: Gallery, vectors: Tensor) -> list[Sheet]:
    """Test pictures with their neighbours among test pictures: the worst lists, one a class, then ordinary ones."""
    rows = torch.from_numpy(gallery.rows(test=True))
    y, mine, names = torch.from_numpy(gallery.y)[rows], vectors[rows], gallery.pictures.names
    values = query_values(mine, y, (1,))["map@r"]
    neighbours = nearest(mine, min(NEIGHBOURS, len(rows) - 1))
    order = values.argsort(stable=True).tolist()
    worst = list({int(y[query]): query for query in reversed(order)}.values())  # of each class the worst query
    worst = sorted(worst, key=lambda query: float(values[query]))[:QUERIES]
    middle = order[len(order) // 2 :: max(1, len(order) // (4 * QUERIES))][:QUERIES]
    chosen = [("Hard to find", query) for query in worst]
    chosen += [("An ordinary query", query) for query in middle if query not in worst]

    def small(number: int, text: str) -> dict[str, str]:
        row = int(rows[number])
        return tile(gallery.pictures, row, f"{text}: {names[row]}", 112)

    sheets = []
    for title, query in chosen:
        own = gallery.names[int(y[query])]
        tiles = [small(query, f"query, {own}")]
        beside = zip(neighbours.indices[query].tolist(), neighbours.cosines[query].tolist(), strict=True)
        for rank, (number, cosine) in enumerate(beside, 1):
            verdict = "HIT" if y[number] == y[query] else f"miss, {gallery.names[int(y[number])]}"
            tiles.append(small(number, f"{rank}: {verdict} ({cosine:.2f})"))
        text = f"MAP@R {float(values[query]):.2f}. The query, then its nearest neighbours with their cosines."
        sheets.append(sheet(f"{title}: {own}", text, tiles))
    return sheets


def mask_sheets(run: MaskRun, scenes: Scenes, values: dict[str, float]) -> list[Sheet]:
    """The hardest and the easiest test pictures by their own value, each with decision, truth and difference."""
    order = sorted((name for name in values if not np.isnan(values[name])), key=values.__getitem__)
    rows = {name: row for row, name in enumerate(scenes.pictures.names)}
    hardest = [tile for name in order[:HARDEST] for tile in _three(run, scenes, rows[name], values[name])]
    easiest = [tile for name in order[::-1][:2] for tile in _three(run, scenes, rows[name], values[name])]
    text = "The picture with the decision over it, the truth over it, and where they differ (red)."
    return [sheet("The hardest test pictures", text, hardest), sheet("The easiest", text, easiest)]


def _three(run: MaskRun, scenes: Scenes, row: int, value: float) -> list[dict[str, str]]:
    """Decision, truth and difference over one picture."""
    from PIL import Image

    decided, truth = run.decide(scenes.pictures, row), scenes.mask(row)
    pixels = np.asarray(scenes.pictures.open(row)).astype(float)
    table, counts = np.array(PALETTE, dtype=float), truth != IGNORED

    def over(ids: Any, where: Any) -> Any:
        return np.where(where[..., None], 0.45 * pixels + 0.55 * table[ids % len(table)], pixels)

    wrong = ((decided != truth) & counts)[..., None]
    images = {
        "decided": over(decided, decided > 0),
        "truth": over(np.where(counts, truth, 0), (truth > 0) & counts),
        "difference": np.where(wrong, 0.3 * pixels + 0.7 * np.array([255.0, 0.0, 0.0]), pixels),
    }
    name = scenes.pictures.names[row]
    return [
        {
            "picture": thumbnail(Image.fromarray(image.astype(np.uint8))),
            "alt": f"{name}, {kind}",
            "caption": f"{name}: {value:.3f}" if kind == "decided" else kind,
        }
        for kind, image in images.items()
    ]
