"""Paired differences to the rival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import colour, shortened, svg, tidy


def differences(rows: Sequence[dict[str, Any]], metric: str, name: str = "differences") -> str:
    """Differences with their intervals; what crosses zero cannot be relied on."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = np.arange(len(rows))[::-1]
        for place, row in zip(places, rows, strict=True):
            axes.plot([row["low"], row["high"]], [place, place], color=colour(0), linewidth=2)
            axes.plot([row["difference"]], [place], "o", color=colour(0))
        axes.axvline(0.0, color="#222222", linewidth=0.8)
        axes.set_yticks(places, [shortened(row["title"], 44) for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_title("Paired differences")
        tidy(axes, f"difference in {metric} to the rival", "")

    return svg(name, "Paired differences with confidence intervals", (5.6, 1.0 + 0.3 * len(rows)), draw)
