"""From files of scores to a decision: what ``aimfor decide`` does, as plain data, as lines and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ... import __version__
from ...decisions import Decision, Problem
from ...files import write_text
from . import several
from .described import described
from .page import page
from .parts import questions
from .question import Files, Request, read_files
from .rows import Vocabulary, arrays, in_words, learn_group, vocabulary
from .spoken import grounds


def answer(request: Request) -> dict[str, Any]:
    """Reads, decides and describes. Raises `InputError` before anything is written."""
    files = read_files(request.checked())
    if request.abstain is not None:
        found = several.abstaining(request, files)
    elif request.score_of or request.category is not None or request.accept is not None:
        found = several.document_of(request, files)
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


def given(document: dict[str, Any]) -> bool:
    """Whether there is any threshold with a promise."""
    return any(one.decision["threshold"] is not None for one in questions(document))


def as_text(document: dict[str, Any]) -> list[str]:
    """What the terminal shows: the verdict, thresholds or the best effort, called that; notes, certificates."""
    single = document["kind"] == "decision"

    def line(one: tuple[str, str]) -> str:
        return f"{document['score']} > {one[1]} for {one[0]}." if single else " ".join(one)

    found = questions(document)
    cuts = [one for part in found for one in part.cuts]
    lines = [document["verdict"]]
    if single and len(cuts) == 1:
        lines = [lines[0].replace("Use ", f"Use {document['score']} > ", 1)]
    else:
        lines += [f"{'Use ' if single else ''}{line(one)}" for one in cuts]
    lines += [*document["notes"], *document["sentences"]]
    lines += [f"Best effort, nothing is promised: {line(one)}" for part in found for one in part.best]
    return [in_words(text, document.get("groups", {})) for text in lines]


def as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, allow_nan=False)


def write(document: dict[str, Any], folder: Path, made_by: str) -> Path:
    """``decision.json`` and ``decision.html``, which names the command and whose path is returned, in the folder."""
    text = page(document, made_by)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "decision.json", as_json(document) + "\n")
    write_text(folder / "decision.html", text)
    return folder / "decision.html"
