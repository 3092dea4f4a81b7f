"""Validation metric by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Legend, colour, svg, tidy


def learning_curves(history: Sequence[dict[str, Any]], metric: str) -> tuple[str, Legend]:
    """One colour a stage, one stage after the other."""
    stages = sorted({event["stage"] for event in history})

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        start = 0
        for number in stages:
            part = [event for event in history if event["stage"] == number]
            x = np.arange(start + 1, start + len(part) + 1)
            y = [np.nan if event["validation"] is None else event["validation"] for event in part]
            axes.plot(x, y, color=colour(number), marker="o" if len(part) == 1 else None, linewidth=1.4)
            start += len(part)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title("Validation by epoch")
        tidy(axes, "epoch (stages one after the other)", f"{metric} on validation rows")

    titles = {event["stage"]: event["title"] for event in history}
    return (
        svg("learning", f"{metric} on validation rows by epoch", (5.2, 2.6), draw),
        [(colour(number), titles[number]) for number in stages],
    )
