"""The report of masks: how good each class is, and pictures with what was decided drawn over them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...fitting import checkpoint
from ...fitting.masks.fit import IGNORED
from ..report.page import between, number, render
from ..report.sheets import sheet, thumbnail
from .data import Scenes

if TYPE_CHECKING:
    from .run import MaskRun

#: Colours of classes in PNG files and reports: far apart, for colour-blind readers as well.
PALETTE = (
    (0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0),
    (204, 121, 167), (153, 153, 153), (102, 0, 102), (170, 255, 195), (128, 0, 0),
)  # fmt: skip
#: Pictures shown of the hardest.
SHOWN = 6


def write_mask_report(folder: Path, run: MaskRun, scenes: Scenes) -> Path:
    """report.html: numbers by class, then the hardest and the easiest test pictures."""
    metrics = checkpoint.read_json(folder / "metrics.json")
    with checkpoint.reading(folder / "metrics.json"):
        page = _page(metrics, run, scenes)
    path = folder / "report.html"
    checkpoint.write_text(path, page)
    return path


def _page(metrics: dict[str, Any], run: MaskRun, scenes: Scenes) -> str:
    test, metric = metrics["test"], metrics["metric"]
    return render(
        title=f"{Path(run.settings.data).name}: masks for {metric}",
        subtitle=f"{metrics['pictures']['train']} training and {metrics['pictures']['test']} test pictures",
        metric=metric,
        headline=[
            (f"{metric}, test", number(test["metric"]), f"95 %: {between(test['interval'])}"),
            (f"{metric}, by picture", number(test["by_image"]), "mean over test pictures"),
            (f"{metric}, argmax", number(metrics["out_of_fold"]["argmax"]), "out of fold, before offsets"),
            (f"{metric}, estimated", number(metrics["out_of_fold"]["offsets"]), "out of fold, with offsets"),
        ],
        facts=[
            ("model", run.settings.model if run.settings.model != "auto" else "a small network from scratch"),
            ("decisions", metrics["out_of_fold"]["text"]),
            ("folds", metrics["pictures"]["folds"]),
            ("seconds", number(metrics["seconds"], 1)),
        ],
        notes=metrics["notes"],
        mask_classes=_classes(test, metrics["offsets"]),
        sheets=_sheets(run, scenes, test["images"]),
    )


def _classes(test: dict[str, Any], offsets: dict[str, float]) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "value": number(value, 3),
            "width": f"{8 * (value or 0.0):.2f}",
            "share": f"{100 * test['shares'][name]:.1f} %",
            "offset": f"{offsets[name]:+.2f}",
            "colour": "#{:02x}{:02x}{:02x}".format(*PALETTE[place % len(PALETTE)]),
        }
        for place, (name, value) in enumerate(test["classes"].items())
    ]


def _sheets(run: MaskRun, scenes: Scenes, values: dict[str, float | None]) -> list[dict[str, Any]]:
    known = {name: value for name, value in values.items() if value is not None}
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
