"""Does a decision, or a run, still keep its floors on what arrived since? Counts add up in a log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...constraints.counts import Counts, Levels
from ...decisions import Certificate
from ...decisions.watch import certify_so_far
from ...errors import InputError
from ...files import reading, write_text
from ...runs.lock import in_turn
from .rows import in_words
from .shape import shaped
from .watched import Watched, watched


@dataclass(frozen=True)
class Check:
    """One look: the certificate on all rows so far, and how many of them are new."""

    certificate: Certificate
    rows: int
    new: int
    log: Path
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cluster: str | None = None

    def __str__(self) -> str:
        """The certificate with groups and classes by the file's own words."""
        said = in_words(str(self.certificate), self.words)
        if self.cluster is None:
            return said
        return (
            f"{said}\nthe decision counts each {self.cluster} once, this check counts rows: it is too sure where "
            f"rows of one {self.cluster} agree"
        )


def look(path: Path, data: Path, log: Path | None, confidence: float, encoding: str = "utf8") -> Check:
    """Counts the new rows, adds them to those of the log, and appends one line to it.

    Raises:
        InputError: No decision with a threshold, no run with a floor, a file that was counted before, columns or
            labels that do not fit, a log that cannot be written or that another look does not give free.
    """
    if not data.is_file():
        wrong = "which is a folder" if data.is_dir() else "which does not exist"
        raise InputError("data", f"{data}, {wrong}", "a CSV or Parquet file of new rows with their labels")
    what = watched(path)
    problem = what.problem
    log = log or what.folder / "check.jsonl"
    scores, targets, groups = what.read(data, encoding)
    digest = _digest(what)
    file = hashlib.sha256(data.read_bytes()).hexdigest()
    counts, new = problem.count(scores, targets, groups=groups, decision=what.decision), len(scores) // what.copies
    with in_turn(log):  # from reading what was counted to writing the sum
        past = _past(log, repr(problem), digest)
        if file in [line.sha256 for line in past]:
            raise InputError("data", f"{data.name}, which the log has counted before", "rows that arrived since")
        if past:
            with reading(log):
                counts = _counts(past[-1].counts, counts.levels.names).plus(counts)
        total = round(counts.total) // what.copies
        certificate = certify_so_far(
            problem.objective, problem.constraints, counts, confidence, direction=problem.direction
        )
        line = {
            "file": data.name, "sha256": file, "rows": new, "total": total,
            "verdict": certificate.verdict.value, "confidence": confidence, "problem": repr(problem),
            "decision": digest, "counts": {**vars(counts.levels), "table": counts.table.tolist()},
        }  # fmt: skip
        before = log.read_text(encoding="utf8").rstrip("\n") + "\n" if past else ""
        write_text(log, before + json.dumps(line) + "\n")
    return Check(certificate, total, new, log, what.words, what.cluster)


@dataclass(frozen=True)
class _Counted:
    """Counts in a line of the log: by combination of group labels, the four cells of a table of decisions."""

    names: list[str]
    labels: list[list[float]]
    table: Any


@dataclass(frozen=True)
class _Line:
    """A line of the log."""

    sha256: str
    problem: str
    counts: _Counted
    #: Of the thresholds that were counted at; logs written before there was one have none.
    decision: str = ""


def _digest(what: Watched) -> str:
    """Of the problem and the thresholds: counts at different thresholds must not be added."""
    cuts = what.decision
    plain = [repr(what.problem), cuts.threshold, cuts.attribute, sorted(cuts.thresholds.items())]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _past(log: Path, problem: str, digest: str) -> list[_Line]:
    if not log.exists():
        return []
    try:
        lines = [
            shaped(_Line, json.loads(line)) for line in log.read_text(encoding="utf8").splitlines() if line.strip()
        ]
    except ValueError:  # also of bytes that are no text
        raise InputError("log", f"{log.name}, which is not a log of aimfor check", "the log of this decision") from None
    other = next((line.problem for line in lines if line.problem != problem), None)
    if other is not None:
        raise InputError(
            "log", f"the log of another problem ({other})", "the log of this decision", "Name another --log."
        )
    if any(line.decision != digest for line in lines):
        raise InputError(
            "log", "counts at other thresholds", "the log of this decision", "Name another --log, or delete this one."
        )
    return lines


def _counts(state: _Counted, names: tuple[str, ...]) -> Counts:
    """Raises `ValueError` for counts that no rows can have."""
    table = np.array(state.table, dtype=np.float64)
    shape = (*(len(labels) for labels in state.labels), 4)
    possible = bool(((table >= 0) & (table < 2**53)).all())
    if tuple(state.names) != tuple(names) or tuple(table.shape) != shape or not possible:
        raise ValueError("its counts are not those of this decision")
    return Counts(Levels(tuple(names), tuple(tuple(one) for one in state.labels)), table)
