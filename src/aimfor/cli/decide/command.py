"""From files of scores to a decision, as plain data: what ``aimfor decide`` does.

One threshold, or several whose promises hold together: classes, categories, a band left to a person; and abstention.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import __version__
from ...constraints.named import positive_rate
from ...constraints.parse import parse_constraint
from ...constraints.reachable import refuse_ends
from ...decisions import (
    Abstention,
    Decision,
    Problem,
    decide_categories,
    decide_labels,
    decide_or_abstain,
    decide_or_ask,
)
from ...decisions.labels import constraints_by_class, coverage, errors_made, right_or_wrong
from ...errors import InputError
from .described import described
from .parts import ACCEPT, LABEL, REJECT, SIDE, Parts, class_columns, class_ids
from .question import Files, Request, read_files
from .rows import Vocabulary, arrays, learn_group, vocabulary
from .spoken import grounds

#: Shares of wrong decisions whose coverage is shown beside that of the one asked for, as multiples of it.
OTHER_ERRORS = (0.25, 0.5, 2.0, 4.0)
#: What is said before the promise of each side of a band.
USE = {ACCEPT: "Accept above {}.", REJECT: "Reject at {} and below."}


def answer(request: Request) -> dict[str, Any]:
    """Reads, decides and describes. Raises `InputError` before anything is written."""
    files = read_files(request.checked())
    if request.abstain is not None:
        found = abstaining(request, files)
    elif request.score_of or request.category is not None or request.accept is not None:
        found = document_of(request, files)
    else:
        found = _one(request, files)
    return {
        "aimfor": __version__, "data": request.data.name, "target": request.target, "cluster": request.cluster,
        "confidence": request.confidence, **found,
    }  # fmt: skip


def _one(request: Request, files: Files) -> dict[str, Any]:
    """One threshold for everyone, or one for each value of ``--group``."""
    words = vocabulary(files.tables[0], request.positive)
    problem = _problem(request, words, files)
    groups = sorted({*problem.attributes, *([request.group] if request.group else [])})
    for attribute in groups:
        learn_group(words, attribute, files.tables)
    rows = [arrays(table, words) for table in files.tables]
    learn: Any = (*rows[1], files.clusters[1]) if len(rows) > 1 else "split"
    scores, targets, codes = rows[0]
    notes = files.about_clusters(request, scores, targets, groups)

    def decide(one: Problem) -> Decision:
        return one.decide(
            scores, targets, groups=codes, per_group=request.group, learn=learn, guarantee=request.confidence,
            cluster=files.clusters[0],
        )  # fmt: skip

    decision = decide(problem)
    return {
        "kind": "decision",
        "score": request.score,
        "positive": words.positive,
        "labels": files.tables[0].labels,
        "groups": words.groups,
        "group": request.group,
        "rule": "positive where score > threshold",
        "decision": decision.to_dict(),
        **described(problem, decision, (*rows[0], files.clusters[0]), decide, learn=learn, groups=words.groups),
        "notes": [*files.notes, *notes],
        "sentences": [grounds(problem, decision)],
    }


def _problem(request: Request, words: Vocabulary, files: Files) -> Problem:
    def label_of(attribute: str, word: str) -> float:
        learn_group(words, attribute, files.tables)
        return words.label(attribute, word)

    return request.problem(label_of)


@dataclass(frozen=True)
class Answers:
    """Each threshold's own question and its answer, by name; what was asked of all; and a sentence about all."""

    asked: dict[str, Problem]
    decisions: dict[str, Decision]
    constraints: list[str]
    said: str
    notes: list[str] = field(default_factory=list)


def document_of(request: Request, files: Files) -> dict[str, Any]:
    """Decides and describes. Raises `InputError` for what cannot be answered."""
    parts = _parts(request, files)
    splits = [parts.split(table, ids) for table, ids in zip(files.tables, files.clusters, strict=True)]
    found = {LABEL: _classes, SIDE: _sides}.get(parts.attribute, _categories)(request, parts, files, splits)
    each: dict[str, Any] = {}
    for name, decision in found.decisions.items():
        assert decision.guarantee is not None
        (scores, marks, ids), *other = (split[name] for split in splits)
        learn: Any = other[0][:2] if other else "split"
        sure = decision.guarantee.confidence

        def decide(one: Problem, s: Any = scores, y: Any = marks, c: Any = ids, o: Any = learn, g: Any = sure) -> Any:
            return one.decide(s, y, guarantee=g, learn=o, cluster=c)

        use = USE.get(name) if parts.attribute == SIDE else None
        each[name] = described(found.asked[name], decision, (scores, marks, {}, ids), decide, learn=learn, use=use)
    return {
        "kind": "decisions",
        "rule": "positive where its score > its threshold",
        "attribute": parts.attribute,
        "scores": dict(parts.scores),
        "positive": dict(parts.positive),
        "labels": [] if parts.attribute == LABEL else files.tables[0].labels,
        "objective": repr(next(iter(found.asked.values())).objective),
        "constraints": found.constraints,
        "verdict": found.said,
        "decisions": {name: decision.to_dict() for name, decision in found.decisions.items()},
        "sentences": [f"{name}: {decision.guarantee}" for name, decision in found.decisions.items()],
        "parts": each,
        "notes": [*files.notes, *found.notes],
    }


def _parts(request: Request, files: Files) -> Parts:
    if request.score_of:
        classes = class_columns(request.score_of)
        return Parts(LABEL, request.target, classes, {name: name for name in classes})
    names, attribute, table = [ACCEPT, REJECT], SIDE, files.tables[0]
    if request.category is not None:
        attribute = request.category
        if attribute in (LABEL, SIDE):
            raise InputError("category", repr(attribute), "another name", "Rename the column: the word has a meaning.")
        names = sorted(set(table.words(attribute, "category")))
    positive = vocabulary(table, request.positive).positive
    return Parts(attribute, request.target, dict.fromkeys(names, str(request.score)), dict.fromkeys(names, positive))


def _classes(request: Request, parts: Parts, files: Files, splits: list[Any]) -> Answers:
    problem, names = request.problem(example="precision[label=fraud] >= 0.9"), tuple(parts.scores)
    rows, *other = ([np.stack([split[name][k] for name in names], 1) for k in (0, 1)] for split in splits)
    found = decide_labels(problem, rows[0], rows[1], names, guarantee=request.confidence,
                          learn=tuple(other[0]) if other else "split", cluster=files.clusters[0])  # fmt: skip
    asked = {
        name: Problem(problem.direction, problem.objective, own)
        for name, own in constraints_by_class(problem.constraints, names).items()
    }
    said = (
        "Each class is decided against the rest by its own scores, at its share of the error: together the promises "
        f"hold at {100 * request.confidence:g}% confidence. A row may be several classes, or none."
    )
    return Answers(asked, dict(found.decisions), [repr(one) for one in problem.constraints], said)


def _categories(request: Request, parts: Parts, files: Files, splits: list[Any]) -> Answers:
    problem = request.problem()
    rows, *other = ([np.concatenate([split[name][k] for name in parts.scores]) for k in (0, 1)] for split in splits)
    names = [np.repeat(list(parts.scores), [len(split[name][0]) for name in parts.scores]) for split in splits]
    ids = None if files.clusters[0] is None else np.concatenate([splits[0][name][2] for name in parts.scores])
    found = decide_categories(problem, rows[0], rows[1], names[0], guarantee=request.confidence, cluster=ids,
                              learn=(*other[0], names[1]) if other else "split")  # fmt: skip
    left = [f"{parts.attribute} = {name} is left out: {reason}" for name, reason in found.left_out.items()]
    if not found.decisions:
        raise InputError("category", "; ".join(left[:3]), "a category that can be decided")
    said = (
        f"Each {parts.attribute} has a threshold of its own, at its share of the error: together the promises hold at "
        f"{100 * request.confidence:g}% confidence."
    )
    asked = dict.fromkeys(found.decisions, problem)
    return Answers(asked, dict(found.decisions), [repr(one) for one in problem.constraints], said, left)


def _sides(request: Request, parts: Parts, files: Files, splits: list[Any]) -> Answers:
    given = [parse_constraint(text) for text in (str(request.accept), str(request.reject))]
    for option, one in zip((ACCEPT, REJECT), given, strict=True):
        refuse_ends([one], option)
    rows, *other = (split[ACCEPT][:2] for split in splits)
    rule = decide_or_ask(*rows, accept=given[0], reject=given[1], guarantee=request.confidence,
                         learn=other[0] if other else "split", cluster=files.clusters[0])  # fmt: skip
    asked = {
        name: Problem(direction, positive_rate, [one])
        for name, direction, one in zip((ACCEPT, REJECT), ("maximize", "minimize"), given, strict=True)
    }
    high, low = (None if cut is None else f"{cut:.10g}" for cut in (rule.high, rule.low))
    said = (
        f"{f'Accept above {high}.' if high else 'Accept nothing.'} "
        f"{f'Reject at {low} and below.' if low else 'Reject nothing.'} A person decides {100 * rule.asked:.1f} % of "
        f"the cases. Both promises hold together with {100 * request.confidence:g} % confidence."
    )
    return Answers(asked, {ACCEPT: rule.accept, REJECT: rule.reject}, [repr(one) for one in given], said)


def abstaining(request: Request, files: Files) -> dict[str, Any]:
    """Decides as many rows as possible; the others go to a person."""
    columns, error = class_columns(request.score_of), float(request.abstain or 0.0)
    rows = [class_ids(table, request.target, columns) for table in files.tables]
    learn: Any = rows[1] if len(rows) > 1 else "split"

    def decide(one: Problem) -> Decision:
        return abstain(one.constraints[0].bound).decision

    def abstain(wrong: float) -> Abstention:
        return decide_or_abstain(*rows[0], error=wrong, guarantee=request.confidence, learn=learn,
                                 cluster=files.clusters[0])  # fmt: skip

    found = abstain(error)
    sure, *other = (right_or_wrong("scores", *one, found.cut) for one in rows)
    return {
        "kind": "abstention",
        "rule": "the class with the largest score, where it is ahead of the next by more than threshold; else a person",
        "scores": columns,
        "error": error,
        "coverage": found.coverage,
        "decision": found.decision.to_dict(),
        "sentences": [f"decided: {found.coverage:.1%} of the rows", grounds(abstention_problem(error), found.decision)],
        "notes": files.notes,
        **described(
            abstention_problem(error),
            found.decision,
            (sure.scores, sure.targets, {}, files.clusters[0]),
            decide,
            learn=(other[0].scores, other[0].targets) if other else "split",
            other_bounds=lambda bound: [float(f"{times * bound:.3g}") for times in OTHER_ERRORS],
        ),
    }


def abstention_problem(error: float) -> Problem:
    """About rows whose "score" is how sure a decision is and whose "label" says whether it is right."""
    return Problem("maximize", coverage, [errors_made <= error])
