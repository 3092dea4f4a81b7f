"""The model card: README.md of a run folder, in the form model hubs read."""

from __future__ import annotations

import json
from typing import Any

from ...fitting.config import Recipe
from .evaluate import or_undefined
from .folder import Prepared


def model_card(ready: Prepared, recipe: Recipe, metrics: dict[str, Any]) -> str:
    """Markdown with a YAML head. Names that come from the user are quoted as JSON, which is YAML as well."""
    settings, best, rows = ready.settings, metrics["chosen"], metrics["rows"]
    lines = [
        (f"{settings.metric} on validation rows", f"{metrics['validation']:.4f}"),
        ("rows (train / validation / test)", f"{rows['train']} / {rows['validation']} / {rows['test']}"),
        ("model", f"{_plain(settings.model)}, {metrics['parameters']} parameters"),
        ("recipe", _plain(recipe.title)),
        ("best weights from", f"stage {best['stage'] + 1} ({best['loss']}), epoch {best['epoch'] + 1}"),
    ]
    return _card(ready, metrics, lines, "the threshold was chosen on validation data")


def committee_card(ready: Prepared, metrics: dict[str, Any]) -> str:
    """The card of a committee: who speaks, what was promised, what was found."""
    rows, found = metrics["rows"], metrics["committee"]
    speaking = [f"{one['title']} {one['weight']:.2f}" for one in found["members"] if one["weight"] > 0]
    lines = [
        (f"{ready.settings.metric} estimated from out-of-fold rows", or_undefined(metrics["validation"])),
        ("rows (train / calibration / test)", f"{rows['train']} / {rows['validation']} / {rows['test']}"),
        ("members by weight", ", ".join(speaking)),
        ("folds", str(found["folds"])),
    ]
    return _card(ready, metrics, lines, _plain(metrics["threshold_text"]))


def _card(ready: Prepared, metrics: dict[str, Any], lines: list[tuple[str, str]], threshold: str) -> str:
    settings, test = ready.settings, metrics["test"]
    quoted = {
        "data": json.dumps(ready.source.name, ensure_ascii=False),
        "metric": json.dumps(settings.metric),
    }
    notes = "".join(f"- {_plain(note)}\n" for note in metrics["notes"]) or "- none\n"
    table = "".join(f"| {name} | {value} |\n" for name, value in lines)
    decision = (
        f"Scores put the rows of one `{_plain(settings.query)}` in order, the highest first; nothing is decided.\n"
        if settings.query is not None
        else f"Decisions are `score > {metrics['threshold']:.6g}`: {threshold}. "
        f"The positive class is `{_plain(ready.labels.classes[1])}`.\n"
        if ready.labels.binary
        else "The class with the highest score is decided.\n"
    )
    return f"""---
library_name: aimfor
tags: [aimfor, {_task(ready)}]
model-index:
- name: {quoted["data"]}
  results:
  - task: {{type: {"ranking" if settings.query else "classification"}}}
    dataset: {{name: {quoted["data"]}, type: {quoted["data"]}}}
    metrics:
    - {{type: {quoted["metric"]}, value: {test["metric"]:.6f}}}
---

# {_plain(ready.source.name)}: trained for {settings.metric}

| | |
|---|---|
| {settings.metric} on test rows | {test["metric"]:.4f} |
{table}
{decision}
Use it: `aimfor predict THIS_FOLDER NEW_DATA`. Everything about the run: `aimfor report THIS_FOLDER`.

## What was assumed or left out

{notes}"""


def _task(ready: Prepared) -> str:
    if ready.lists is not None:
        return "tabular-ranking"
    return "tabular-classification" if ready.source.kind == "table" else "image-classification"


def _plain(text: str) -> str:
    """User text without line breaks or marks that Markdown or HTML would act on."""
    return "".join(" " if c in "\r\n|" else c for c in text).replace("<", "&lt;").replace("`", "'")
