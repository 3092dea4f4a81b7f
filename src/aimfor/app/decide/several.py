"""``aimfor decide`` for several classes: a floor for each class against the rest, or decisions and abstentions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...rates import Abstention, LabelDecisions, RateProblem, decide_labels, decide_or_abstain
from ...rates.parse import parse_constraint, parse_objective
from ..data.labels import labels_of
from .rows import ScoredTable, column_of, numbers, read_scores, refuse_overlap


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
class Found:
    """The document that is written, and whether anything can be guaranteed."""

    document: dict[str, Any]
    given: bool


def answer(request: Several) -> Found:
    """Reads and decides. Raises `InputError` before anything is written."""
    columns = _classes(request.score_of)
    tables = [_read(request, request.data, columns, request.rows)]
    if request.learn is not None:
        tables.append(_read(request, request.learn, columns, None))
        refuse_overlap(*tables)
    document = {
        "aimfor": __version__, "kind": "decisions", "data": request.data.name, "target": request.target,
        "scores": columns, "confidence": request.confidence,
    }  # fmt: skip
    if request.abstain is not None:
        return _abstaining(request, columns, tables, document)
    rows = [_marked(table, columns) for table in tables]
    problem = _problem(request)
    learn: Any = rows[1] if len(rows) > 1 else "split"
    found = decide_labels(problem, *rows[0], list(columns), guarantee=request.confidence, learn=learn)
    return Found(document | _labels_document(found), any(d.threshold is not None for d in found.decisions.values()))


def _labels_document(found: LabelDecisions) -> dict[str, Any]:
    return {
        "rule": "CLASS where its score > its threshold",
        "decisions": {name: decision.to_dict() for name, decision in found.decisions.items()},
        "sentences": [f"{name}: {decision.guarantee}" for name, decision in found.decisions.items()],
    }


def _abstaining(
    request: Several, columns: dict[str, str], tables: list[ScoredTable], document: dict[str, Any]
) -> Found:
    if request.maximize or request.minimize or request.subject_to:
        raise InputError("abstain", "it with an objective or constraints", "one of the two questions")
    assert request.abstain is not None
    rows = [_ids(table, columns) for table in tables]
    learn: Any = rows[1] if len(rows) > 1 else "split"
    found: Abstention = decide_or_abstain(*rows[0], error=request.abstain, guarantee=request.confidence, learn=learn)
    plain = {
        "rule": "the class with the largest score, where it is ahead of the next by more than threshold; else a person",
        "error": request.abstain,
        "coverage": found.coverage,
        "decision": found.decision.to_dict(),
        "sentences": [f"decided: {found.coverage:.1%} of the rows", str(found.decision.guarantee)],
    }
    return Found(document | plain, found.decision.threshold is not None)


def _classes(score_of: tuple[str, ...]) -> dict[str, str]:
    pairs = [one.partition("=") for one in score_of]
    wrong = next(
        (one for one, (name, mark, column) in zip(score_of, pairs, strict=True) if not (name and mark and column)), None
    )
    if wrong is not None:
        raise InputError("score-of", repr(wrong), "CLASS=COLUMN", "--score-of fraud=p_fraud --score-of theft=p_theft")
    columns = {name: column for name, _, column in pairs}
    if len(columns) < len(pairs):
        raise InputError("score-of", "a class twice", "each class once")
    return columns


def _read(request: Several, path: Path, columns: dict[str, str], rows: int | None) -> ScoredTable:
    first, *others = columns.values()
    table = read_scores(path, first, request.target, request.encoding, rows)
    for name in others:
        missing = int(column_of(table.columns, "score-of", name).missing.sum())
        if missing:
            raise InputError("score-of", f"{missing} rows without a value of {name!r}", "a score in every row")
    known = set(labels_of(table.columns[request.target]))
    strange = sorted(set(columns) - known)
    if strange:
        raise InputError("score-of", f"{strange[0]!r}, which no row of {path.name} has", "labels of the target column")
    return table


def _matrix(table: ScoredTable, columns: dict[str, str]) -> Tensor:
    return torch.stack([numbers(table.columns[column], column) for column in columns.values()], 1)


def _marked(table: ScoredTable, columns: dict[str, str]) -> tuple[Tensor, Tensor]:
    labels = labels_of(table.columns[table.target])
    marks = torch.tensor([[label == name for name in columns] for label in labels])
    return _matrix(table, columns), marks


def _ids(table: ScoredTable, columns: dict[str, str]) -> tuple[Tensor, Tensor]:
    labels = [str(label) for label in labels_of(table.columns[table.target])]
    without = sorted(set(labels) - set(columns))
    if without or len(columns) < 2:
        raise InputError("score-of", f"none for {without[0]!r}" if without else "one class", "a score for every class")
    names = list(columns)
    return _matrix(table, columns), torch.tensor([names.index(label) for label in labels])


def _problem(request: Several) -> RateProblem:
    if (request.maximize is None) == (request.minimize is None):
        raise InputError("maximize", "both or neither of --maximize and --minimize", "one of them")
    if not request.subject_to:
        raise InputError(
            "subject-to", "nothing", "at least one constraint", '--subject-to "precision[label=fraud] >= 0.9"'
        )
    direction = "maximize" if request.maximize is not None else "minimize"
    objective = parse_objective(request.maximize or request.minimize or "")
    return RateProblem(direction, objective, [parse_constraint(text) for text in request.subject_to])


def write(found: Found, folder: Path) -> Path:
    """``decision.json`` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "decision.json"
    checkpoint.write_text(path, as_json(found) + "\n")
    return path


def as_json(found: Found) -> str:
    return json.dumps(found.document, indent=1, allow_nan=False)
