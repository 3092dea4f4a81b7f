"""Rates by threshold, the guaranteed thresholds shaded and the chosen one dashed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import COLOURS, Legend, colour, svg, tidy


def decision_curves(
    thresholds: Sequence[float], lines: dict[str, list[float | None]], region: Sequence[float], chosen: float | None
) -> tuple[str, Legend]:
    """The figure and its legend.

    Args:
        thresholds: Along the axis.
        lines: Name of a rate → its value at each threshold, None where it is undefined.
        region: Lowest and highest guaranteed threshold, or empty.
        chosen: The threshold to mark, or None.
    """
    legend: Legend = [(colour(number), name) for number, name in enumerate(lines)]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, values in enumerate(lines.values()):
            y = [np.nan if value is None else value for value in values]
            axes.plot(thresholds, y, color=colour(number), linewidth=1.4)
        if region:
            axes.axvspan(region[0], region[1], color=COLOURS[2], alpha=0.15, linewidth=0)
        if chosen is not None:
            axes.axvline(chosen, color="#222222", linewidth=1.0, linestyle="--")
        tidy(axes, "threshold", "rate")

    return svg("decision", "Rates by threshold with the guaranteed region", (7.2, 3.2), draw), legend
