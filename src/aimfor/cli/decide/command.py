"""From files of scores to a decision: what ``aimfor decide`` does, as plain data and as files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...checks.settings import number
from ...decisions import Decision, Problem
from ...files import write_text
from .asked import asked
from .clustered import clusters_of, suspected
from .described import described
from .page import page, thresholds
from .rows import ScoredTable, Vocabulary, arrays, in_words, learn_group, read_scores, refuse_overlap, vocabulary


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
    cluster: str | None = None
    positive: str | None = None
    encoding: str = "utf8"
    rows: int | None = None


@dataclass
class Answer:
    """A decision and all that the page and the JSON file say about it."""

    problem: Problem
    decision: Decision
    words: Vocabulary
    document: dict[str, Any]


def answer(request: Request) -> Answer:
    """Reads, decides and describes. Raises `InputError` before anything is written."""
    number("confidence", request.confidence, above=0.5, below=1)
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
    rows = [arrays(table, words) for table in tables]
    together = [clusters_of(table, request.cluster) for table in tables]
    learn: Any = (*rows[1], together[1]) if request.learn is not None else "split"
    scores, targets, codes = rows[0]
    calibration.notes.extend(_about_clusters(request, calibration, rows[0], groups))

    def decide(one: Problem) -> Decision:
        return one.decide(
            scores, targets, groups=codes, per_group=request.group, learn=learn, guarantee=request.confidence,
            cluster=together[0],
        )  # fmt: skip

    decision = decide(problem)
    document = {
        "aimfor": __version__,
        "kind": "decision",
        "data": request.data.name,
        "score": request.score,
        "target": request.target,
        "positive": words.positive,
        "cluster": request.cluster,
        "labels": calibration.labels,
        "groups": words.groups,
        "rule": "positive where score > threshold",
        "decision": decision.to_dict(),
        **described(problem, decision, (*rows[0], together[0]), decide, learn=learn, groups=words.groups),
        "notes": calibration.notes,
    }
    return Answer(problem, decision, words, document)


def _about_clusters(request: Request, table: ScoredTable, rows: Any, groups: set[str]) -> list[str]:
    if request.cluster is None:
        return suspected(table, rows, {request.score, request.target, *groups})
    if len(set(table.columns[request.cluster])) == len(rows[0]):
        return [f"every row has a {request.cluster} of its own: rows are counted one by one"]
    return []


def _problem(request: Request, words: Vocabulary, tables: list[ScoredTable]) -> Problem:
    def label_of(attribute: str, word: str) -> float:
        learn_group(words, attribute, tables)
        return words.label(attribute, word)

    return asked(request.maximize, request.minimize, request.subject_to, label_of)


def as_text(found: Answer) -> list[str]:
    """What the terminal shows: the thresholds, the promise and the certificate."""
    score = found.document["score"]
    lines = [f"Use {score} > {cut} for {who}." for who, cut in thresholds(found.document)]
    lines += found.document["notes"]
    lines += [found.document["decision"]["guarantee"]["sentence"]]
    if found.decision.threshold is not None:
        lines += [str(found.decision.certificate)]
    return [in_words(line, found.words.groups) for line in lines]


def as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False)


def write(document: dict[str, Any], folder: Path) -> Path:
    """``decision.json`` and ``decision.html``, whose path is returned, in the folder."""
    text = page(document)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "decision.json", as_json(document) + "\n")
    write_text(folder / "decision.html", text)
    return folder / "decision.html"
