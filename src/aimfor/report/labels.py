"""The page of several labels: the mean, and a row for each label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.evaluation import LabelRow, LabelsEvaluation
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
