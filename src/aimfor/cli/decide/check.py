"""Does a decision, or a run, still keep its floors on what arrived since? Counts add up in a log.

What is watched is a decision of `aimfor decide`, or a run of `aimfor train` with a floor in its metric. A promise for
new clusters is watched by clusters, each of which has to come whole, in one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...constraints.counts import Array, Counts
from ...constraints.expressions import Constraint, LinearSum, Rate, Sum
from ...constraints.parse import parse_constraint, parse_objective
from ...decisions import Certificate, Decision, Problem
from ...decisions.abstain import right_or_wrong
from ...decisions.betting import sequence_lower
from ...decisions.certificate import Lower, certify
from ...decisions.clusters import shuffled
from ...errors import InputError
from ...files import read_json, reading, shaped, write_text
from ...runs.process import in_turn
from ...targets.classes import Labels
from .answer import abstention_problem
from .log import clusters_of, numbered, past_lines, plain
from .result import in_words
from .scores import ScoredTable, Subsets, Vocabulary, class_ids, column_of, read_scores

if TYPE_CHECKING:
    from ...runs.finished import Run


@dataclass(frozen=True)
class NewRows:
    """Scores, labels, group codes and what rows belong to, ``(n,)`` each, of a file of so many rows."""

    scores: Any
    targets: Any
    groups: Mapping[str, Any]
    rows: int
    cluster: Array | None = None


@dataclass(frozen=True)
class Watched:
    """The floors, the decisions that should keep them, how to read new rows, and where the log lies."""

    problem: Problem
    decision: Decision
    read: Callable[[Path, str, str | None], NewRows]
    #: By attribute, what its labels 0, 1, … are called in the file.
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Of the log, unless it is named.
    folder: Path = Path()
    #: What the decision counts instead of rows.
    cluster: str | None = None

    @property
    def digest(self) -> str:
        """Of the problem and the thresholds: counts at different thresholds must not be added."""
        own = self.decision
        plain = [repr(self.problem), own.threshold, own.attribute, sorted(own.thresholds.items())]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


@dataclass(frozen=True)
class Check:
    """The certificate on all rows so far, and how many of them are new."""

    certificate: Certificate
    rows: int
    new: int
    log: Path
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """The certificate with groups and classes by the file's own words."""
        return in_words(str(self.certificate), self.words)


def check(path: Path, data: Path, log: Path | None, confidence: float, encoding: str = "utf8") -> Check:
    """Counts the new rows, adds them to those of the log, and appends one line to it.

    Raises:
        InputError: No decision with a threshold, no run with a floor, a file that was counted before, columns or
            labels that do not fit, clusters that were counted before, a log that cannot be written or that another
            check does not give free.
    """
    if not data.is_file():
        wrong = "which is a folder" if data.is_dir() else "which does not exist"
        raise InputError("data", f"{data}, {wrong}", "a CSV or Parquet file of new rows with their labels")
    what = watched(path)
    log, problem = log or what.folder / "check.jsonl", what.problem
    new = what.read(data, encoding, what.cluster)
    file = hashlib.sha256(data.read_bytes()).hexdigest()
    ids, index = ([], None) if new.cluster is None else numbered(new.cluster)
    counts = problem.count(new.scores, new.targets, groups=new.groups, decision=what.decision, cluster=index)
    if index is not None:
        by_cluster = Counts(counts.levels, shuffled(counts.table))
        counts = Counts(counts.levels, counts.table.sum(0))
    with in_turn(log):  # from reading what was counted to writing the sum
        past = past_lines(log, repr(problem), what.digest)
        if file in [line.sha256 for line in past]:
            raise InputError("data", f"{data.name}, which the log has counted before", "rows that arrived since")
        with reading(log):
            lower: Lower = sequence_lower if index is None else clusters_of(past, by_cluster, ids, str(what.cluster))
            if past:
                counts = past[-1].counts.read(counts.levels.names).plus(counts)
        total = new.rows + (past[-1].total if past else 0)
        certificate = certify(
            problem.objective, problem.constraints, counts, confidence, direction=problem.direction, lower=lower
        )
        line = {
            "file": data.name, "sha256": file, "rows": new.rows, "total": total,
            "verdict": certificate.verdict.value, "confidence": confidence, "problem": repr(problem),
            "decision": what.digest, "counts": plain(counts),
        }  # fmt: skip
        if index is not None:
            line["clusters"] = {"ids": ids, **plain(by_cluster)}
        before = log.read_text(encoding="utf8").rstrip("\n") + "\n" if past else ""
        write_text(log, before + json.dumps(line) + "\n")
    return Check(certificate, total, new.rows, log, what.words)


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

    def read(data: Path, encoding: str, _: str | None) -> NewRows:
        target = run.settings.target
        source = load(str(data), target, labelled=False, encoding=encoding)
        if source.labels is None:
            raise InputError("data", f"{data.name}, without the column {target!r}", "new rows with their labels")
        is_labelled = np.array([label is not None for label in source.labels], dtype=bool)
        if not is_labelled.any():
            raise InputError("data", f"{data.name}, where {target!r} is empty", "new rows with their labels")
        scores = run.scores(source, Remarks())[is_labelled]
        return NewRows(scores, run.labels.encode(source.labels[is_labelled]), {}, len(scores))

    return Watched(metric.problem(), Decision(run.threshold), read, folder=run.folder)


@dataclass(frozen=True)
class _Thresholds:
    """The thresholds in decision.json."""

    threshold: float | None
    attribute: str | None
    thresholds: dict[str, float]


@dataclass(frozen=True)
class _Single:
    """What decision.json must hold for somebody to watch it: a decision about two classes."""

    score: str
    target: str
    positive: str
    groups: dict[str, list[str]]
    direction: Literal["maximize", "minimize"]
    objective: str
    constraints: list[str]
    decision: _Thresholds
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Constraints:
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
    decisions: dict[str, _Thresholds]
    parts: dict[str, _Constraints]
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Abstaining:
    """The same for decisions that may be left to a person."""

    target: str
    scores: dict[str, str]
    error: float
    decision: _Thresholds


def _of_decision(path: Path) -> Watched:
    if not path.exists():
        raise InputError(
            "decision", f"{path}, which does not exist", "decision.json of aimfor decide, or its folder, or a run"
        )
    document = read_json(path)
    kinds = {"decision": _single, "decisions": _several, "abstention": _abstaining}
    if document.get("kind") not in kinds:
        raise InputError("decision", f"{path.name}, which holds no decision", "decision.json of aimfor decide")
    with reading(path):
        what, cluster = kinds[document["kind"]](document), document.get("cluster")
    if what.decision.threshold is None:
        raise InputError("decision", "no threshold", "a decision with a threshold", "There is nothing to watch.")
    return replace(what, folder=path.parent, cluster=cluster if isinstance(cluster, str) else None)


def _ids(table: ScoredTable, cluster: str | None) -> Array | None:
    return None if cluster is None else column_of(table.columns, "cluster", cluster)


def _single(plain: dict[str, Any]) -> Watched:
    document = shaped(_Single, plain)
    words, decision = Vocabulary(Labels(["rest", document.positive], True), document.groups), document.decision
    constraints = [parse_constraint(text) for text in document.constraints]
    problem = Problem(document.direction, parse_objective(document.objective), constraints)
    own = {float(label): threshold for label, threshold in decision.thresholds.items()}
    if decision.attribute is not None and decision.attribute not in words.groups:
        raise ValueError(f"thresholds by {decision.attribute!r}, which is not among its groups")

    def read(data: Path, encoding: str, cluster: str | None) -> NewRows:
        table = read_scores(data, document.score, document.target, encoding)
        _refuse_labels(table, document.labels)
        scores, targets, groups = words.arrays(table)
        return NewRows(scores, targets, groups, len(scores), _ids(table, cluster))

    return Watched(problem, Decision(decision.threshold, decision.attribute, own), read, words.groups)


def _several(plain: dict[str, Any]) -> Watched:
    """Those that have a threshold, one below the other: which one a row is about is a group of its own."""
    document = shaped(_Several, plain)
    subsets = Subsets(document.attribute, document.scores, document.positive)
    by_name = {name: own.threshold for name, own in document.decisions.items() if own.threshold is not None}
    names, thresholds = list(by_name), {float(code): threshold for code, threshold in enumerate(by_name.values())}
    constraints = [
        _about(parse_constraint(text), subsets.attribute, float(code))
        for code, name in enumerate(names)
        for text in document.parts[name].constraints
    ]
    problem = Problem("maximize", parse_objective(document.objective), constraints)
    if not set(names) <= set(subsets.scores) & set(subsets.positive):
        raise ValueError("a threshold without a column of scores")

    def read(data: Path, encoding: str, cluster: str | None) -> NewRows:
        table = read_scores(data, list(dict.fromkeys(subsets.scores.values())), document.target, encoding)
        _refuse_labels(table, document.labels)
        split = subsets.split(table, _ids(table, cluster))
        codes = np.repeat(np.arange(len(names)), [len(split[name][0]) for name in names])
        scores, targets = (np.concatenate([split[name][k] for name in names]) for k in (0, 1))
        ids = None if cluster is None else np.concatenate([split[name][2] for name in names])
        rows = len(scores) if subsets.by_category else len(scores) // len(names)
        return NewRows(scores, targets, {subsets.attribute: codes}, rows, ids)

    return Watched(problem, Decision(thresholds.get(0.0), subsets.attribute, thresholds), read,
                   {subsets.attribute: names})  # fmt: skip


def _about(constraint: Constraint, attribute: str, label: float) -> Constraint:
    """The same for the rows of one group."""
    left = constraint.left
    if not isinstance(left, Sum):
        raise ValueError(f"{constraint!r} is no bound on rates")
    terms = tuple((c, replace(rate, conditions=((attribute, label),))) for c, rate in left.terms)
    return replace(constraint, left=terms[0][1] if isinstance(left, Rate) else LinearSum(terms))


def _abstaining(plain: dict[str, Any]) -> Watched:
    document = shaped(_Abstaining, plain)

    def read(data: Path, encoding: str, cluster: str | None) -> NewRows:
        table = read_scores(data, list(document.scores.values()), document.target, encoding)
        rows = right_or_wrong("data", *class_ids(table, document.scores), 0.0)
        return NewRows(rows.scores, rows.targets, {}, len(rows), _ids(table, cluster))

    return Watched(abstention_problem(document.error), Decision(document.decision.threshold), read)


def _refuse_labels(table: ScoredTable, labels: list[str]) -> None:
    """A label that is unknown would be counted as negative."""
    strange = sorted(set(table.labels) - set(labels))
    if labels and strange:
        words = " or ".join(map(repr, labels[:5]))
        raise InputError("data", f"the label {strange[0]!r} in {table.path.name}", f"labels of the decision, {words}")
