"""The pages of pictures: several labels, masks, and neighbours."""

from __future__ import annotations

from typing import Any

from ..runs.evaluation import LabelRow, LabelsEvaluation, NeighboursEvaluation, PixelsEvaluation
from ..runs.sheets import PALETTE
from .page import bar, between, number


def labels_page(evaluation: LabelsEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """What the page is filled with."""
    metric = evaluation.metric
    return {
        "title": f"{len(evaluation.labels)} labels for {metric}",
        "subtitle": f"{evaluation.pictures['train']} training and {evaluation.pictures['test']} test pictures",
        "headline": [_test(evaluation, f"mean {metric}, test")],
        "facts": [("model", config["settings"]["model"])],
        "label_rows": [label_row(row) for row in evaluation.labels],
    }


def label_row(row: LabelRow) -> dict[str, str]:
    return {
        "name": row.label,
        "value": number(row.value),
        "width": bar(row.value),
        "positives": str(row.positives),
        "threshold": number(row.threshold, 3),
        "precision": number(row.precision, 3),
        "recall": number(row.recall, 3),
    }


def masks_page(evaluation: PixelsEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """What the page is filled with."""
    test, metric, model = evaluation.test, evaluation.metric, config["settings"]["model"]
    return {
        "title": f"masks for {metric}",
        "subtitle": f"{evaluation.pictures['train']} training and {evaluation.pictures['test']} test pictures",
        "headline": [
            _test(evaluation, f"{metric}, test"),
            (f"{metric}, by picture", number(test.by_image), "mean over test pictures"),
            (f"{metric}, argmax", number(evaluation.out_of_fold.argmax), "out of fold, before offsets"),
            (f"{metric}, estimated", number(evaluation.out_of_fold.offsets), "out of fold, with offsets"),
        ],
        "facts": [
            ("model", model if model != "auto" else "a small network from scratch"),
            ("decisions", evaluation.out_of_fold.text),
            ("folds", evaluation.pictures["folds"]),
        ],
        "mask_classes": [
            {
                "name": name,
                "value": number(value, 3),
                "width": bar(value),
                "share": f"{100 * test.shares[name]:.1f} %",
                "offset": f"{evaluation.offsets[name]:+.2f}",
                "colour": "#{:02x}{:02x}{:02x}".format(*PALETTE[index % len(PALETTE)]),
            }
            for index, (name, value) in enumerate(test.classes.items())
        ],
    }


def neighbours_page(evaluation: NeighboursEvaluation, config: dict[str, Any]) -> dict[str, Any]:
    """What the page is filled with."""
    metric, test, untrained = evaluation.metric, evaluation.test, evaluation.untrained
    classes, pictures, model = evaluation.classes, evaluation.pictures, config["settings"]["model"]
    estimated = number(evaluation.ways[evaluation.chosen])
    return {
        "title": f"neighbours for {metric}",
        "subtitle": f"learned from {classes['train']} classes ({pictures['train']} pictures), evaluated on "
        f"{classes['test']} others ({pictures['test']} pictures)",
        "headline": [
            _test(evaluation, f"{metric}, test", ", over classes"),
            (f"{metric}, before training", number(untrained.metric), "the features as they are"),
            (f"{metric}, estimated", estimated, "on the held-out classes that made the choice"),
        ],
        "beside": [
            {
                "name": name,
                "value": number(mean.value),
                "interval": between(mean.interval),
                "constant": number(untrained.all[name].value),
            }
            for name, mean in test.all.items()
        ],
        "beside_text": "Every test picture asks for the others of its class among all of them; recall@k: a hit among "
        "the k nearest. Intervals are over classes. The last column is the embedding before training.",
        "facts": [
            ("embedding", f"{evaluation.chosen}, {evaluation.width} numbers"),
            *((f"{way}, classes kept aside", number(value)) for way, value in evaluation.ways.items()),
            ("model", model if model != "auto" else "a small network on small copies"),
        ],
    }


def _test(evaluation: Any, title: str, over: str = "") -> tuple[str, str, str]:
    return title, number(evaluation.test.metric), f"95 %: {between(evaluation.test.interval)}{over}"
