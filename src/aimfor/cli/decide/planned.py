"""``aimfor plan``: which rows to label next, as a file to fill in; and the decision that its labels allow.

The folder holds ``to_label.csv`` (the rows of all rounds, with an empty ``label``) and ``plan.json``, which says how
they were drawn: a decision reads both, and refuses a file whose rows are not those that were drawn.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...checks.settings import integer, number
from ...constraints.counts import Array
from ...constraints.expressions import Constraint, Rate
from ...constraints.named import positive_rate
from ...constraints.parse import parse_constraint
from ...decisions import Certificate, Decision, Finding, Guarantee, Problem, Verdict
from ...decisions import plan as planning
from ...decisions import rounds as planner
from ...errors import InputError
from ...files import read_json, reading, shaped, write_text
from ..deciding import PLAN, SHEET
from .result import Answer, Beside, Result
from .scores import column_of, labels_of, numbers, read_columns

COLUMNS = ("row", "round", "probability")
_YES, _NO = ("1", "yes", "true", "y", "t"), ("0", "no", "false", "n", "f")


@dataclass(frozen=True)
class Drawn:
    """Rows of one round, by rank, in the order of their draws; by cell, the weights and guesses of `planning.Round`."""

    ranks: list[int]
    weight: list[float]
    guess: list[float]


@dataclass(frozen=True)
class Plan:
    """What ``plan.json`` holds."""

    data: str
    sha256: str
    score: str
    constraint: str
    confidence: float
    above: list[int]
    cuts: list[float]
    start: int
    rounds: list[Drawn] = field(default_factory=list)


@dataclass(frozen=True)
class PlanRequest:
    """The command's options, as they came."""

    data: Path
    score: str
    subject_to: str
    budget: int
    out: Path
    confidence: float = 0.95
    seed: int = 0
    encoding: str = "utf8"


def bound_of(text: str) -> Constraint:
    """A bound strictly between 0 and 1 on a rate that planned labels can be for."""
    constraint = parse_constraint(text)
    if (constraint.left, constraint.sense) not in planning.FLAG_MORE + planning.FLAG_FEWER:
        raise InputError(
            "subject-to", repr(text),
            "a floor on precision, recall, npv or tnr, or a ceiling on fpr or fnr, of all rows",
            "For other constraints draw rows at random, and use aimfor decide.",
        )  # fmt: skip
    if not planning.possible(constraint):
        raise InputError("subject-to", repr(text), "a bound above 0 and below 1")
    return constraint


def next_plan(request: PlanRequest) -> tuple[Plan, str]:
    """The next round, and the sheet to fill in. Raises `InputError` before anything is written."""
    number("confidence", request.confidence, above=0.5, below=1)
    integer("budget", request.budget, at_least=1)
    constraint = bound_of(request.subject_to)
    scores = _scores(request)
    order = np.argsort(-scores, kind="stable")
    digest = hashlib.sha256(scores.tobytes()).hexdigest()
    plan = _earlier(request, digest)
    if plan is None:
        made, thresholds = planning.design(scores, constraint, request.confidence)
        grid = made.above.tolist(), thresholds.tolist()
        plan = Plan(request.data.name, digest, request.score, repr(constraint), request.confidence, *grid, 0)
        rounds: list[planning.Round] = []
    else:
        made, rounds = _made(plan), _rounds(plan, request.out / SHEET)
    left = len(scores) - sum(len(own.ranks) for own in rounds)
    if request.budget > left:
        raise InputError("budget", str(request.budget), f"at most the {left} rows without a label")
    rng = np.random.default_rng([request.seed, len(rounds)])
    pilot = planner.pilot_size(request.budget)
    if not rounds:
        drawn, chances = planner.pilot(made, pilot, rng), None
    else:
        budget = max(request.budget - pilot, 1) if len(rounds) == 1 else request.budget
        made, drawn = planner.next_round(made, rounds, budget, rng)
        chances = planner.chances(made, [*rounds, drawn])
    new = Drawn(drawn.ranks.tolist(), drawn.weight.tolist(), drawn.guess.tolist())
    plan = replace(plan, start=made.start, rounds=[*plan.rounds, new])
    return plan, _sheet(plan, scores, order, _lines(request.out / SHEET) if rounds else [], chances)


def write_plan(plan: Plan, sheet: str, folder: Path) -> Path:
    """Both files; the plan last, so that a sheet without it is an ordinary file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / SHEET, sheet)
    plain = vars(plan) | {
        "rounds": [vars(own) for own in plan.rounds],
        "kind": "plan",
        "aimfor": __version__,
    }
    write_text(
        folder / PLAN, json.dumps(plain | {"sheet": _digest(list(csv.reader(io.StringIO(sheet))))}, indent=1) + "\n"
    )
    return folder / SHEET


def _scores(request: PlanRequest) -> Array:
    if not request.data.is_file():
        raise InputError("data", f"{request.data}, which is no file", "a CSV or Parquet file with scores")
    column = column_of(read_columns(request.data, request.encoding), "score", request.score)
    missing = sum(cell is None for cell in column)
    if missing:
        raise InputError("score", f"{missing} rows without a score", "a score in every row")
    scores = numbers(column, request.score)
    if not np.isfinite(scores).all() or scores.min() == scores.max():
        raise InputError("score", "scores that are not finite, or all the same", "finite scores that differ")
    return scores


def _earlier(request: PlanRequest, digest: str) -> Plan | None:
    path = request.out / PLAN
    if not path.exists():
        if (request.out / SHEET).exists():
            raise InputError("out", f"{request.out / SHEET} without {PLAN}", "a folder of its own for each plan")
        return None
    plan = read_plan(path)
    question = (digest, request.score, repr(bound_of(request.subject_to)), request.confidence)
    if question != (plan.sha256, plan.score, plan.constraint, plan.confidence):
        raise InputError(
            "out", f"the plan of another question in {request.out}", "the same scores, bound and confidence",
            "Name another folder with --out.",
        )  # fmt: skip
    return plan


def read_plan(path: Path) -> Plan:
    plain = read_json(path)
    with reading(path):
        return shaped(Plan, plain)


def _made(plan: Plan) -> planning.Design:
    constraint = bound_of(plan.constraint)
    assert isinstance(constraint.left, Rate)
    return planning.Design(
        constraint.left, constraint.sense, constraint.bound, 1.0 - plan.confidence, np.array(plan.above), plan.start
    )


def _sheet(plan: Plan, scores: Array, order: Array, before: list[list[str]], chances: Array | None) -> str:
    """The lines of earlier rounds as they came, and those of the last one, to fill in."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, plan.score, "label"])
    writer.writerows(before)
    for position, rank in enumerate(plan.rounds[-1].ranks):
        chance = "" if chances is None else f"{chances[position]:.6g}"
        row = int(order[rank])
        writer.writerow([row + 1, len(plan.rounds) - 1, chance, repr(float(scores[row])), ""])
    return text.getvalue()


def _lines(sheet: Path) -> list[list[str]]:
    """All but the header, with labels as 1 and 0."""
    lines = list(csv.reader(io.StringIO(sheet.read_text(encoding="utf8"))))[1:]
    return [[*line[:-1], str(int(line[-1].strip().lower() in _YES))] for line in lines if line]


def _digest(rows: list[list[str]]) -> str:
    """Of all columns but the last, the labels, so that filling these in leaves it as it is."""
    rows = [row[:-1] for row in rows]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _rounds(plan: Plan, sheet: Path) -> list[planning.Round]:
    """Labels of all rounds, in the plan's order. Raises `InputError` for other rows, edited ones and missing labels."""
    if not sheet.exists():
        raise InputError("data", f"no {sheet}", "the file that aimfor plan wrote")
    columns, names = read_columns(sheet), [*COLUMNS, plan.score, "label"]
    cells = [columns[name] for name in names if name in columns]
    rows = [[cell or "" for cell in row] for row in zip(*cells, strict=True)]
    if len(cells) < len(names) or _digest([names, *rows]) != read_json(sheet.with_name(PLAN)).get("sheet"):
        raise InputError(
            "data", f"{sheet.name}, whose rows are not those that were drawn", "the rows of the plan as they came",
            "Fill in the column label, and change nothing else.",
        )  # fmt: skip
    words = labels_of(columns["label"])
    empty = sum(word is None for word in words)
    if empty:
        raise InputError(
            "label", f"{empty} of {len(words)} rows without a label", "a label in every row",
            "Rows that were drawn and left out would bias the answer.",
        )  # fmt: skip
    strange = next((word for word in words if word.lower() not in (*_YES, *_NO)), None)
    if strange is not None:
        raise InputError("label", repr(strange), "1 or 0 (or yes or no)")
    right = iter(float(word.lower() in _YES) for word in words)
    marks = [np.array([next(right) for _ in own.ranks]) for own in plan.rounds]
    return [
        planning.Round(np.array(own.ranks), labels, np.array(own.weight), np.array(own.guess))
        for own, labels in zip(plan.rounds, marks, strict=True)
    ]


def decided(sheet: Path) -> Result:
    """The decision that the labels so far allow."""
    plan = read_plan(sheet.with_name(PLAN))
    made, rounds = _made(plan), _rounds(plan, sheet)
    step, walk = planning.accepted(made, rounds), made.walk.tolist()
    values, at = planner.estimate(made, rounds), walk[plan.start] if step is None else step
    certificate = _certificate(plan, made, rounds, at, float(values[at]), step is not None)
    labels, tried = certificate.examples, [] if step is None else walk[plan.start : walk.index(step) + 1]
    thresholds = [plan.cuts[tested] for tested in tried]
    promise = Guarantee(
        plan.confidence, plan.constraint, labels, 0, len(tried), _sentence(plan, step, labels),
        region=(min(thresholds), max(thresholds)) if thresholds else (),
    )  # fmt: skip
    decision = Decision(None if step is None else plan.cuts[step], feasible=step is not None, margin="guarantee",
                        certificate=certificate, guarantee=promise)  # fmt: skip
    curve: dict[str, list[Any]] = {
        "threshold": [*plan.cuts[::-1]],
        repr(made.rate): [None if math.isnan(value) else float(value) for value in values[::-1]],
        "positive_rate": [above / plan.above[-1] for above in plan.above[::-1]],
    }
    problem = Problem("maximize" if walk[0] == 0 else "minimize", positive_rate, [bound_of(plan.constraint)])
    facts: dict[str, Any] = {
        "cluster": None, "confidence": plan.confidence, "score": plan.score, "positive": "1", "labels": ["0", "1"],
        "groups": {}, "rule": "positive where score > threshold",
    }  # fmt: skip
    answer = Answer(problem, decision, ["everyone"], Beside(curve))
    notes = [f"{len(plan.rounds) - 1} planned rounds after the pilot"]
    return Result("decision", plan.data, "label", [answer], facts, notes=notes)


def _sentence(plan: Plan, step: int | None, labels: int) -> str:
    confidence, rows = f"{100 * plan.confidence:g}% confidence", plan.above[-1]
    if step is None:
        return (
            f"No threshold: {plan.constraint} cannot be guaranteed at {confidence}. There are {labels} planned labels "
            "so far: run aimfor plan again in this folder for the next round, the promise holds whenever you stop."
        )
    return (
        f"{plan.constraint}: guaranteed at {confidence} by {labels} planned labels for the {rows} rows of {plan.data}, "
        f"whenever you stop. {plan.above[step]} of the {rows} rows ({plan.above[step] / rows:.2%}) lie above."
    )


def _certificate(
    plan: Plan, made: planning.Design, rounds: list[planning.Round], step: int, value: float, met: bool
) -> Certificate:
    """What the labels say about the bound at one step; both ends hold at any time, at the full error each."""
    floor, bound, labels = made.sense == ">=", made.bound, sum(len(own.ranks) for own in rounds)
    other = replace(made, sense="<=" if floor else ">=")
    low, high = sorted((planning.limit(made, rounds, step), planning.limit(other, rounds, step)))
    verdict = Verdict.missed if (high < bound if floor else low > bound) else Verdict.undecided
    if met:
        verdict, low, high = Verdict.met, max(low, bound) if floor else low, high if floor else min(high, bound)
    slack = value - bound if floor else bound - value
    finding = Finding(plan.constraint, value, bound, slack, low, high, verdict, labels)
    return Certificate("positive_rate", plan.above[step] / plan.above[-1], plan.confidence, labels, (finding,))
