"""Plots as inline SVG: text stays text, colours are told apart without colour vision."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from ..runs.evaluation import Curves
from ..targets.importance import ColumnImportance
from ..targets.results import Bin

COLOURS = ("#0b6e99", "#c2571a", "#3b7d3b", "#8a4f9e", "#8c6d1f", "#b03060", "#4a4a4a", "#2f8f8f")

#: (colour, text) of every line, in the order they are drawn.
Legend = list[tuple[str, str]]


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def svg(name: str, title: str, size: tuple[float, float], draw: Callable[[Any], Any]) -> str:
    """Draws on a fresh figure and returns an <svg> element that scales with the page and has a text alternative.

    If ``draw`` returns axes, the places of their points (0, 0) and (1, 1) stand in the element's ``data-frame``, so
    that a script can move a mark over the curve.
    """
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 9.0}
    settings |= {"axes.titlesize": 10.0, "axes.titleweight": "bold"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        axes = draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r'\b(width|height)="[\d.]+pt"\s*', "", drawn, count=2)
    # Several figures share one page: names must differ between them.
    drawn = re.sub(r'id="([A-Za-z0-9_.]+)"', rf'id="{name}-\1"', drawn)
    drawn = re.sub(r'(url\(#|href="#)([A-Za-z0-9_.]+)', rf"\1{name}-\2", drawn)
    label = f'<svg role="img" aria-label="{escape(title, quote=True)}"'
    if axes is not None:
        label += f' data-frame="{_frame(figure, axes)}"'
    return drawn.replace("<svg", label, 1)


def _frame(figure: Any, axes: Any) -> str:
    """``x0 y0 x1 y1`` of (0, 0) and (1, 1) in the units of the viewBox: points, counted from the top."""
    height = 72 * figure.get_size_inches()[1]
    corners = axes.transData.transform([(0, 0), (1, 1)]) * 72 / figure.dpi
    return " ".join(f"{value:.3f}" for x, y in corners for value in (x, height - y))


def tidy(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)


def shortened(text: str, most: int = 28) -> str:
    """User text for an axis: on one line, of bearable length, and never read as a formula."""
    plain = " ".join(text.split()).replace("$", r"\$")
    return plain if len(plain) <= most else plain[: most - 1] + "…"


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
            values = np.array([curves[kind] for curves in several])
            mean = values.mean(0)
            axes.plot(grid, mean, color=colour(number), linewidth=1.4)
            if len(values) > 1:
                band = values.std(0, ddof=1)
                axes.fill_between(grid, mean - band, mean + band, color=colour(number), alpha=0.12, linewidth=0)
        if point is not None:
            axes.plot(*point[kind], "o", color="#222222", markersize=6, clip_on=False, zorder=5, gid="point")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        tidy(axes, title, x, y)
        return axes

    figures = []
    for panel in PANELS:
        kind, title, *_ = panel
        at = "" if point is None else " with the operating point at {:.3f}, {:.3f}".format(*point[kind])
        figures.append(svg(prefix + kind, f"{title} curve{at}", (3.3, 3.0), partial(draw, panel=panel)))
    legend = [(colour(number), title) for number, title in enumerate(runs)] if len(runs) > 1 else []
    return figures, legend


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
        tidy(axes, "Scores by class", "score", "share of the class")

    legend = [(colour(0), names[0]), (colour(1), names[1])]
    legend += [("#222222", "tuned threshold (dashed)")] if inside else []
    return svg("histogram", "Histogram of scores by class", (5.2, 2.4), draw), legend


def reliability(bins: Sequence[Bin], several: bool) -> str:
    """A point a bin with its exact interval; true probabilities lie on the diagonal."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
        x, y = [bin.stated for bin in bins], [bin.seen for bin in bins]
        axes.vlines(x, [bin.low for bin in bins], [bin.high for bin in bins], color=colour(0), linewidth=1.4)
        axes.plot(x, y, "o", color=colour(0), markersize=4, gid="bins")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        tidy(axes, "Reliability", f"stated probability{' of the decision' if several else ''}", "share that came true")

    return svg("reliability", "Reliability: stated probability against the share that came true", (3.6, 3.3), draw)


def importance(rows: Sequence[ColumnImportance], metric: str) -> str:
    """Bars with their intervals, the largest on top."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        heights = np.arange(len(rows))[::-1]
        axes.barh(heights, [row.loss for row in rows], color=colour(0), alpha=0.45, height=0.7)
        for height, row in zip(heights, rows, strict=True):
            if row.low is not None:
                axes.plot([row.low, row.high], [height, height], color="#222222", linewidth=1.2)
        axes.axvline(0.0, color="#222222", linewidth=0.8)
        axes.set_yticks(heights, [shortened(row.column) for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        tidy(axes, "Lost without the column", f"{metric} lost when the column is shuffled", "")

    first = ", ".join(f"{row.column} {row.loss:.4f}" for row in rows[:5])
    return svg(
        "importance", f"Permutation importance with 95 % intervals: {first}", (5.2, 0.9 + 0.22 * len(rows)), draw
    )


def fold_curves(members: Sequence[tuple[str, Curves]]) -> str:
    """A panel for each member: one line a fold on its held-out rows, and where the member was told to stop."""
    across = min(3, len(members))
    down = -(-len(members) // across)

    def draw(figure: Any) -> None:
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for index, (axes, (title, curves)) in enumerate(zip(panels, members, strict=False)):
            for fold in curves.folds:
                axes.plot(curves.ticks[: len(fold)], fold, color=colour(index), linewidth=0.9, alpha=0.7, marker=".")
            axes.axvline(curves.chosen, color="#222222", linewidth=0.9, linestyle=":")
            tidy(axes, shortened(title, 26), curves.unit, curves.value)
        for axes in panels[len(members) :]:
            axes.set_visible(False)

    stops = ", ".join(f"{title} stops at {curves.chosen:g} {curves.unit}" for title, curves in members)
    spoken = f"The metric on each fold's held-out rows while the members learn: {stops}"
    return svg("folds", spoken, (2.9 * across, 2.3 * down), draw)


def differences(rows: Sequence[dict[str, Any]], metric: str, name: str = "differences") -> str:
    """Differences with their intervals; what crosses zero cannot be relied on."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        heights = np.arange(len(rows))[::-1]
        for height, row in zip(heights, rows, strict=True):
            axes.plot([row["low"], row["high"]], [height, height], color=colour(0), linewidth=2)
            axes.plot([row["difference"]], [height], "o", color=colour(0))
        axes.axvline(0.0, color="#222222", linewidth=0.8)
        axes.set_yticks(heights, [shortened(row["title"], 44) for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        tidy(axes, "Paired differences", f"difference in {metric} to the rival", "")

    return svg(name, "Paired differences with confidence intervals", (5.6, 1.0 + 0.3 * len(rows)), draw)


def queries(counts: Sequence[int], metric: str) -> str:
    """Queries by their own value of the metric, from 0 to 1."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.stairs(counts, np.linspace(0.0, 1.0, len(counts) + 1), fill=True, color=colour(0), alpha=0.6, gid="bars")
        axes.set_xlim(0.0, 1.0)
        tidy(axes, "Queries", f"{shortened(metric)} of the query", "queries")

    return svg("queries", "Histogram of the metric over queries", (5.2, 2.4), draw)
