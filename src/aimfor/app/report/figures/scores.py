"""Where the scores of both classes lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Legend, colour, svg, tidy


def score_histogram(histogram: dict[str, list[float]], threshold: float, names: Sequence[str]) -> tuple[str, Legend]:
    """Scores of both classes, each as a share of its class, with the threshold."""
    edges = np.array(histogram["edges"])
    inside = bool(edges[0] <= threshold <= edges[-1])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, kind in enumerate(("negative", "positive")):
            counts = np.array(histogram[kind])
            axes.stairs(counts / max(1.0, counts.sum()), edges, fill=True, alpha=0.45, color=colour(number))
        if inside:
            axes.axvline(threshold, color="#222222", linewidth=1.0, linestyle="--")
        axes.set_title("Scores by class")
        tidy(axes, "score", "share of the class")

    legend = [(colour(0), names[0]), (colour(1), names[1])]
    return svg("histogram", "Histogram of scores by class", (5.2, 2.4), draw), [
        *legend,
        *([("#222222", "tuned threshold (dashed)")] if inside else []),
    ]
