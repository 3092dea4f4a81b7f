"""Rates by threshold as SVG, the guaranteed thresholds shaded and the chosen one dashed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 320, 48, 40, 12
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
#: Name of a line and its colour.
Legend = list[tuple[str, str]]
Place = Callable[[float], float]


def decision_curves(
    thresholds: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
    region: Sequence[float],
    chosen: float | None,
) -> tuple[str, Legend]:
    """The figure and its legend.

    Args:
        thresholds: Along the axis, ascending.
        lines: Name of a rate → its value at each threshold, None where it is undefined.
        region: Lowest and highest guaranteed threshold, or empty.
        chosen: The threshold to mark, or None.
    """
    known = [value for values in lines.values() for value in values if value is not None]
    bottom, top = min([0.0, *known]), max([1.0, *known])
    first, last = thresholds[0], thresholds[-1]

    def across(threshold: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (min(max(threshold, first), last) - first) / ((last - first) or 1.0)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - bottom) / ((top - bottom) or 1.0)

    parts = [_axes(bottom, top, first, last, across, up)]
    if region:
        left, right = across(region[0]), across(region[1])
        parts.append(
            f'<rect x="{left:.1f}" y="{TOP}" width="{max(right - left, 1.0):.1f}" height="{HEIGHT - BOTTOM - TOP}" '
            'fill="#009e73" opacity="0.15"/>'
        )
    legend = [(COLOURS[place % len(COLOURS)], name) for place, name in enumerate(lines)]
    for (colour, name), values in zip(legend, lines.values(), strict=True):
        path, pen = [], "M"
        for threshold, value in zip(thresholds, values, strict=True):
            if value is None:
                pen = "M"
                continue
            path.append(f"{pen}{across(threshold):.1f} {up(value):.1f}")
            pen = "L"
        parts.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.4">'
            f"<title>{escape(name)}</title></path>"
        )
    if chosen is not None:
        at = f"{across(chosen):.1f}"
        parts.append(f'<path d="M{at} {TOP}V{HEIGHT - BOTTOM}" stroke="#222" stroke-dasharray="5 4"/>')
    label = "Rates by threshold with the guaranteed region"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>', legend


def _axes(bottom: float, top: float, first: float, last: float, across: Place, up: Place) -> str:
    """Two lines, five marks each."""
    marks = []
    for part in range(5):
        value, threshold = bottom + (top - bottom) * part / 4, first + (last - first) * part / 4
        y, x = up(value), across(threshold)
        marks.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - 8}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="12">{value:.3g}</text>'
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" font-size="12">{threshold:.3g}</text>'
        )
    middle = (WIDTH + LEFT) / 2
    return "".join(marks) + (
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle" font-size="12">threshold</text>'
    )
