"""What `aimfor check` watches: a decision of `aimfor decide`, or a run of `aimfor train` with a floor in its metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...constraints.expressions import Constraint, LinearSum, Rate, Sum
from ...constraints.parse import parse_constraint, parse_objective
from ...decisions import Decision, Problem
from ...decisions.labels import right_or_wrong
from ...errors import InputError
from ...files import read_json, reading
from ...targets.classes import Labels
from .command import abstention_problem
from .parts import Parts, class_ids
from .rows import ScoredTable, Vocabulary, arrays, read_scores
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
    #: Of the log, unless it is named.
    folder: Path = Path()
    #: How often each row of a file is counted: once for each class that is watched.
    copies: int = 1
    #: By attribute, what its labels 0, 1, … are called in the file.
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: What the decision counts instead of rows.
    cluster: str | None = None


def watched(path: Path) -> Watched:
    """Raises `InputError` where there is nothing to watch: no decision, no threshold, a metric without a floor."""
    if path.is_dir() and (path / "config.json").exists():
        from ...runs.finished import load_run  # a run needs all that trained it

        return _of_run(load_run(path))
    return _of_decision(path / "decision.json" if path.is_dir() else path)


def _of_run(run: Run) -> Watched:
    from ...data.columns.coders import Remarks
    from ...data.load import load
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
class _Part:
    """What was asked about one of several thresholds."""

    constraints: list[str]


@dataclass(frozen=True)
class _Several:
    """The same of one threshold for each class, category or side of a band."""

    target: str
    attribute: str
    scores: dict[str, str]
    positive: dict[str, str]
    objective: str
    decisions: dict[str, _Cuts]
    parts: dict[str, _Part]
    labels: list[str] = field(default_factory=list)


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
    kinds = {"decision": _two_classes, "decisions": _several, "abstention": _abstaining}
    if document.get("kind") not in kinds:
        raise InputError("decision", f"{path.name}, which holds no decision", "decision.json of aimfor decide")
    with reading(path):
        found, cluster = kinds[document["kind"]](document), document.get("cluster")
    if found.decision.threshold is None:
        raise InputError("decision", "no threshold", "a decision with a threshold", "There is nothing to watch.")
    return replace(found, folder=path.parent, cluster=cluster if isinstance(cluster, str) else None)


def _two_classes(plain: dict[str, Any]) -> Watched:
    document = shaped(_Document, plain)
    words, cuts = Vocabulary(Labels(["rest", document.positive], True), document.groups), document.decision
    constraints = [parse_constraint(text) for text in document.constraints]
    problem = Problem(document.direction, parse_objective(document.objective), constraints)
    own = {float(label): cut for label, cut in cuts.thresholds.items()}
    if cuts.attribute is not None and cuts.attribute not in words.groups:
        raise ValueError(f"thresholds by {cuts.attribute!r}, which is not among its groups")

    def read(data: Path, encoding: str) -> Rows:
        table = read_scores(data, document.score, document.target, encoding)
        _refuse_labels(table, document.labels)
        return arrays(table, words)

    return Watched(problem, Decision(cuts.threshold, cuts.attribute, own), read, words=words.groups)


def _several(plain: dict[str, Any]) -> Watched:
    """Those that have a threshold, one below the other: which one a row is about is a group of its own."""
    document = shaped(_Several, plain)
    parts = Parts(document.attribute, document.target, document.scores, document.positive)
    cuts = {name: one.threshold for name, one in document.decisions.items() if one.threshold is not None}
    names, own = list(cuts), {float(place): cut for place, cut in enumerate(cuts.values())}
    constraints = [
        _about(parse_constraint(text), parts.attribute, float(place))
        for place, name in enumerate(names)
        for text in document.parts[name].constraints
    ]
    problem = Problem("maximize", parse_objective(document.objective), constraints)
    if not set(names) <= set(parts.scores) & set(parts.positive):
        raise ValueError("a threshold without a column of scores")

    def read(data: Path, encoding: str) -> Rows:
        table = read_scores(data, list(dict.fromkeys(parts.scores.values())), parts.target, encoding)
        _refuse_labels(table, document.labels)
        split = parts.split(table)
        which = np.repeat(np.arange(len(names)), [len(split[name][0]) for name in names])
        scores, marks = (np.concatenate([split[name][k] for name in names]) for k in (0, 1))
        return scores, marks, {parts.attribute: which}

    return Watched(
        problem, Decision(own.get(0.0), parts.attribute, own), read,
        copies=1 if parts.by_category else len(names), words={parts.attribute: names},
    )  # fmt: skip


def _about(constraint: Constraint, attribute: str, label: float) -> Constraint:
    """The same for the rows of one group."""
    left = constraint.left
    if not isinstance(left, Sum):
        raise ValueError(f"{constraint!r} is no bound on rates")
    terms = tuple((c, replace(rate, conditions=((attribute, label),))) for c, rate in left.terms)
    return replace(constraint, left=terms[0][1] if isinstance(left, Rate) else LinearSum(terms))


def _abstaining(plain: dict[str, Any]) -> Watched:
    document = shaped(_Abstaining, plain)

    def read(data: Path, encoding: str) -> Rows:
        table = read_scores(data, list(document.scores.values()), document.target, encoding)
        sure = right_or_wrong("data", *class_ids(table, document.target, document.scores), 0.0)
        return sure.scores, sure.targets, {}

    return Watched(abstention_problem(document.error), Decision(document.decision.threshold), read)


def _refuse_labels(table: ScoredTable, known: list[str]) -> None:
    """A label that is unknown would be counted as negative."""
    strange = sorted(set(table.labels) - set(known))
    if known and strange:
        words = " or ".join(map(repr, known[:5]))
        raise InputError("data", f"the label {strange[0]!r} in {table.path.name}", f"labels of the decision, {words}")
