"""What all figures share. matplotlib's object interface only: no global state, no display."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

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


def tidy(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)


def shortened(text: str, most: int = 28) -> str:
    """User text for an axis: on one line, of bearable length, and never read as a formula."""
    plain = " ".join(text.split()).replace("$", r"\$")
    return plain if len(plain) <= most else plain[: most - 1] + "…"
