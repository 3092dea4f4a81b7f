"""The page of neighbours: how often they are of the same class, and what they look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.evaluation import NeighboursEvaluation
from .page import between, number


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
