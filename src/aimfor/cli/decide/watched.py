"""What `aimfor check` watches: a decision of `aimfor decide`, or a run of `aimfor train` with a floor in its metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...constraints.parse import parse_constraint, parse_objective
from ...decisions import Decision, Problem
from ...decisions.labels import constraints_by_class, right_or_wrong
from ...errors import InputError
from ...files import read_json, reading
from ...targets.classes import Labels
from .classes import ClassColumns
from .rows import Vocabulary, arrays, read_scores
from .several import abstention_problem
from .shape import shaped

if TYPE_CHECKING:
    from ...runs.finished import Run

#: Scores, labels and group codes of a file of new rows.
Rows = tuple[Any, Any, dict[str, Any]]


@dataclass(frozen=True)
class Watched:
    """The floors, the decisions that should keep them, how to read new rows, and where the log lies."""

    problem: Problem
    decision: Decision
    read: Callable[[Path, str], Rows]
    folder: Path
    #: How often each row of a file is counted: once for each class that is watched.
    copies: int = 1
    #: By attribute, what its labels 0, 1, … are called in the file.
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)


def watched(path: Path) -> Watched:
    """Raises `InputError` where there is nothing to watch: no decision, no threshold, a metric without a floor."""
    if path.is_dir() and (path / "config.json").exists():
        from ...runs.finished import load_run  # a run needs all that trained it

        return _of_run(load_run(path))
    return _of_decision(path / "decision.json" if path.is_dir() else path)


def _of_run(run: Run) -> Watched:
    from ...data.columns.kinds import Remarks
    from ...data.sources import load
    from ...metrics.at_rate import AtRate

    metric = run.objective.metric
    if not isinstance(metric, AtRate):
        raise InputError(
            "run", f"one that was trained for {run.metric}", "a metric with a floor, e.g. recall@precision=0.9",
            "Without a floor there is nothing to watch; aimfor predict --evaluate shows the metric.",
        )  # fmt: skip

    def read(data: Path, encoding: str) -> Rows:
        target = run.config["settings"]["target"]
        source = load(str(data), target, labelled=False, encoding=encoding)
        if source.labels is None:
            raise InputError("data", f"{data.name}, without the column {target!r}", "new rows with their labels")
        known = np.array([label is not None for label in source.labels], dtype=bool)
        if not known.any():
            raise InputError("data", f"{data.name}, where {target!r} is empty", "new rows with their labels")
        scores = run.scores(source, Remarks())[known]
        return scores, run.labels.encode(source.labels[known]), {}

    return Watched(metric.problem(), Decision(run.threshold), read, run.folder)


@dataclass(frozen=True)
class _Cuts:
    """The thresholds in decision.json."""

    threshold: float | None
    attribute: str | None
    thresholds: dict[str, float]


@dataclass(frozen=True)
class _Document:
    """What decision.json must hold for somebody to watch it: a decision about two classes."""

    score: str
    target: str
    positive: str
    groups: dict[str, list[str]]
    direction: Literal["maximize", "minimize"]
    objective: str
    constraints: list[str]
    decision: _Cuts
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Floors:
    """The same for floors of several classes."""

    target: str
    scores: dict[str, str]
    direction: Literal["maximize", "minimize"]
    objective: str
    constraints: list[str]
    decisions: dict[str, _Cuts]


@dataclass(frozen=True)
class _Abstaining:
    """The same for decisions that may be left to a person."""

    target: str
    scores: dict[str, str]
    error: float
    decision: _Cuts


def _of_decision(path: Path) -> Watched:
    if not path.exists():
        raise InputError(
            "decision", f"{path}, which does not exist", "decision.json of aimfor decide, or its folder, or a run"
        )
    document = read_json(path)
    kinds = {"decision": _two_classes, "decisions": _floors, "abstention": _abstaining}
    if document.get("kind") not in kinds:
        raise InputError("decision", f"{path.name}, which holds no decision", "decision.json of aimfor decide")
    return kinds[document["kind"]](document, path)


def _two_classes(plain: dict[str, Any], path: Path) -> Watched:
    with reading(path):
        document = shaped(_Document, plain)
        words = Vocabulary(Labels(["rest", document.positive], True), document.groups)
        problem = Problem(
            document.direction,
            parse_objective(document.objective),
            [parse_constraint(text) for text in document.constraints],
        )
        cuts = document.decision
        own = {float(label): cut for label, cut in cuts.thresholds.items()}
        if cuts.attribute is not None and cuts.attribute not in words.groups:
            raise ValueError(f"thresholds by {cuts.attribute!r}, which is not among its groups")
    _refuse_none(cuts.threshold)

    def read(data: Path, encoding: str) -> Rows:
        table = read_scores(data, document.score, document.target, encoding)
        strange = sorted(set(table.labels) - set(document.labels))
        if document.labels and strange:  # one that is unknown would be counted as negative
            known = " or ".join(map(repr, document.labels[:5]))
            raise InputError("data", f"the label {strange[0]!r} in {data.name}", f"labels of the decision, {known}")
        return arrays(table, words)

    return Watched(problem, Decision(cuts.threshold, cuts.attribute, own), read, path.parent, words=words.groups)


def _floors(plain: dict[str, Any], path: Path) -> Watched:
    """The classes that have a threshold, one below the other: which one a row is about is its group "label"."""
    with reading(path):
        document = shaped(_Floors, plain)
        columns = ClassColumns(document.target, document.scores)
        cuts = {name: cut.threshold for name, cut in document.decisions.items() if cut.threshold is not None}
        places = {name: columns.names.index(name) for name in cuts}
        constraints = [
            parse_constraint(text, lambda _, word: float(columns.names.index(word)))
            for text in document.constraints
            if set(constraints_by_class([parse_constraint(text)], columns.names)) <= set(cuts)
        ]
        objective = parse_objective(document.objective)
    _refuse_none(next(iter(cuts.values()), None))
    problem = Problem(document.direction, objective, constraints)
    own = {float(places[name]): cut for name, cut in cuts.items()}

    def read(data: Path, encoding: str) -> Rows:
        scores, marks = columns.marked(columns.read(data, encoding, new=True))
        about = np.array(list(places.values()))
        label = about.repeat(len(scores))
        return scores[:, about].T.reshape(-1), marks[:, about].T.reshape(-1), {"label": label}

    decision = Decision(next(iter(own.values())), "label", own)
    return Watched(problem, decision, read, path.parent, len(places), {"label": columns.names})


def _abstaining(plain: dict[str, Any], path: Path) -> Watched:
    with reading(path):
        document = shaped(_Abstaining, plain)
        problem = abstention_problem(document.error)
    _refuse_none(document.decision.threshold)
    columns = ClassColumns(document.target, document.scores)

    def read(data: Path, encoding: str) -> Rows:
        sure = right_or_wrong("data", *columns.ids(columns.read(data, encoding, new=True)), 0.0)
        return sure.scores, sure.targets, {}

    return Watched(problem, Decision(document.decision.threshold), read, path.parent)


def _refuse_none(threshold: float | None) -> None:
    if threshold is None:
        raise InputError("decision", "no threshold", "a decision with a threshold", "There is nothing to watch.")
