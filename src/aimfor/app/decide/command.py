"""From files of scores to a decision: what ``aimfor decide`` does, as plain data and as files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...rates import Constraint, Decision, RateProblem
from ...rates.bounds import plain_value
from ...rates.counts import Counts, empty_levels, encode
from ...rates.expressions import Expression, Rate
from ...rates.learning import checked_rows
from ...rates.parse import parse_constraint, parse_objective
from ...rates.sweep import candidates, objective_value, spaced, sweep
from .page import page, thresholds
from .rows import ScoredTable, Vocabulary, learn_group, read_scores, refuse_overlap, tensors, vocabulary

#: Thresholds of the page's curve, and other bounds whose price is shown.
CURVE_POINTS = 120
OTHER_BOUNDS = (-0.1, -0.05, -0.02, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class Request:
    """The command's options, as they came."""

    data: Path
    score: str
    target: str
    maximize: str | None
    minimize: str | None
    subject_to: tuple[str, ...]
    confidence: float = 0.95
    learn: Path | None = None
    group: str | None = None
    positive: str | None = None
    encoding: str = "utf8"
    rows: int | None = None


@dataclass
class Answer:
    """A decision and all that the page and the JSON file say about it."""

    problem: RateProblem
    decision: Decision
    words: Vocabulary
    document: dict[str, Any]


def answer(request: Request) -> Answer:
    """Reads, decides and describes. Raises `InputError` before anything is written."""
    calibration = read_scores(request.data, request.score, request.target, request.encoding, request.rows)
    tables = [calibration]
    if request.learn is not None:
        tables.append(read_scores(request.learn, request.score, request.target, request.encoding))
        refuse_overlap(*tables)
    words = vocabulary(calibration, request.positive)
    problem = _problem(request, words, tables)
    groups = {*problem.attributes, *([request.group] if request.group else [])}
    for attribute in sorted(groups):
        learn_group(words, attribute, tables)
    rows = [tensors(table, words) for table in tables]
    learn: Any = rows[1] if request.learn is not None else "split"
    scores, targets, codes = rows[0]
    decided: dict[str, Any] = {"groups": codes, "per_group": request.group, "learn": learn}
    decision = problem.decide(scores, targets, guarantee=request.confidence, **decided)
    document = {
        "aimfor": __version__,
        "kind": "decision",
        "data": request.data.name,
        "score": request.score,
        "target": request.target,
        "positive": words.positive,
        "groups": words.groups,
        "problem": repr(problem),
        "direction": problem.direction,
        "objective": repr(problem.objective),
        "constraints": [repr(constraint) for constraint in problem.constraints],
        "rule": "positive where score > threshold",
        "decision": decision.to_dict(),
        "certificate": None if decision.certificate is None else decision.certificate.to_dict(),
        "curve": _curve(problem, rows[0]),
        "prices": _prices(problem, request.confidence, scores, targets, decided),
        "notes": calibration.notes,
    }
    return Answer(problem, decision, words, document)


def _problem(request: Request, words: Vocabulary, tables: list[ScoredTable]) -> RateProblem:
    if (request.maximize is None) == (request.minimize is None):
        raise InputError("maximize", "both or neither of --maximize and --minimize", "one of them")
    if not request.subject_to:
        raise InputError("subject-to", "nothing", "at least one constraint", '--subject-to "precision >= 0.9"')

    def label_of(attribute: str, word: str) -> float:
        learn_group(words, attribute, tables)
        return words.label(attribute, word)

    direction = "maximize" if request.maximize is not None else "minimize"
    objective = parse_objective(request.maximize or request.minimize or "", label_of)
    return RateProblem(direction, objective, [parse_constraint(text, label_of) for text in request.subject_to])


def _curve(problem: RateProblem, rows: Any) -> dict[str, list[float | None]]:
    """Objective and the left side of each constraint over thresholds, on the calibration rows."""
    scores, targets, groups = rows
    batch = checked_rows("score", scores, targets, groups)
    codes, levels = encode(batch, empty_levels(problem.attributes))
    cuts = candidates(batch.scores, batch.targets)
    cuts = cuts[spaced((0, cuts.numel() - 1), CURVE_POINTS)]
    counts = sweep(batch, codes, levels, cuts)
    sign = 1.0 if problem.direction == "maximize" else -1.0
    goal = (sign * objective_value(problem.objective, counts, sign)).tolist()
    lines: dict[str, list[float | None]] = {"threshold": cuts.tolist(), repr(problem.objective): _plain(goal)}
    for constraint in problem.constraints:
        values = [
            plain_value(constraint.left, Counts(levels, counts.table[i]), constraint.sense) for i in range(len(cuts))
        ]
        lines[repr(constraint.left)] = _plain(values)
    return lines


def _plain(values: list[float]) -> list[float | None]:
    return [value if value == value and abs(value) != float("inf") else None for value in values]


def _prices(
    problem: RateProblem, confidence: float, scores: torch.Tensor, targets: torch.Tensor, decided: dict[str, Any]
) -> list[dict[str, Any]]:
    """What the objective would be, on the calibration rows, with each bound a little looser or tighter.

    Every line is an answer to its own question at the full confidence. Whoever picks a line after looking at all of
    them has no guarantee for that choice; the page says so.
    """
    lines = []
    for place, constraint in enumerate(problem.constraints):
        for change in OTHER_BOUNDS:
            other = _moved(constraint, change)
            if other is None:
                continue
            constraints = [*problem.constraints[:place], other, *problem.constraints[place + 1 :]]
            try:
                changed = RateProblem(problem.direction, problem.objective, constraints)
                found = changed.decide(scores, targets, guarantee=confidence, **decided)
            except InputError:  # contradicts another constraint, or is out of reach: no line
                continue
            reached = _objective_at(changed, found, scores, targets, decided)
            lines.append({"constraint": repr(other), "objective": reached, "threshold": found.threshold})
    return lines


def _moved(constraint: Constraint, change: float) -> Constraint | None:
    bound = round(constraint.bound + change, 6)
    left: Expression = constraint.left
    counted = isinstance(left, Rate) and left.is_count
    return None if counted or not 0.0 < bound < 1.0 else replace(constraint, bound=bound)


def _objective_at(
    problem: RateProblem, decision: Decision, scores: torch.Tensor, targets: torch.Tensor, decided: dict[str, Any]
) -> float | None:
    if decision.threshold is None:
        return None
    counts = problem.count(scores, targets, groups=decided["groups"], decision=decision)
    return plain_value(problem.objective, counts, ">=" if problem.direction == "maximize" else "<=")


def as_json(found: Answer) -> str:
    return json.dumps(found.document, indent=1, allow_nan=False)


def as_text(found: Answer, paths: tuple[Path, Path]) -> str:
    """What the terminal shows: the thresholds, the promise, the certificate and where the page is."""
    lines = [f"positive for {who}: {found.document['score']} > {cut}" for who, cut in thresholds(found.document)]
    lines += [found.document["decision"]["guarantee"]["sentence"]]
    if found.decision.threshold is not None:
        lines += [str(found.decision.certificate)]
    return "\n".join([*lines, f"page: {paths[1]}"])


def write(found: Answer, folder: Path) -> tuple[Path, Path]:
    """``decision.json`` and ``decision.html`` in the folder."""
    text = page(found.document)
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "decision.json", folder / "decision.html"
    checkpoint.write_text(paths[0], as_json(found) + "\n")
    checkpoint.write_text(paths[1], text)
    return paths
