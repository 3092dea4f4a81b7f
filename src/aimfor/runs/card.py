"""The model card: README.md of a run folder, in the form model hubs read."""

from __future__ import annotations

import json
from typing import Any

from ..targets.evaluate import or_undefined
from .evaluation import EnsembleEvaluation, Evaluation, LabelsEvaluation, NeighboursEvaluation, PixelsEvaluation
from .task import Task

#: Of each kind, what model hubs call it.
TASKS = {
    "table": "tabular-classification",
    "stream": "tabular-classification",
    "lists": "tabular-ranking",
    "pixels": "image-classification",
    "features": "image-classification",
    "labels": "image-classification",
    "masks": "image-segmentation",
    "embedding": "image-feature-extraction",
}


def card(task: Task, found: Evaluation) -> str:
    """What it is, how good it is and on what, how it decides, and what was assumed."""
    name, metric, test, where = task.name, found.metric, found.test.metric, "on test rows"  # type: ignore[attr-defined]
    if isinstance(found, EnsembleEvaluation):
        test, where = found.expected.metric, "expected on new rows"
    notes = "".join(f"- {_plain(note)}\n" for note in found.notes) or "- none\n"
    table = "".join(f"| {title} | {value} |\n" for title, value in _lines(found))
    sort = "ranking" if task.kind == "lists" else TASKS[task.kind].partition("-")[2]
    data = json.dumps(name, ensure_ascii=False)
    result = f"value: {test:.6f}" if test == test else "value: null"
    return f"""---
library_name: aimfor
tags: [aimfor, {TASKS[task.kind]}]
model-index:
- name: {data}
  results:
  - task: {{type: {sort}}}
    dataset: {{name: {data}, type: {data}}}
    metrics:
    - {{type: {json.dumps(metric)}, {result}}}
---

# {_plain(name)}: trained for {metric}

| | |
|---|---|
| {metric} {where} | {or_undefined(test)} |
{table}
{_decision(task, found)}
Use it: `aimfor {"embed" if task.kind == "embedding" else "predict"} THIS_FOLDER NEW_DATA`. Everything about the run: \
`aimfor report THIS_FOLDER`.

## What was assumed or left out

{notes}"""


def _lines(found: Any) -> list[tuple[str, str]]:
    if isinstance(found, EnsembleEvaluation):
        rows = found.rows
        members = ", ".join(f"{one.title} {one.weight:.2f}" for one in found.ensemble.members if one.weight > 0)
        return [
            *([(f"{found.metric} on test rows", or_undefined(found.test.metric))] if rows["test"] else []),
            ("rows (train / calibration / test)", f"{rows['train']} / {rows['validation']} / {rows['test']}"),
            ("members by weight", members),
            ("folds", str(found.ensemble.folds)),
        ]
    pictures = ("pictures (train / test)", f"{found.pictures['train']} / {found.pictures['test']}")
    if isinstance(found, LabelsEvaluation):
        return [pictures, *((_plain(one.label), or_undefined(one.value)) for one in found.labels)]
    if isinstance(found, PixelsEvaluation):
        return [pictures, *((_plain(name), or_undefined(value)) for name, value in found.test.classes.items())]
    assert isinstance(found, NeighboursEvaluation)
    return [pictures, ("before training", or_undefined(found.untrained.metric)), ("embedding", found.chosen)]


def _decision(task: Any, found: Any) -> str:
    """How scores become decisions, in a sentence."""
    if task.settings.query is not None:
        query = _plain(task.settings.query)
        return f"Scores put the rows of one `{query}` in order, the highest first; nothing is decided.\n"
    if isinstance(found, LabelsEvaluation):
        return "Each label is decided at a threshold of its own.\n"
    if isinstance(found, PixelsEvaluation):
        return f"The class of each pixel: {_plain(found.out_of_fold.text)}.\n"
    if isinstance(found, NeighboursEvaluation):
        return "Pictures of one class are near each other by cosine; nothing is decided.\n"
    if not task.labels.binary:
        return "The class with the highest score is decided.\n"
    rule = f"Decisions are `score > {found.threshold:.6g}`: {_plain(found.threshold_text)}. "
    return rule + f"The positive class is `{_plain(task.labels.classes[1])}`.\n"


def _plain(text: str) -> str:
    """User text without line breaks or marks that Markdown or HTML would act on."""
    return "".join(" " if c in "\r\n|" else c for c in text).replace("<", "&lt;").replace("`", "'")
