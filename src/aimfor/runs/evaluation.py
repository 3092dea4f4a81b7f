"""What a run found, as types ⇄ metrics.json, and in words for model hubs.

Report, card, terminal and Python read these types and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ..data import checkpoint
from ..errors import InputError
from ..targets.evaluate import or_undefined
from ..targets.importance import Importance
from ..targets.results import AnyPart, Interval, Number

if TYPE_CHECKING:
    from .kinds import Task

#: Number of the layout of metrics.json.
SCHEMA = 1
#: What every kind of run writes last: a folder that has it has everything.
FINISHED = "metrics.json"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What every kind of run states."""

    metric: str
    notes: list[str]
    seconds: float = 0.0
    schema: int = SCHEMA


@dataclass(frozen=True)
class Curves:
    """A member's metric on the held-out rows of each fold while it learns, and where it was told to stop."""

    ticks: list[Number]
    unit: str
    value: str
    folds: list[list[Number]]
    chosen: Number


@dataclass(frozen=True)
class MemberRow:
    """A member of the ensemble: its weight, and what it reaches alone on out-of-fold rows."""

    name: str
    title: str
    weight: float
    out_of_fold: Number
    seconds: float = 0.0
    curves: Curves | None = None


@dataclass(frozen=True)
class Members:
    """Who is in the ensemble, and by which rule the weights were found."""

    members: list[MemberRow]
    folds: int
    rule: str
    rule_name: str = ""

    @property
    def weighted(self) -> list[MemberRow]:
        """Those with a weight, the heaviest first."""
        return sorted((row for row in self.members if row.weight > 0), key=lambda row: -row.weight)


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, where draws can tell."""

    metric: Number
    interval: Interval | None = None


#: What a part is found on: rows that took no part in anything, or all rows, each by models and choices without it.
TEST_ROWS, HELD_OUT_ROWS = "test rows", "held-out rows"


@dataclass(frozen=True, kw_only=True)
class EnsembleEvaluation(Evaluation):
    """An ensemble on classes or ranked lists: what to expect on new rows, and everything found on ``part``."""

    expected: Estimate
    test: AnyPart
    importance: Importance
    threshold: Number
    threshold_text: str
    ensemble: Members
    rows: dict[str, int]
    part: str = TEST_ROWS
    #: Whether the threshold keeps the floor of the metric; None for a metric without one.
    guaranteed: bool | None = None
    torch: str = ""


@dataclass(frozen=True)
class LabelRow:
    """One of several labels."""

    label: str
    value: Number
    positives: int
    threshold: float
    precision: Number
    recall: Number


@dataclass(frozen=True, kw_only=True)
class LabelsEvaluation(Evaluation):
    """Several labels: the mean over them, and each."""

    test: Estimate
    labels: list[LabelRow]
    pictures: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class PixelsPart(Estimate):
    """Test pictures at their own size: of the data set, by class, and by picture."""

    classes: dict[str, Number]
    shares: dict[str, Number]
    by_image: Number
    images: dict[str, Number]


@dataclass(frozen=True)
class OutOfFold:
    """The metric by argmax, and with the offsets that decide; how they were found."""

    argmax: Number
    offsets: Number
    text: str


@dataclass(frozen=True, kw_only=True)
class PixelsEvaluation(Evaluation):
    """A class for every pixel."""

    test: PixelsPart
    out_of_fold: OutOfFold
    pictures: dict[str, int]
    offsets: dict[str, float]


@dataclass(frozen=True)
class Measured:
    """A mean over queries with its interval over classes."""

    value: Number
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class NeighboursPart(Estimate):
    """The metric and the usual ones beside it, over queries of the test classes."""

    all: dict[str, Measured]


@dataclass(frozen=True, kw_only=True)
class NeighboursEvaluation(Evaluation):
    """An embedding: on classes that took no part, before training, and each way of making one."""

    test: NeighboursPart
    untrained: NeighboursPart
    ways: dict[str, Number]
    chosen: str
    steps: int
    width: int
    classes: dict[str, int]
    pictures: dict[str, int]
    test_classes: list[str] = field(default_factory=list)


AnyEvaluation = EnsembleEvaluation | LabelsEvaluation | PixelsEvaluation | NeighboursEvaluation


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """metrics.json; NaN becomes null."""
    checkpoint.write_json(folder / FINISHED, asdict(evaluation))


def read_evaluation(folder: Path) -> AnyEvaluation:
    """What `write_evaluation` wrote. Raises `InputError` for a file that is damaged or of another layout."""
    path = folder / FINISHED
    document = checkpoint.read_json(path)
    if document.get("schema") != SCHEMA:
        came = f"{path} of layout {document.get('schema')!r}"
        raise InputError("run", came, f"layout {SCHEMA}", "Read it by the version that wrote it.")
    with checkpoint.reading(path):
        return TypeAdapter(AnyEvaluation).validate_python(document)


def card(task: Task, hub: str, evaluation: AnyEvaluation) -> str:
    """The model card, README.md, in the form that model hubs read.

    It says what the model is, how good it is and on what, how it decides, and what was assumed.

    Args:
        task: What was done.
        hub: What model hubs call it.
        evaluation: What the run found.
    """
    metric, test, where = evaluation.metric, evaluation.test.metric, "on test rows"
    if isinstance(evaluation, EnsembleEvaluation):
        test, where = evaluation.expected.metric, "expected on new rows"
    rows, decision = _described(task, evaluation)
    notes = "".join(f"- {_plain(note)}\n" for note in evaluation.notes) or "- none\n"
    table = "".join(f"| {title} | {value} |\n" for title, value in rows)
    data, result = json.dumps(task.name, ensure_ascii=False), f"{test:.6f}" if test == test else "null"
    return f"""---
library_name: aimfor
tags: [aimfor, {hub}]
model-index:
- name: {data}
  results:
  - task: {{type: {hub.partition("-")[2]}}}
    dataset: {{name: {data}, type: {data}}}
    metrics:
    - {{type: {json.dumps(metric)}, value: {result}}}
---

# {_plain(task.name)}: trained for {metric}

| | |
|---|---|
| {metric} {where} | {or_undefined(test)} |
{table}
{decision}

Use it: `aimfor {"embed" if task.kind == "embedding" else "predict"} THIS_FOLDER NEW_DATA`. Everything about the run: \
`aimfor report THIS_FOLDER`.

## What was assumed or left out

{notes}"""


def _described(task: Any, evaluation: AnyEvaluation) -> tuple[list[tuple[str, str]], str]:
    """Titles with values, and how scores become decisions in a sentence."""
    if isinstance(evaluation, EnsembleEvaluation):
        return _ensemble_rows(evaluation), _ensemble_decision(task, evaluation)
    rows = [("pictures (train / test)", f"{evaluation.pictures['train']} / {evaluation.pictures['test']}")]
    if isinstance(evaluation, LabelsEvaluation):
        rows += [(_plain(row.label), or_undefined(row.value)) for row in evaluation.labels]
        return rows, "Each label is decided at a threshold of its own."
    if isinstance(evaluation, PixelsEvaluation):
        rows += [(_plain(name), or_undefined(value)) for name, value in evaluation.test.classes.items()]
        return rows, f"The class of each pixel: {_plain(evaluation.out_of_fold.text)}."
    rows += [("before training", or_undefined(evaluation.untrained.metric)), ("embedding", evaluation.chosen)]
    return rows, "Pictures of one class are near each other by cosine; nothing is decided."


def _ensemble_rows(evaluation: EnsembleEvaluation) -> list[tuple[str, str]]:
    rows, ensemble = evaluation.rows, evaluation.ensemble
    tested = [(f"{evaluation.metric} on test rows", or_undefined(evaluation.test.metric))] if rows["test"] else []
    return [
        *tested,
        ("rows (train / calibration / test)", f"{rows['train']} / {rows['validation']} / {rows['test']}"),
        ("members by weight", ", ".join(f"{row.title} {row.weight:.2f}" for row in ensemble.weighted)),
        ("folds", str(ensemble.folds)),
    ]


def _ensemble_decision(task: Any, evaluation: EnsembleEvaluation) -> str:
    if task.settings.query is not None:
        query = _plain(task.settings.query)
        return f"Scores put the rows of one `{query}` in order, the highest first; nothing is decided."
    if not task.labels.binary:
        return "The class with the highest score is decided."
    rule = f"Decisions are `score > {evaluation.threshold:.6g}`: {_plain(evaluation.threshold_text)}. "
    return rule + f"The positive class is `{_plain(task.labels.classes[1])}`."


def _plain(text: str) -> str:
    """User text without line breaks or marks that Markdown or HTML would act on."""
    return "".join(" " if c in "\r\n|" else c for c in text).replace("<", "&lt;").replace("`", "'")
