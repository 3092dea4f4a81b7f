"""The pages of pictures: several labels, masks, and neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.evaluation import LabelRow, LabelsEvaluation, NeighboursEvaluation, PixelsEvaluation
from ..runs.sheets import PALETTE
from .page import between, number


def labels_page(found: LabelsEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """The parts of the page."""
    settings, metric = config["settings"], found.metric
    return {
        "title": f"{Path(settings['data']).name}: {len(found.labels)} labels for {metric}",
        "subtitle": f"{found.pictures['train']} training and {found.pictures['test']} test pictures",
        "headline": [(f"mean {metric}, test", number(found.test.metric), f"95 %: {between(found.test.interval)}")],
        "facts": [("model", settings["model"]), ("seconds", number(found.seconds, 1))],
        "label_rows": [label_row(one) for one in found.labels],
    }


def label_row(one: LabelRow) -> dict[str, str]:
    return {
        "name": one.label,
        "value": number(one.value),
        "width": f"{8 * max(0.0, min(1.0, one.value)) if one.value == one.value else 0:.2f}",
        "positives": str(one.positives),
        "threshold": number(one.threshold, 3),
        "precision": number(one.precision, 3),
        "recall": number(one.recall, 3),
    }


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


def neighbours_page(found: NeighboursEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """The parts of the page."""
    settings, metric, test, untrained = config["settings"], found.metric, found.test, found.untrained
    classes, pictures = found.classes, found.pictures
    return {
        "title": f"{Path(settings['data']).name}: neighbours for {metric}",
        "subtitle": f"learned from {classes['train']} classes ({pictures['train']} pictures), evaluated on "
        f"{classes['test']} others ({pictures['test']} pictures)",
        "headline": [
            (f"{metric}, test", number(test.metric), f"95 %: {between(test.interval)}, over classes"),
            (f"{metric}, before training", number(untrained.metric), "the features as they are"),
            (
                f"{metric}, estimated",
                number(found.ways[found.chosen]),
                "on the held-out classes that made the choice",
            ),
        ],
        "beside": [
            {
                "name": name,
                "value": number(one.value),
                "interval": between(one.interval),
                "constant": number(untrained.all[name].value),
            }
            for name, one in test.all.items()
        ],
        "beside_text": "Every test picture asks for the others of its class among all of them; recall@k: a hit among "
        "the k nearest. Intervals are over classes. The last column is the embedding before training.",
        "facts": [
            ("embedding", f"{found.chosen}, {found.width} numbers"),
            *((f"{way}, classes kept aside", number(value)) for way, value in found.ways.items()),
            ("model", settings["model"] if settings["model"] != "auto" else "a small network on small copies"),
            ("seconds", number(found.seconds, 1)),
        ],
    }
