"""What is lost when a column's values change places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import colour, shortened, svg, tidy


def importance(rows: Sequence[dict[str, Any]], metric: str) -> str:
    """Bars with their intervals, the largest on top."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = np.arange(len(rows))[::-1]
        axes.barh(places, [row["loss"] for row in rows], color=colour(0), alpha=0.45, height=0.7)
        for place, row in zip(places, rows, strict=True):
            if row["low"] is not None:
                axes.plot([row["low"], row["high"]], [place, place], color="#222222", linewidth=1.2)
        axes.axvline(0.0, color="#222222", linewidth=0.8)
        axes.set_yticks(places, [shortened(row["column"]) for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_title("Lost without the column")
        tidy(axes, f"{metric} lost when the column is shuffled", "")

    spoken = "Permutation importance with 95 % intervals: " + ", ".join(
        f"{row['column']} {row['loss']:.4f}" for row in rows[:5]
    )
    return svg("importance", spoken, (5.2, 0.9 + 0.22 * len(rows)), draw)
