"""Stated probability against what came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import colour, svg, tidy


def reliability(bins: Sequence[dict[str, Any]], several: bool) -> str:
    """A point a bin with its exact interval; true probabilities lie on the diagonal."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
        x, y = [one["stated"] for one in bins], [one["seen"] for one in bins]
        axes.vlines(x, [one["low"] for one in bins], [one["high"] for one in bins], color=colour(0), linewidth=1.4)
        axes.plot(x, y, "o", color=colour(0), markersize=4, gid="bins")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        axes.set_title("Reliability")
        x_title = "stated probability of the decision" if several else "stated probability"
        tidy(axes, x_title, "share that came true")

    return svg("reliability", "Reliability: stated probability against the share that came true", (3.6, 3.3), draw)
