"""Figures of reports: SVG files that come out the same, byte for byte, from the same numbers.

matplotlib's object interface only, so no state is left behind and no display is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aimfor.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0b6e99", "#c2571a", "#3b7d3b", "#8a4f9e", "#8c6d1f", "#b03060", "#4a4a4a", "#2f8f8f", "#7a3b1d", "#5566cc")
#: Text stays text (small files, searchable); ids come from the salt instead of from chance.
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "aimfor", "font.family": "sans-serif", "font.size": 9.0}


@contextmanager
def drawing(path: Path, size: tuple[float, float]) -> Iterator[Figure]:
    """A fresh figure to draw on, saved as deterministic SVG (or PNG, by the suffix) when the block ends.

    Args:
        path: Ends in ``.svg`` or ``.png``.
        size: Inches.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if path.suffix not in (".svg", ".png"):
        raise InputError("path", str(path.name), "a name that ends in .svg or .png")
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        nothing = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, metadata=nothing)


def tidy(axes: Any, xlabel: str, ylabel: str = "", title: str = "") -> None:
    """Names of the axes, a light grid, no box."""
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)


def dots(
    labels: Sequence[str],
    means: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    path: Path,
    title: str,
    xlabel: str,
) -> None:
    """One row per label: a dot at its mean and a line over its interval, with a line at zero.

    A dot is filled when the interval leaves out zero. An interval that is not finite (a single seed) is not drawn.

    Raises:
        InputError: The four sequences differ in length, or are empty.
    """
    rows = list(zip(labels, means, lows, highs, strict=False))
    if not rows or {len(labels), len(means), len(lows), len(highs)} != {len(rows)}:
        came = f"{len(labels)} labels, {len(means)} means, {len(lows)} lows, {len(highs)} highs"
        raise InputError("labels", came, "as many of each, at least one")
    with drawing(path, (6.4, 1.2 + 0.2 * len(rows))) as figure:
        axes = figure.subplots()
        for height, (_, mean, low, high) in zip(range(len(rows))[::-1], rows, strict=True):
            finite = math.isfinite(low) and math.isfinite(high)
            clear = finite and (low > 0 or high < 0)
            colour = COLOURS[1] if clear and high < 0 else COLOURS[0]
            if finite:
                axes.plot([low, high], [height, height], color=colour, linewidth=1.6)
            axes.plot([mean], [height], "o", color=colour, markersize=4.5, markerfacecolor=colour if clear else "white")
        axes.axvline(0.0, color="#222222", linewidth=0.8)
        axes.set_yticks(range(len(rows))[::-1], labels)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        tidy(axes, xlabel, title=title)


def band(axes: Any, x: Sequence[float], values: Any, name: str, colour: str) -> None:
    """The mean of ``values`` ``(n_seeds, n_x)`` as a line, with a band from the smallest to the largest."""
    values = np.asarray(values, dtype=float)
    axes.plot(x, values.mean(0), color=colour, linewidth=1.4, label=name)
    axes.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.12, linewidth=0)


def bands(
    x: Sequence[float],
    curves: Mapping[str, Any],
    path: Path,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    diagonal: bool = False,
) -> None:
    """One line per name: the mean over seeds, with a band from the smallest to the largest.

    Args:
        x: Places, ``(n_x,)``.
        curves: By name, values ``(n_seeds, n_x)``.
        path, title, xlabel, ylabel: Where to, and what to write on it.
        diagonal: Whether to draw the line of chance from (0, 0) to (1, 1).

    Raises:
        InputError: There are no curves, or one is not of shape ``(n_seeds, n_x)``.
    """
    arrays = {name: np.asarray(values, dtype=float) for name, values in curves.items()}
    if not arrays:
        raise InputError("curves", "none", "at least one")
    for name, values in arrays.items():
        if values.ndim != 2 or values.shape[1] != len(x) or not len(values):
            raise InputError("curves", f"{name!r} of shape {values.shape}", f"(seeds, {len(x)})")
    with drawing(path, (6.4, 4.2)) as figure:
        axes = figure.subplots()
        for number, (name, values) in enumerate(arrays.items()):
            band(axes, x, values, name, COLOURS[number % len(COLOURS)])
        if diagonal:
            axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
        tidy(axes, xlabel, ylabel, title)
        axes.legend(frameon=False, fontsize=8)
