"""``aimfor decide`` for several classes: a floor for each class against the rest, or decisions and abstentions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...checks.settings import number
from ...constraints.counts import Array
from ...decisions import Decision, Problem, decide_labels, decide_or_abstain
from ...decisions.labels import constraints_by_class, coverage, errors_made, right_or_wrong
from ...errors import InputError
from .asked import asked
from .classes import ClassColumns, class_columns
from .described import described
from .page import questions
from .rows import refuse_overlap

#: Shares of wrong decisions whose coverage is shown beside that of the one asked for, as multiples of it.
OTHER_ERRORS = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Several:
    """The options: ``score_of`` as CLASS=COLUMN, and floors with an objective, or the error of decisions made."""

    data: Path
    target: str
    score_of: tuple[str, ...]
    maximize: str | None = None
    minimize: str | None = None
    subject_to: tuple[str, ...] = ()
    abstain: float | None = None
    confidence: float = 0.95
    learn: Path | None = None
    encoding: str = "utf8"
    rows: int | None = None


@dataclass(frozen=True)
class ClassesAnswer:
    """The document that is written, and whether anything can be guaranteed."""

    document: dict[str, Any]
    given: bool


def answer(request: Several) -> ClassesAnswer:
    """Reads and decides. Raises `InputError` before anything is written."""
    number("confidence", request.confidence, above=0.5, below=1)
    columns = class_columns(request.target, request.score_of)
    tables = [columns.read(request.data, request.encoding, request.rows)]
    if request.learn is not None:
        tables.append(columns.read(request.learn, request.encoding))
        refuse_overlap(*tables)
    document = {
        "aimfor": __version__, "data": request.data.name, "target": request.target, "scores": dict(columns.columns),
        "confidence": request.confidence, "notes": tables[0].notes,
    }  # fmt: skip
    if request.abstain is not None:
        if request.maximize or request.minimize or request.subject_to:
            raise InputError("abstain", "the option together with an objective or constraints", "one of the two")
        return _abstaining(request, request.abstain, [columns.ids(table) for table in tables], document)
    return _floors(request, columns, [columns.marked(table) for table in tables], document)


def _floors(
    request: Several, columns: ClassColumns, rows: list[tuple[Array, Array]], document: dict[str, Any]
) -> ClassesAnswer:
    example = "precision[label=fraud] >= 0.9"
    problem = asked(request.maximize, request.minimize, request.subject_to, example=example)
    learn: Any = rows[1] if len(rows) > 1 else "split"
    found = decide_labels(problem, *rows[0], columns.names, guarantee=request.confidence, learn=learn)
    by_class = constraints_by_class(problem.constraints, columns.names)
    share = 1.0 - (1.0 - request.confidence) / len(by_class)
    classes = {}
    for name, constraints in by_class.items():
        place = columns.names.index(name)
        (scores, marks), *other = [(s[:, place], y[:, place]) for s, y in rows]
        own: Any = other[0] if other else "split"

        def decide(one: Problem, s: Array = scores, y: Array = marks, learn: Any = own) -> Decision:
            return one.decide(s, y, guarantee=share, learn=learn)

        alone = Problem(problem.direction, problem.objective, constraints)
        classes[name] = described(alone, found.decisions[name], (scores, marks, {}), decide, learn=own)
    document |= {
        "kind": "decisions",
        "rule": "CLASS where its score > its threshold",
        "direction": problem.direction,
        "objective": repr(problem.objective),
        "constraints": [repr(constraint) for constraint in problem.constraints],
        "decisions": {name: decision.to_dict() for name, decision in found.decisions.items()},
        "sentences": [f"{name}: {decision.guarantee}" for name, decision in found.decisions.items()],
        "classes": classes,
    }
    return ClassesAnswer(document, any(decision.threshold is not None for decision in found.decisions.values()))


def _abstaining(
    request: Several, error: float, rows: list[tuple[Array, Array]], document: dict[str, Any]
) -> ClassesAnswer:
    learn: Any = rows[1] if len(rows) > 1 else "split"

    def decide(one: Problem) -> Decision:
        wrong = one.constraints[0].bound
        return decide_or_abstain(*rows[0], error=wrong, guarantee=request.confidence, learn=learn).decision

    found = decide_or_abstain(*rows[0], error=error, guarantee=request.confidence, learn=learn)
    sure, *other = (right_or_wrong("scores", *one, found.cut) for one in rows)
    document |= {
        "kind": "abstention",
        "rule": "the class with the largest score, where it is ahead of the next by more than threshold; else a person",
        "error": error,
        "coverage": found.coverage,
        "decision": found.decision.to_dict(),
        "sentences": [f"decided: {found.coverage:.1%} of the rows", str(found.decision.guarantee)],
        **described(
            abstention_problem(error),
            found.decision,
            (sure.scores, sure.targets, {}),
            decide,
            learn=(other[0].scores, other[0].targets) if other else "split",
            other_bounds=lambda bound: [float(f"{times * bound:.3g}") for times in OTHER_ERRORS],
        ),
    }
    return ClassesAnswer(document, found.decision.threshold is not None)


def as_text(document: dict[str, Any]) -> list[str]:
    """What the terminal shows: thresholds and promises."""
    cuts = [f"{who} {cut}" for _, rows, *_ in questions(document) for who, cut in rows]
    return [*cuts, *document["notes"], *document["sentences"]]


def abstention_problem(error: float) -> Problem:
    """About rows whose "score" is how sure a decision is and whose "label" says whether it is right."""
    return Problem("maximize", coverage, [errors_made <= error])
