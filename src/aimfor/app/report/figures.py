"""Figures as inline SVG text. matplotlib's object interface only: no global state, no display."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

COLOURS = ("#0b6e99", "#c2571a", "#3b7d3b", "#8a4f9e", "#8c6d1f", "#b03060", "#4a4a4a", "#2f8f8f")


def _svg(name: str, title: str, size: tuple[float, float], draw: Callable[[Any], None]) -> str:
    """Draws on a fresh figure and returns an <svg> element that scales with the page and has a text alternative."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 9.0}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\b(width|height)="[\d.]+pt"\s*', "", svg, count=2)
    # Several figures share one page: names must differ between them.
    svg = re.sub(r'id="([A-Za-z0-9_.]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(url\(#|href="#)([A-Za-z0-9_.]+)', rf"\1{name}-\2", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(title, quote=True)}"', 1)


def _tidy(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)


def learning_curves(history: Sequence[dict[str, Any]], metric: str) -> str:
    """Validation metric by epoch, one colour per stage."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        start = 0
        for number in sorted({event["stage"] for event in history}):
            part = [event for event in history if event["stage"] == number]
            x = np.arange(start + 1, start + len(part) + 1)
            y = [np.nan if event["validation"] is None else event["validation"] for event in part]
            marker = "o" if len(part) == 1 else None
            axes.plot(x, y, color=COLOURS[number % len(COLOURS)], label=part[0]["title"], marker=marker, linewidth=1.4)
            start += len(part)
        _tidy(axes, "epoch (stages one after the other)", f"{metric} on validation")
        axes.legend(frameon=False)

    return _svg("learning", f"{metric} on validation data by epoch", (6.4, 2.8), draw)


def curve_panels(runs: dict[str, list[dict[str, list[float]]]]) -> str:
    """ROC, precision-recall and gain; with several runs the mean and a band of one deviation over them."""
    grid = np.linspace(0.0, 1.0, 101)
    panels = (
        ("roc", "false positive rate", "recall"),
        ("pr", "recall", "precision"),
        ("gain", "share of rows looked at", "recall"),
    )

    def draw(figure: Any) -> None:
        for axes, (kind, x, y) in zip(figure.subplots(1, 3), panels, strict=True):
            for number, (title, several) in enumerate(runs.items()):
                values = np.array([one[kind] for one in several])
                mean, colour = values.mean(0), COLOURS[number % len(COLOURS)]
                axes.plot(grid, mean, color=colour, linewidth=1.4, label=title)
                if len(values) > 1:
                    band = values.std(0, ddof=1)
                    axes.fill_between(grid, mean - band, mean + band, color=colour, alpha=0.12, linewidth=0)
            if kind != "pr":
                axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1.02)
            _tidy(axes, x, y)
        if len(runs) > 1:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)

    return _svg("curves", "ROC, precision-recall and gain curves", (9.6, 3.0 + 0.2 * len(runs)), draw)


def score_histogram(histogram: dict[str, list[float]], threshold: float, names: Sequence[str]) -> str:
    """Scores of both classes, each as a share of its class, with the threshold."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        edges = np.array(histogram["edges"])
        for colour, kind, name in ((COLOURS[0], "negative", names[0]), (COLOURS[1], "positive", names[1])):
            counts = np.array(histogram[kind])
            axes.stairs(counts / max(1.0, counts.sum()), edges, fill=True, alpha=0.45, color=colour, label=name)
        if edges[0] <= threshold <= edges[-1]:
            axes.axvline(threshold, color="#222222", linewidth=1.0, linestyle="--", label="threshold")
        _tidy(axes, "score", "share of the class")
        axes.legend(frameon=False)

    return _svg("histogram", "Histogram of scores by class", (6.4, 2.6), draw)


def differences(rows: Sequence[dict[str, Any]], metric: str) -> str:
    """Paired differences to the rival with their intervals; what crosses zero cannot be relied on."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = np.arange(len(rows))[::-1]
        for place, row in zip(places, rows, strict=True):
            axes.plot([row["low"], row["high"]], [place, place], color=COLOURS[0], linewidth=2)
            axes.plot([row["difference"]], [place], "o", color=COLOURS[0])
        axes.axvline(0.0, color="#222222", linewidth=0.8)
        axes.set_yticks(places, [row["title"] for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        _tidy(axes, f"difference in {metric} to the rival", "")

    return _svg("differences", "Paired differences with confidence intervals", (7.2, 0.9 + 0.45 * len(rows)), draw)
