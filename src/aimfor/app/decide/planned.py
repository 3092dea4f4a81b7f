"""``aimfor plan``: which rows to label next, as a file to fill in; and the decision that its labels allow.

The folder holds ``to_label.csv`` (the rows of all rounds, with an empty ``label``) and ``plan.json``, which says how
they were drawn: a decision reads both, and refuses a file whose rows are not those that were drawn.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...checks.settings import integer, number
from ...constraints.counts import Array, Counts, Levels
from ...constraints.expressions import Constraint
from ...constraints.named import precision
from ...constraints.parse import parse_constraint
from ...decisions import Decision, Guarantee
from ...decisions import plan as planning
from ...decisions.watch import certify_so_far
from ...errors import InputError
from ...files import read_json, reading, write_text
from .rows import column_of, labels_of, numbers
from .shape import shaped
from .table import read_columns

PLAN, SHEET = "plan.json", "to_label.csv"
COLUMNS = ("row", "round", "probability")
_YES, _NO = ("1", "yes", "true", "y", "t"), ("0", "no", "false", "n", "f")


@dataclass(frozen=True)
class Round:
    """Labels of one round: which rows (by rank), and the step above whose threshold they were drawn; −1: the pilot."""

    ranks: list[int]
    limit: int


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
    rounds: list[Round] = field(default_factory=list)


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


def floor_of(text: str) -> Constraint:
    """A floor on precision strictly between 0 and 1: what planned labels can be for."""
    found = parse_constraint(text)
    if found.left != precision or found.sense != ">=":
        raise InputError("subject-to", repr(text), 'a floor on precision, e.g. "precision >= 0.9"',
                         "Other rates need labels elsewhere: draw rows at random, and use aimfor decide.")  # fmt: skip
    if not 0.0 < found.bound < 1.0:
        raise InputError("subject-to", repr(text), "a floor above 0 and below 1")
    return found


def next_plan(request: PlanRequest) -> tuple[Plan, str]:
    """The next round, and the sheet to fill in. Raises `InputError` before anything is written."""
    number("confidence", request.confidence, above=0.5, below=1)
    integer("budget", request.budget, at_least=1)
    floor = floor_of(request.subject_to)
    scores = _scores(request)
    order = np.argsort(-scores, kind="stable")
    digest = hashlib.sha256(scores.tobytes()).hexdigest()
    plan = _earlier(request, digest)
    if plan is None:
        made = planning.design(scores, floor.bound, request.confidence)
        grid = made.above.tolist(), made.cuts.tolist()
        plan = Plan(request.data.name, digest, request.score, repr(floor), request.confidence, *grid, 0)
        labels: list[planning.Label] = []
    else:
        made, labels = _made(plan), _labels(plan, request.out / SHEET)
    taken = {rank for one in plan.rounds for rank in one.ranks}
    if request.budget > len(scores) - len(taken):
        raise InputError("budget", str(request.budget), f"at most the {len(scores) - len(taken)} rows without a label")
    rng = np.random.default_rng([request.seed, len(plan.rounds)])
    pilot = planning.pilot_size(request.budget)
    if not plan.rounds:
        plan = replace(plan, rounds=[Round(planning.pilot_ranks(len(scores), pilot, rng).tolist(), -1)])
    else:
        first = len(plan.rounds) == 1
        budget = max(request.budget - pilot, 1) if first else request.budget
        start, limit = planning.next_round(made, labels, budget, rng, first)
        free = np.setdiff1d(np.arange(plan.above[limit]), np.array(sorted(taken)))
        ranks = rng.choice(free, min(budget, len(free)), replace=False)
        plan = replace(plan, start=start, rounds=[*plan.rounds, Round(ranks.tolist(), limit)])
    return plan, _sheet(plan, scores, order, labels)


def write_plan(plan: Plan, sheet: str, folder: Path) -> Path:
    """Both files; the plan last, so that a sheet without it is an ordinary file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / SHEET, sheet)
    plain = vars(plan) | {"rounds": [vars(one) for one in plan.rounds], "kind": "plan", "aimfor": __version__}
    write_text(folder / PLAN, json.dumps(plain | {"sheet": _digest(sheet)}, indent=1) + "\n")
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
    asked = (digest, request.score, repr(floor_of(request.subject_to)), request.confidence)
    if asked != (plan.sha256, plan.score, plan.constraint, plan.confidence):
        raise InputError(
            "out", f"the plan of another question in {request.out}", "the same scores, floor and confidence",
            "Name another folder with --out.",
        )  # fmt: skip
    return plan


def read_plan(path: Path) -> Plan:
    plain = read_json(path)
    with reading(path):
        return shaped(Plan, plain)


def _made(plan: Plan) -> planning.Design:
    floor = floor_of(plan.constraint).bound
    return planning.Design(np.zeros(0), floor, 1.0 - plan.confidence, np.array(plan.above), plan.start)


def _sheet(plan: Plan, scores: Array, order: Array, labels: list[planning.Label]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, plan.score, "label"])
    known = [str(int(label.right)) for label in labels]
    for turn, one in enumerate(plan.rounds):
        chance = "" if one.limit < 0 else f"{len(one.ranks) / plan.above[one.limit]:.6g}"
        for rank in one.ranks:
            label = known.pop(0) if known else ""
            row = int(order[rank])
            writer.writerow([row + 1, turn, chance, repr(float(scores[row])), label])
    return text.getvalue()


def _digest(sheet: str) -> str:
    """Of all columns but the labels, so that filling these in leaves it as it is."""
    rows = [row[:-1] for row in csv.reader(io.StringIO(sheet))]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _labels(plan: Plan, sheet: Path) -> list[planning.Label]:
    """Labels of all rounds, in the plan's order. Raises `InputError` for other rows, edited ones and missing labels."""
    if not sheet.exists():
        raise InputError("data", f"no {sheet}", "the file that aimfor plan wrote")
    columns = read_columns(sheet)
    stated = read_json(sheet.with_name(PLAN)).get("sheet")
    names = [*COLUMNS, plan.score, "label"]
    missing = next((name for name in names if name not in columns), None)
    cells = [[("" if columns[name][i] is None else columns[name][i]) for name in names[:-1]]
             for i in range(len(columns["label"]))] if missing is None else []  # fmt: skip
    found = hashlib.sha256(json.dumps([names[:-1], *cells]).encode()).hexdigest()
    if missing is not None or found != stated:
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
    limits = [(rank, one.limit) for one in plan.rounds for rank in one.ranks]
    return [
        planning.Label(rank, limit, word.lower() in _YES) for (rank, limit), word in zip(limits, words, strict=True)
    ]


def is_sheet(data: Path) -> bool:
    return data.name == SHEET and data.with_name(PLAN).exists()


def decided(sheet: Path) -> tuple[Decision, dict[str, Any]]:
    """The decision that the labels so far allow, and the document about it."""
    plan = read_plan(sheet.with_name(PLAN))
    labels, floor = _labels(plan, sheet), floor_of(plan.constraint)
    step = planning.accepted(_made(plan), labels)
    right, drawn = planning.so_far(_made(plan), labels)
    tested = sum(label.limit >= 0 for label in labels)
    sure, rows = f"{100 * plan.confidence:g}%", plan.above[-1]
    if step is None:
        sentence = (
            f"No threshold: {floor!r} is not guaranteed at {sure} confidence by {tested} planned labels. Run aimfor "
            "plan again in this folder for the next round: the promise holds whenever you stop."
        )
    else:
        sentence = (
            f"{floor!r}: guaranteed at {sure} confidence by {tested} planned labels, whenever you stop. "
            f"{plan.above[step]} of the {rows} rows ({plan.above[step] / rows:.2%}) are above the threshold."
        )
    steps = 0 if step is None else step - plan.start + 1
    region = () if step is None else (plan.cuts[step], plan.cuts[plan.start])
    promise = Guarantee(
        plan.confidence, repr(floor), tested, len(labels) - tested, steps, sentence, region=region
    )  # fmt: skip
    at = plan.start if step is None else step
    counts = Counts(Levels(), np.array([right[at], drawn[at] - right[at], 0.0, 0.0]))
    certificate = certify_so_far(precision, [floor], counts, plan.confidence)
    decision = Decision(None if step is None else plan.cuts[step], feasible=step is not None, margin="guarantee",
                        certificate=certificate, guarantee=promise)  # fmt: skip
    found = [None if n == 0 else float(k / n) for k, n in zip(right, drawn, strict=True)]
    curve = {"threshold": plan.cuts[::-1], "precision": found[::-1],
             "positive_rate": [one / rows for one in plan.above[::-1]]}  # fmt: skip
    document = {
        "aimfor": __version__, "kind": "decision", "data": plan.data, "score": plan.score, "target": "label",
        "positive": "1", "cluster": None, "labels": ["0", "1"], "groups": {},
        "rule": "positive where score > threshold", "decision": decision.to_dict(),
        "problem": f"maximize    positive_rate\nsubject to  {floor!r}", "direction": "maximize",
        "objective": "positive_rate", "constraints": [repr(floor)], "certificate": certificate.to_dict(),
        "curve": curve, "prices": [], "notes": [f"{len(plan.rounds) - 1} planned rounds after the pilot"],
    }  # fmt: skip
    return decision, document
