"""ROC, precision-recall and gain, each with its title and the point at which decisions are made."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .base import Legend, colour, svg, tidy

#: kind, title, and what stands on the axes.
PANELS = (
    ("roc", "ROC", "false positive rate", "recall"),
    ("pr", "Precision and recall", "recall", "precision"),
    ("gain", "Gain", "share of rows looked at", "recall"),
)


def curve_panels(
    runs: dict[str, list[dict[str, list[float]]]],
    point: dict[str, tuple[float, float]] | None = None,
    prevalence: float | None = None,
    prefix: str = "",
) -> tuple[list[str], Legend]:
    """One figure a kind, and their common legend (empty for a single run).

    Args:
        runs: Title → curves on the grid, one for every run; of several the mean and a band of one deviation.
        point: Kind → (x, y) of the operating point.
        prevalence: Share of positives: the precision of deciding without looking.
        prefix: Before the names of the figures, so that several sets fit on one page.
    """
    grid = np.linspace(0.0, 1.0, 101)

    def draw(figure: Any, panel: tuple[str, str, str, str]) -> Any:
        kind, title, x, y = panel
        axes = figure.subplots()
        chance = [0.0, 1.0] if kind != "pr" else None if prevalence is None else [prevalence, prevalence]
        if chance is not None:
            axes.plot([0, 1], chance, color="#999999", linewidth=0.8, linestyle="--")
        for number, several in enumerate(runs.values()):
            values = np.array([one[kind] for one in several])
            mean = values.mean(0)
            axes.plot(grid, mean, color=colour(number), linewidth=1.4)
            if len(values) > 1:
                band = values.std(0, ddof=1)
                axes.fill_between(grid, mean - band, mean + band, color=colour(number), alpha=0.12, linewidth=0)
        if point is not None:
            axes.plot(*point[kind], "o", color="#222222", markersize=6, clip_on=False, zorder=5, gid="point")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.set_title(title)
        tidy(axes, x, y)
        return axes

    figures = [
        svg(prefix + panel[0], _spoken(panel[1], point, panel[0]), (3.3, 3.0), partial(draw, panel=panel))
        for panel in PANELS
    ]
    legend = [(colour(number), title) for number, title in enumerate(runs)] if len(runs) > 1 else []
    return figures, legend


def _spoken(title: str, point: dict[str, tuple[float, float]] | None, kind: str) -> str:
    if point is None:
        return f"{title} curve"
    return f"{title} curve with the operating point at {point[kind][0]:.3f}, {point[kind][1]:.3f}"
