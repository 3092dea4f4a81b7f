"""Two sliders over the grid of choices: a bound, a confidence, and what they give."""

from __future__ import annotations

import json
import math
from html import escape
from typing import Any

from .figure import Scale, band_path

#: Rows of the table beside the sliders; ``{}`` is the objective.
_ROWS = {
    "threshold": "Threshold, chosen after looking",
    "kept": "{} kept",
    "without": "{} without the promise",
    "labels": "Labels missing: for a threshold, or to halve the difference",
    "before": "Threshold where this is asked before looking, and what it keeps",
}


def bands(choices: dict[str, Any], scale: Scale) -> dict[str, str]:
    """The band of every constraint and confidence as a path; the one asked for comes first."""
    paths = {
        f"{which} {sure}": band_path(scale, choices["thresholds"], one["values"], bounds)
        for which, one in enumerate(choices["constraints"])
        for sure, bounds in enumerate(one["band"])
    }
    asked = f"0 {choices['confidence']}"
    return {asked: paths.pop(asked), **paths}


def sliders(choices: dict[str, Any], objective: str, place: int, moving: dict[str, Any]) -> str:
    """Hidden until the script has filled them; ``moving`` is what it needs."""
    constraints = choices["constraints"]
    options = "".join(f'<option value="{k}">{escape(one["line"])}</option>' for k, one in enumerate(constraints))
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
        f'<label for="bound{place}">Promise: <output class="bound-now" for="bound{place}"></output></label>'
        f'<input class="bound" id="bound{place}" type="range" min="0" step="1">'
        f'<label for="sure{place}"{single}>Confidence: <output class="sure-now" for="sure{place}"></output></label>'
        f'<input class="sure" id="sure{place}" type="range" min="0" step="1"{single}>'
        f'<p class="said" aria-live="polite"></p><table>{numbers}</table></div>'
        f'<script type="application/json">{_script_json(moving)}</script>'
    )


def places(
    choices: dict[str, Any], scale: Scale, prices: list[dict[str, Any]], marked: float | None, value: str
) -> dict[str, Any]:
    """What the script needs: texts, answers asked beforehand (``marked`` with its ``value``), places in the figure."""
    before = {(line["place"], line["bound"]): line for line in prices}
    constraints = []
    for which, one in enumerate(choices["constraints"]):
        lines = [before.get((which, bound)) for bound in one["bounds"]]
        told = [
            None if line is None or line["threshold"] is None else
            [f"{line['threshold']:.10g}", number(line["objective"])] for line in lines
        ]  # fmt: skip
        if marked is not None:
            told[one["asked"]] = [f"{marked:.10g}", value]
        heights = [scale.up(bound) if scale.bottom <= bound <= scale.top else None for bound in one["bounds"]]
        shown = {name: one[name] for name in ("bounds", "asked", "words", "without", "cells")}
        constraints.append({**shown, "before": told, "y": heights})
    cuts = choices["thresholds"]
    return {
        **{name: choices[name] for name in ("kept", "would", "confidences", "confidence", "objective")},
        "thresholds": [f"{cut:.10g}" for cut in cuts], "x": [scale.across(cut) for cut in cuts],
        "constraints": constraints,
    }  # fmt: skip


def _script_json(value: Any) -> str:
    """JSON inside a script element, which no text of the user's can end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"
