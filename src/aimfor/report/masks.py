"""The page of masks: how good each class is, and pictures with what was decided drawn over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.evaluation import PixelsEvaluation
from ..runs.sheets import PALETTE
from .page import between, number


def masks_page(found: PixelsEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """The parts of the page."""
    test, metric, settings = found.test, found.metric, config["settings"]
    return {
        "title": f"{Path(settings['data']).name}: masks for {metric}",
        "subtitle": f"{found.pictures['train']} training and {found.pictures['test']} test pictures",
        "headline": [
            (f"{metric}, test", number(test.metric), f"95 %: {between(test.interval)}"),
            (f"{metric}, by picture", number(test.by_image), "mean over test pictures"),
            (f"{metric}, argmax", number(found.out_of_fold.argmax), "out of fold, before offsets"),
            (f"{metric}, estimated", number(found.out_of_fold.offsets), "out of fold, with offsets"),
        ],
        "facts": [
            ("model", settings["model"] if settings["model"] != "auto" else "a small network from scratch"),
            ("decisions", found.out_of_fold.text),
            ("folds", found.pictures["folds"]),
            ("seconds", number(found.seconds, 1)),
        ],
        "mask_classes": [
            {
                "name": name,
                "value": number(value, 3),
                "width": f"{8 * value if value == value else 0:.2f}",
                "share": f"{100 * test.shares[name]:.1f} %",
                "offset": f"{found.offsets[name]:+.2f}",
                "colour": "#{:02x}{:02x}{:02x}".format(*PALETTE[place % len(PALETTE)]),
            }
            for place, (name, value) in enumerate(test.classes.items())
        ],
    }
