"""The model card: README.md of a run folder, in the form model hubs read."""

from __future__ import annotations

import json
from typing import Any

from ...fitting.config import Settings
from ..data.labels import Labels
from .evaluate import or_undefined


def committee_card(name: str, settings: Settings, labels: Labels, metrics: dict[str, Any], task: str) -> str:
    """The card of a committee: its members, the estimate from rows it did not learn from, the value on test rows."""
    rows, found = metrics["rows"], metrics["committee"]
    speaking = [f"{one['title']} {one['weight']:.2f}" for one in found["members"] if one["weight"] > 0]
    lines = [
        (f"{settings.metric} estimated from rows not learned from", or_undefined(metrics["validation"])),
        ("rows (train / calibration / test)", f"{rows['train']} / {rows['validation']} / {rows['test']}"),
        ("members by weight", ", ".join(speaking)),
        ("folds", str(found["folds"])),
    ]
    return _card(name, settings, labels, metrics, lines, _plain(metrics["threshold_text"]), task)


def _card(
    name: str,
    settings: Settings,
    labels: Labels,
    metrics: dict[str, Any],
    lines: list[tuple[str, str]],
    threshold: str,
    task: str,
) -> str:
    test = metrics["test"]
    quoted = {
        "data": json.dumps(name, ensure_ascii=False),
        "metric": json.dumps(settings.metric),
    }
    notes = "".join(f"- {_plain(note)}\n" for note in metrics["notes"]) or "- none\n"
    table = "".join(f"| {title} | {value} |\n" for title, value in lines)
    decision = (
        f"Scores put the rows of one `{_plain(settings.query)}` in order, the highest first; nothing is decided.\n"
        if settings.query is not None
        else f"Decisions are `score > {metrics['threshold']:.6g}`: {threshold}. "
        f"The positive class is `{_plain(labels.classes[1])}`.\n"
        if labels.binary
        else "The class with the highest score is decided.\n"
    )
    return f"""---
library_name: aimfor
tags: [aimfor, {task}]
model-index:
- name: {quoted["data"]}
  results:
  - task: {{type: {"ranking" if settings.query else "classification"}}}
    dataset: {{name: {quoted["data"]}, type: {quoted["data"]}}}
    metrics:
    - {{type: {quoted["metric"]}, value: {test["metric"]:.6f}}}
---

# {_plain(name)}: trained for {settings.metric}

| | |
|---|---|
| {settings.metric} on test rows | {test["metric"]:.4f} |
{table}
{decision}
Use it: `aimfor predict THIS_FOLDER NEW_DATA`. Everything about the run: `aimfor report THIS_FOLDER`.

## What was assumed or left out

{notes}"""


def _plain(text: str) -> str:
    """User text without line breaks or marks that Markdown or HTML would act on."""
    return "".join(" " if c in "\r\n|" else c for c in text).replace("<", "&lt;").replace("`", "'")
