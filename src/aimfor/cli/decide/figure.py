"""Rates by threshold as SVG: the guaranteed thresholds shaded, the chosen one dashed, the simultaneous band beside.

And two sliders over the grid of choices: a bound, a confidence, and what they give.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 340, 60, 56, 12
#: Told apart by most eyes, on white and on black.
COLOURS = ("#0b84d8", "#d55e00", "#00a078", "#cc79a7", "#c58a00", "#56b4e9", "#808080")
#: Name of a line and its colour.
Legend = list[tuple[str, str]]
Values = Sequence[float | None]


#: Rows of the table beside the sliders; ``{}`` is the objective.
_ROWS = {
    "threshold": "Threshold, chosen after looking",
    "kept": "{} kept",
    "without": "{} without the promise",
    "labels": "Labels missing: for a threshold, or to halve the difference",
    "before": "Threshold where this is asked before looking, and what it keeps",
}


@dataclass(frozen=True)
class Scale:
    """From thresholds and values to places in the picture."""

    first: float
    last: float
    bottom: float
    top: float

    @classmethod
    def of(cls, thresholds: Sequence[float], lines: Mapping[str, Values]) -> Scale:
        """The axis ends at the scores: the first and the last threshold lie outside them, for everybody and nobody."""
        measured = [value for values in lines.values() for value in values if value is not None]
        inside = thresholds[1:-1] if len(thresholds) > 3 else thresholds
        return cls(inside[0], inside[-1], min([0.0, *measured]), max([1.0, *measured]))

    def across(self, threshold: float) -> float:
        share = (min(max(threshold, self.first), self.last) - self.first) / ((self.last - self.first) or 1.0)
        return round(LEFT + (WIDTH - LEFT - 8) * share, 1)

    def up(self, value: float) -> float:
        value = min(max(value, self.bottom), self.top)
        share = (value - self.bottom) / ((self.top - self.bottom) or 1.0)
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share, 1)


def decision_curves(
    scale: Scale,
    thresholds: Sequence[float],
    lines: Mapping[str, Values],
    region: Sequence[float],
    chosen: float | None,
    bands: Mapping[str, str],
) -> tuple[str, Legend]:
    """The figure and its legend.

    Args:
        scale: Of both axes.
        thresholds: Along the axis, ascending.
        lines: Name of a rate → its value at each threshold, None where it is undefined.
        region: Lowest and highest guaranteed threshold, or empty.
        chosen: The threshold to mark, or None.
        bands: Paths by what the sliders call them; the first one is shown.
    """
    parts = [_axes(scale)]
    if region:
        left, right = (scale.across(end) for end in region)
        parts.append(
            f'<rect x="{left}" y="{TOP}" width="{max(right - left, 1.0):.1f}" height="{HEIGHT - BOTTOM - TOP}" '
            'fill="#00a078" opacity="0.18"/>'
        )
    for number, (name, path) in enumerate(bands.items()):
        hidden = " off" if number else ""
        parts.append(f'<path class="band{hidden}" data-at="{name}" d="{path}" fill="#808080" opacity="0.35"/>')
    legend = [(COLOURS[number % len(COLOURS)], name) for number, name in enumerate(lines)]
    for (colour, name), values in zip(legend, lines.values(), strict=True):
        path = line_path(scale, thresholds, values)
        parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"><title>{escape(name)}</title></path>'
        )
    if chosen is not None:
        down = f"M{scale.across(chosen)} {TOP}V{HEIGHT - BOTTOM}"
        parts.append(f'<path class="mark" d="{down}" stroke-width="1.5" stroke-dasharray="6 4"/>')
    if bands:
        parts.append(
            f'<path class="mark late off" d="M0 {TOP}V{HEIGHT - BOTTOM}" stroke-dasharray="1 3" stroke-width="2"/>'
        )
        parts.append(f'<path class="mark floor off" d="M{LEFT} 0H{WIDTH - 8}" stroke-dasharray="1 3"/>')
    label = "Rates by threshold with the guaranteed region"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>', legend


def line_path(scale: Scale, thresholds: Sequence[float], values: Values) -> str:
    path, pen = [], "M"
    for threshold, value in zip(thresholds, values, strict=True):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{scale.across(threshold)} {scale.up(value)}")
        pen = "L"
    return "".join(path)


def band_path(scale: Scale, thresholds: Sequence[float], values: Values, bounds: Values) -> str:
    """The area between what was measured and its bound."""
    pairs = [(t, v, b) for t, v, b in zip(thresholds, values, bounds, strict=True) if v is not None and b is not None]
    there = [f"{scale.across(t)} {scale.up(v)}" for t, v, _ in pairs]
    back = [f"{scale.across(t)} {scale.up(b)}" for t, _, b in reversed(pairs)]
    return f"M{'L'.join([*there, *back])}Z" if pairs else ""


def _axes(scale: Scale) -> str:
    """Two lines, five marks each."""
    marks = []
    for tick in range(5):
        value = scale.bottom + (scale.top - scale.bottom) * tick / 4
        threshold = scale.first + (scale.last - scale.first) * tick / 4
        y, x = scale.up(value), scale.across(threshold)
        anchor = "end" if tick == 4 else "start" if tick == 0 else "middle"
        marks.append(
            f'<path class="axis" d="M{LEFT} {y}H{WIDTH - 8}"/>'
            f'<text x="{LEFT - 6}" y="{y + 5}" text-anchor="end">{value:.3g}</text>'
            f'<text x="{x}" y="{HEIGHT - BOTTOM + 22}" text-anchor="{anchor}">{threshold:.3g}</text>'
        )
    middle = (WIDTH + LEFT) / 2
    return "".join(marks) + f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">threshold</text>'


def bands(choices: dict[str, Any], scale: Scale) -> dict[str, str]:
    """The band of every constraint and confidence as a path; the one asked for comes first."""
    paths = {
        f"{which} {level}": band_path(scale, choices["thresholds"], constraint["values"], bounds)
        for which, constraint in enumerate(choices["constraints"])
        for level, bounds in enumerate(constraint["band"])
    }
    first = f"0 {choices['confidence']}"
    return {first: paths.pop(first), **paths}


def sliders(choices: dict[str, Any], objective: str, position: int, moving: dict[str, Any]) -> str:
    """Hidden until the script has filled them; ``moving`` is what it needs."""
    constraints = choices["constraints"]
    options = "".join(
        f'<option value="{k}">{escape(constraint["line"])}</option>' for k, constraint in enumerate(constraints)
    )
    hidden = " hidden" if len(constraints) == 1 else ""
    single = " hidden" if len(choices["confidences"]) == 1 else ""
    numbers = "".join(
        f'<tr><th scope="row">{words.format(objective)}</th><td class="n-{name}"></td></tr>'
        for name, words in _ROWS.items()
    )
    return (
        '<h2>Another promise?</h2>\n<p class="hint">Moving a slider is looking: this answer comes from bounds that '
        "hold at all thresholds at once, so you may choose the floor by what you see, and have your confidence "
        "settled beforehand. It is more careful than the answer above, which was asked before.</p>\n"
        f'<div class="panel" hidden><label{hidden}>Which <select class="which">{options}</select></label>'
        f'<label for="bound{position}">Promise: <output class="bound-now" for="bound{position}"></output></label>'
        f'<input class="bound" id="bound{position}" type="range" min="0" step="1">'
        f'<label for="sure{position}"{single}>Confidence: '
        f'<output class="sure-now" for="sure{position}"></output></label>'
        f'<input class="sure" id="sure{position}" type="range" min="0" step="1"{single}>'
        f'<p class="said" aria-live="polite"></p><table>{numbers}</table></div>'
        f'<script type="application/json">{_script_json(moving)}</script>'
    )


def moving_parts(
    choices: dict[str, Any], scale: Scale, prices: list[dict[str, Any]], marked: float | None, value: str
) -> dict[str, Any]:
    """What the script needs: texts, answers asked beforehand (``marked`` with its ``value``), places in the figure."""
    before = {(line["place"], line["bound"]): line for line in prices}
    constraints = []
    for which, constraint in enumerate(choices["constraints"]):
        lines = [before.get((which, bound)) for bound in constraint["bounds"]]
        told = [
            None if line is None or line["threshold"] is None else
            [f"{line['threshold']:.10g}", number(line["objective"])] for line in lines
        ]  # fmt: skip
        if marked is not None:
            told[constraint["asked"]] = [f"{marked:.10g}", value]
        heights = [scale.up(bound) if scale.bottom <= bound <= scale.top else None for bound in constraint["bounds"]]
        chosen = {name: constraint[name] for name in ("bounds", "asked", "words", "without", "cells")}
        constraints.append({**chosen, "before": told, "y": heights})
    thresholds = choices["thresholds"]
    return {
        **{name: choices[name] for name in ("kept", "would", "confidences", "confidence", "objective")},
        "thresholds": [f"{threshold:.10g}" for threshold in thresholds],
        "x": [scale.across(threshold) for threshold in thresholds],
        "constraints": constraints,
    }  # fmt: skip


def _script_json(value: Any) -> str:
    """JSON inside a script element, which no text of the user's can end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"
