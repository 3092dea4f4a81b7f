"""How the metric is spread over queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import colour, shortened, svg, tidy


def queries(counts: Sequence[int], metric: str) -> str:
    """Queries by their own value of the metric, from 0 to 1."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.stairs(counts, np.linspace(0.0, 1.0, len(counts) + 1), fill=True, color=colour(0), alpha=0.6, gid="bars")
        axes.set_title("Queries")
        axes.set_xlim(0.0, 1.0)
        tidy(axes, f"{shortened(metric)} of the query", "queries")

    return svg("queries", "Histogram of the metric over queries", (5.2, 2.4), draw)
