"""The report of retrieval: how often neighbours are of the same class, and what they look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...fitting import checkpoint
from ...fitting.embedding import nearest, query_values
from ..report.page import between, number, render
from ..report.run import written
from ..report.sheets import SHEETS, sheet, thumbnail
from .data import Gallery

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
        tiles = [_tile(gallery, int(rows[one]), f"query, {own}")]
        for rank, (place, cosine) in enumerate(
            zip(found.places[one].tolist(), found.cosines[one].tolist(), strict=True), 1
        ):
            name = gallery.names[int(y[place])]
            verdict = "HIT" if int(y[place]) == int(y[one]) else f"miss, {name}"
            tiles.append(_tile(gallery, int(rows[place]), f"{rank}: {verdict} ({cosine:.2f})"))
        words = f"MAP@R {float(values[one]):.2f}. The query, then its nearest neighbours with their cosines."
        sheets.append(sheet(f"{title}: {own}", words, tiles))
    return sheets


def _tile(gallery: Gallery, row: int, said: str) -> dict[str, str]:
    name = gallery.pictures.names[row]
    return {
        "picture": thumbnail(gallery.pictures.open(row), 112),
        "alt": f"{said}: {name}",
        "caption": f"{said}: {name}",
    }


def write_neighbours(folder: Path, gallery: Gallery, vectors: Tensor) -> None:
    checkpoint.write_json(folder / SHEETS, {"sheets": neighbour_sheets(gallery, vectors)})


def write_retrieval_report(folder: Path) -> Path:
    """report.html from what the run keeps."""
    return written(folder, _page)


def _page(metrics: dict[str, Any], config: dict[str, Any], sheets: list[dict[str, Any]]) -> str:
    settings, test, metric = config["settings"], metrics["test"], metrics["metric"]
    classes, pictures = metrics["classes"], metrics["pictures"]
    return render(
        title=f"{Path(settings['data']).name}: neighbours for {metric}",
        subtitle=f"learned from {classes['train']} classes ({pictures['train']} pictures), evaluated on "
        f"{classes['test']} others ({pictures['test']} pictures)",
        metric=metric,
        headline=[
            (f"{metric}, test", number(test["metric"]), f"95 %: {between(test['interval'])}, over classes"),
            (
                f"{metric}, before training",
                number(metrics["untrained"]["metric"]),
                "the features as they are",
            ),
            (
                f"{metric}, estimated",
                number(metrics["ways"][metrics["chosen"]]),
                "on the held-out classes that made the choice",
            ),
        ],
        beside=[
            {
                "name": name,
                "value": number(one["value"]),
                "interval": between(one["interval"]),
                "constant": number(metrics["untrained"]["all"][name]["value"]),
            }
            for name, one in test["all"].items()
        ],
        beside_text="Every test picture asks for the others of its class among all of them; recall@k: a hit among "
        "the k nearest. Intervals are over classes. The last column is the embedding before training.",
        facts=[
            ("embedding", f"{metrics['chosen']}, {metrics['width']} numbers"),
            *((f"{way}, classes kept aside", number(value)) for way, value in metrics["ways"].items()),
            ("model", settings["model"] if settings["model"] != "auto" else "a small network on small copies"),
            ("seconds", number(metrics["seconds"], 1)),
        ],
        notes=metrics["notes"],
        sheets=sheets,
    )
