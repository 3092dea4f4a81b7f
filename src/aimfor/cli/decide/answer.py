"""From options and files of scores to a decision: what ``aimfor decide`` does.

One threshold, or several whose promises hold together: classes, categories, a band left to a person; and abstention.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...checks.settings import number
from ...constraints.counts import Array
from ...constraints.expressions import refuse_constant, refuse_ends
from ...constraints.named import positive_rate
from ...constraints.parse import LabelOf, parse_constraint, parse_objective
from ...decisions import (
    Abstention,
    Decision,
    Problem,
    decide_categories,
    decide_labels,
    decide_or_abstain,
    decide_or_ask,
)
from ...decisions.abstain import coverage, errors_made, right_or_wrong
from ...decisions.independence import suspected
from ...decisions.several import constraints_by_class
from ...errors import InputError
from .described import described
from .result import Answer, Result
from .scores import (
    ACCEPT,
    LABEL,
    REJECT,
    SIDE,
    ScoredTable,
    Subsets,
    class_columns,
    class_ids,
    column_of,
    read_scores,
    refuse_overlap,
    vocabulary,
)

#: Shares of wrong decisions whose coverage is shown beside that of the one asked for, as multiples of it.
OTHER_ERRORS = (0.25, 0.5, 2.0, 4.0)
#: How the verdict names the threshold of each side of a band.
USE = {ACCEPT: "Accept above {}.", REJECT: "Reject at {} and below."}
#: Rows of one question: scores, labels and clusters, by the name of the question.
Split = dict[str, tuple[Any, Any, Any]]
#: Options that ask for another kind of answer, and those that then have no place.
_GOAL = ("maximize", "minimize", "subject_to")
_UNFIT = {
    "abstain": ("score", "group", "positive", "accept", "reject", "category", *_GOAL),
    "score_of": ("score", "group", "positive", "accept", "reject", "category"),
    "accept": ("group", "category", *_GOAL),
    "category": ("group",),
}


@dataclass(frozen=True)
class Request:
    """The command's options, as they came."""

    data: Path
    target: str
    score: str | None = None
    score_of: Sequence[str] = ()
    abstain: float | None = None
    accept: str | None = None
    reject: str | None = None
    category: str | None = None
    maximize: str | None = None
    minimize: str | None = None
    subject_to: Sequence[str] = ()
    confidence: float = 0.95
    learn: Path | None = None
    group: str | None = None
    cluster: str | None = None
    positive: str | None = None
    encoding: str = "utf8"
    rows: int | None = None

    def check(self) -> None:
        """Raises `InputError` for options that do not go together."""
        number("confidence", self.confidence, above=0.5, below=1)
        if (self.accept is None) != (self.reject is None):
            raise InputError("accept", "one of --accept and --reject", "both", 'e.g. --reject "npv >= 0.99"')
        for kind, names in _UNFIT.items():
            other = next((name for name in names if getattr(self, name)), None)
            if getattr(self, kind) not in (None, [], ()) and other is not None:
                option = kind.replace("_", "-")
                raise InputError(other.replace("_", "-"), f"the option together with --{option}", "one of the two")
        if self.abstain is not None and not self.score_of:
            example = "--score-of yes=p_yes --score-of no=p_no"
            raise InputError("score-of", "nothing", "CLASS=COLUMN for every class", example)
        if not self.score and not self.score_of:
            remedy = "Or --score-of CLASS=COLUMN, once per class."
            raise InputError("score", "nothing", "the column of the scores", remedy)

    def problem(self, label_of: LabelOf | None = None, example: str | None = None) -> Problem:
        """Raises `InputError` without one objective, for bounds that say nothing or too much, and for an objective
        without a constraint that nobody or everybody serves best."""
        if (self.maximize is None) == (self.minimize is None):
            raise InputError("maximize", "both or neither of --maximize and --minimize", "one of them")
        objective = parse_objective(self.maximize or self.minimize or "", label_of)
        constraints = [parse_constraint(text, label_of) for text in self.subject_to]
        refuse_ends(constraints, "subject-to")
        if not constraints and example is not None:
            raise InputError("subject-to", "nothing", "at least one constraint", f'--subject-to "{example}"')
        if not constraints:
            refuse_constant(objective, "subject-to")
        return Problem("maximize" if self.minimize is None else "minimize", objective, constraints)


@dataclass(frozen=True)
class Files:
    """The file of calibration rows, and that of ``--learn`` where there is one, with the cluster of every row."""

    tables: list[ScoredTable]
    clusters: list[Array | None]

    def about_clusters(self, request: Request, scores: Array, targets: Array, used: Collection[str]) -> list[str]:
        """That every row is a cluster of its own, or what looks like clusters that nobody has named."""
        columns = self.tables[0].columns
        if request.cluster is None:
            others = {name: column for name, column in columns.items() if name not in used}
            sign = suspected(others, scores, targets)
            if sign is None:
                return []
            name, values, deviations = sign
            if not name:
                return [
                    "neighbouring rows of the file agree more than chance allows, and the promise counts rows as "
                    "independent. Name the column of what they belong to with --cluster"
                ]
            return [
                f"rows with the same {name} agree more than chance allows ({values} values, {deviations:.1f} standard "
                f"deviations), and the promise counts rows as independent. For a promise about new values of {name}: "
                f"--cluster {name}"
            ]
        if len(set(columns[request.cluster])) == len(scores):
            return [f"every row has a {request.cluster} of its own: rows are counted one by one"]
        return []


def read_files(request: Request) -> Files:
    """Raises `InputError` for files without the columns, and for learning rows that are calibration rows too."""
    by_class = class_columns(request.score_of)
    columns = list(by_class.values()) or str(request.score)
    tables = [read_scores(request.data, columns, request.target, request.encoding, request.rows)]
    strange = sorted(set(by_class) - set(tables[0].labels))
    if strange:
        came = f"{strange[0]!r}, which no row of {request.data.name} has"
        raise InputError("score-of", came, "labels of the target column")
    if request.learn is not None:
        tables.append(read_scores(request.learn, columns, request.target, request.encoding))
        refuse_overlap(*tables)
    name = request.cluster
    return Files(tables, [None if name is None else column_of(table.columns, "cluster", name) for table in tables])


def answer(request: Request) -> Result:
    """Reads and decides. Raises `InputError` before anything is written."""
    request.check()
    files = read_files(request)
    if request.abstain is not None:
        return _abstaining(request, files)
    if request.score_of:
        return _classes(request, files)
    if request.category is not None:
        return _categories(request, files)
    if request.accept is not None:
        return _sides(request, files)
    return _single(request, files)


def _result(
    kind: str, request: Request, files: Files, answers: list[Answer], facts: dict[str, Any], **more: Any
) -> Result:
    facts = {"cluster": request.cluster, "confidence": request.confidence, **facts}
    notes = [*files.tables[0].notes, *more.pop("notes", ())]
    return Result(kind, request.data.name, request.target, answers, facts, notes=notes, **more)


def _single(request: Request, files: Files) -> Result:
    """One threshold for everyone, or one for each value of ``--group``."""
    words = vocabulary(files.tables[0], request.positive)

    def label_of(attribute: str, word: str) -> float:
        words.add_group(attribute, files.tables)
        return words.label(attribute, word)

    problem = request.problem(label_of)
    attributes = sorted({*problem.attributes, *([request.group] if request.group else [])})
    for attribute in attributes:
        words.add_group(attribute, files.tables)
    rows = [words.arrays(table) for table in files.tables]
    learn: Any = (*rows[1], files.clusters[1]) if len(rows) > 1 else "split"
    scores, targets, codes = rows[0]
    notes = files.about_clusters(request, scores, targets, {str(request.score), request.target, *attributes})

    def decide(problem: Problem) -> Decision:
        return problem.decide(
            scores, targets, groups=codes, per_group=request.group, learn=learn, guarantee=request.confidence,
            cluster=files.clusters[0],
        )  # fmt: skip

    decision = decide(problem)
    beside = described(problem, decision, (*rows[0], files.clusters[0]), decide, learn=learn, groups=words.groups)
    where = (
        ["everyone"] if request.group is None else [f"{request.group} = {word}" for word in words.groups[request.group]]
    )
    facts = {
        "score": request.score, "positive": words.positive, "labels": files.tables[0].labels, "groups": words.groups,
        "group": request.group, "rule": "positive where score > threshold",
    }  # fmt: skip
    return _result("decision", request, files, [Answer(problem, decision, where, beside)], facts,
                   notes=notes, groups=words.groups)  # fmt: skip


def _classes(request: Request, files: Files) -> Result:
    """A class against the rest, each by its own scores."""
    problem, columns = request.problem(example="precision[label=fraud] >= 0.9"), class_columns(request.score_of)
    subsets, names = Subsets(LABEL, columns, {name: name for name in columns}), tuple(columns)
    splits = _splits(subsets, files)
    rows, *other = ([np.stack([split[name][k] for name in names], 1) for k in (0, 1)] for split in splits)
    decided = decide_labels(problem, rows[0], rows[1], names, guarantee=request.confidence,
                            learn=tuple(other[0]) if other else "split", cluster=files.clusters[0])  # fmt: skip
    by_class = constraints_by_class(problem.constraints, names)
    problems = {name: Problem(problem.direction, problem.objective, own) for name, own in by_class.items()}
    summary = (
        "Each class is decided against the rest by its own scores, at its share of the error: together the promises "
        f"hold at {100 * request.confidence:g}% confidence. A row may be several classes, or none."
    )
    return _several(request, files, subsets, splits, problems, decided.decisions, summary, labels=[],
                    constraints=problem.constraints)  # fmt: skip


def _categories(request: Request, files: Files) -> Result:
    """A threshold for each value of a column."""
    name, table = str(request.category), files.tables[0]
    if name in (LABEL, SIDE):
        raise InputError("category", repr(name), "another name", "Rename the column: the word has a meaning.")
    categories = sorted(set(table.words(name, "category")))
    positive, problem = vocabulary(table, request.positive).positive, request.problem()
    subsets = Subsets(name, dict.fromkeys(categories, table.score), dict.fromkeys(categories, positive))
    splits = _splits(subsets, files)
    rows, *other = ([np.concatenate([split[own][k] for own in categories]) for k in (0, 1)] for split in splits)
    labels = [np.repeat(categories, [len(split[own][0]) for own in categories]) for split in splits]
    ids = None if files.clusters[0] is None else np.concatenate([splits[0][own][2] for own in categories])
    decided = decide_categories(problem, rows[0], rows[1], labels[0], guarantee=request.confidence, cluster=ids,
                                learn=(*other[0], labels[1]) if other else "split")  # fmt: skip
    if not decided.decisions:
        reasons = [f"{name} = {own} is left out: {why}" for own, why in decided.left_out.items()]
        raise InputError("category", "; ".join(reasons[:3]), "a category that can be decided")
    summary = (
        f"Each {name} has a threshold of its own, at its share of the error: together the promises hold at "
        f"{100 * request.confidence:g}% confidence."
    )
    problems = dict.fromkeys(decided.decisions, problem)
    return _several(request, files, subsets, splits, problems, decided.decisions, summary,
                    constraints=problem.constraints, left_out=decided.left_out)  # fmt: skip


def _sides(request: Request, files: Files) -> Result:
    """Two thresholds with a band for a person between them."""
    bounds = {ACCEPT: parse_constraint(str(request.accept)), REJECT: parse_constraint(str(request.reject))}
    for option, constraint in bounds.items():
        refuse_ends([constraint], option)
    table = files.tables[0]
    positive = vocabulary(table, request.positive).positive
    subsets = Subsets(SIDE, dict.fromkeys(bounds, table.score), dict.fromkeys(bounds, positive))
    splits = _splits(subsets, files)
    rows, *other = (split[ACCEPT][:2] for split in splits)
    rule = decide_or_ask(*rows, accept=bounds[ACCEPT], reject=bounds[REJECT], guarantee=request.confidence,
                         learn=other[0] if other else "split", cluster=files.clusters[0])  # fmt: skip
    problems = {
        ACCEPT: Problem("maximize", positive_rate, [bounds[ACCEPT]]),
        REJECT: Problem("minimize", positive_rate, [bounds[REJECT]]),
    }
    accept = "Accept nothing." if rule.high is None else USE[ACCEPT].format(f"{rule.high:.10g}")
    reject = "Reject nothing." if rule.low is None else USE[REJECT].format(f"{rule.low:.10g}")
    summary = (
        f"{accept} {reject} A person decides {100 * rule.undecided:.1f} % of the cases. Both promises hold together "
        f"with {100 * request.confidence:g} % confidence."
    )
    return _several(request, files, subsets, splits, problems, {ACCEPT: rule.accept, REJECT: rule.reject}, summary,
                    constraints=bounds.values())  # fmt: skip


def _splits(subsets: Subsets, files: Files) -> list[Split]:
    return [subsets.split(table, ids) for table, ids in zip(files.tables, files.clusters, strict=True)]


def _several(
    request: Request,
    files: Files,
    subsets: Subsets,
    splits: list[Split],
    problems: Mapping[str, Problem],
    decisions: Mapping[str, Decision],
    summary: str,
    *,
    constraints: Any,
    labels: list[str] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Result:
    """Thresholds whose promises hold together, each with what stands beside it."""
    answers = []
    for name, decision in decisions.items():
        (scores, marks, ids), *other = (split[name] for split in splits)
        learn: Any = other[0][:2] if other else "split"
        assert decision.guarantee is not None
        confidence = decision.guarantee.confidence

        def decide(
            problem: Problem, s: Any = scores, y: Any = marks, c: Any = ids, o: Any = learn, g: float = confidence
        ) -> Decision:
            return problem.decide(s, y, guarantee=g, learn=o, cluster=c)

        beside = described(problems[name], decision, (scores, marks, {}, ids), decide, learn=learn)
        side = "at most" if (subsets.attribute, name) == (SIDE, REJECT) else "above"
        use = USE[name] if subsets.attribute == SIDE else "Use {}."
        where = [f"{name}, where {subsets.scores[name]} is {side}"]
        answers.append(Answer(problems[name], decision, where, beside, name, use))
    facts = {
        "attribute": subsets.attribute, "scores": dict(subsets.scores), "positive": dict(subsets.positive),
        "labels": files.tables[0].labels if labels is None else labels,
        "constraints": [repr(constraint) for constraint in constraints],
        "rule": "positive where its score > its threshold",
    }  # fmt: skip
    return _result("decisions", request, files, answers, facts, summary=summary, left_out=left_out or {})


def _abstaining(request: Request, files: Files) -> Result:
    """Decides as many rows as possible; the others go to a person."""
    columns, error = class_columns(request.score_of), float(request.abstain or 0.0)
    rows = [class_ids(table, columns) for table in files.tables]
    learn: Any = rows[1] if len(rows) > 1 else "split"

    def abstain(error: float) -> Abstention:
        return decide_or_abstain(*rows[0], error=error, guarantee=request.confidence, learn=learn,
                                 cluster=files.clusters[0])  # fmt: skip

    rule, problem = abstain(error), abstention_problem(error)
    clear, *other = (right_or_wrong("scores", *own, rule.boundary) for own in rows)
    beside = described(
        problem,
        rule.decision,
        (clear.scores, clear.targets, {}, files.clusters[0]),
        lambda problem: abstain(problem.constraints[0].bound).decision,
        learn=(other[0].scores, other[0].targets) if other else "split",
        other_bounds=lambda bound: [float(f"{times * bound:.3g}") for times in OTHER_ERRORS],
    )
    where = ["every row whose largest score is ahead of the next by more than"]
    facts = {
        "scores": columns, "error": error, "coverage": rule.coverage,
        "rule": "the class with the largest score, where it is ahead of the next by more than threshold; else a person",
    }  # fmt: skip
    return _result("abstention", request, files, [Answer(problem, rule.decision, where, beside)], facts,
                   first=f"decided: {rule.coverage:.1%} of the rows")  # fmt: skip


def abstention_problem(error: float) -> Problem:
    """About rows whose "score" is how sure a decision is and whose "label" says whether it is right."""
    return Problem("maximize", coverage, [errors_made <= error])
