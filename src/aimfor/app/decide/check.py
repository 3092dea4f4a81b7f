"""Does a decision, or a run, still keep its floors on what arrived since? Counts add up in a log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...errors import InputError
from ...fitting import checkpoint
from ...rates import Certificate
from ...rates.counts import Counts, Levels, counts_from_state
from ...rates.watch import certify_so_far
from .watched import watched


@dataclass(frozen=True)
class Looked:
    """One look: the certificate on all rows so far, and how many of them are new."""

    certificate: Certificate
    rows: int
    new: int
    log: Path


def look(
    path: Path, data: Path, log: Path | None, confidence: float, encoding: str = "utf8", trust: str | None = None
) -> Looked:
    """Counts the new rows, adds them to those of the log, and appends one line to it.

    Raises:
        InputError: No decision with a threshold, no run with a floor, a file that was counted before, columns or
            labels that do not fit.
    """
    if not data.is_file():
        wrong = "which is a folder" if data.is_dir() else "which does not exist"
        raise InputError("data", f"{data}, {wrong}", "a CSV or Parquet file of new rows with their labels")
    what = watched(path, trust)
    problem = what.problem
    log = log or what.folder / "check.jsonl"
    scores, targets, groups = what.read(data, encoding)
    print_of_file = hashlib.sha256(data.read_bytes()).hexdigest()
    past = _past(log, repr(problem))
    if print_of_file in [line["sha256"] for line in past]:
        raise InputError("data", f"{data.name}, which the log has counted before", "rows that arrived since")
    counts = problem.count(scores, targets, groups=groups, decision=what.decision)
    if past:
        state = past[-1]["counts"]
        before = counts_from_state({**state, "table": torch.tensor(state["table"], dtype=torch.float64)})
        counts = before.plus(counts)
    certificate = certify_so_far(problem.objective, problem.constraints, counts, confidence)
    line = {
        "file": data.name, "sha256": print_of_file, "rows": len(scores), "total": round(counts.total),
        "verdict": certificate.verdict.value, "confidence": confidence, "problem": repr(problem),
        "counts": _state(counts),
    }  # fmt: skip
    checkpoint.write_text(log, "".join(json.dumps(one) + "\n" for one in [*past, line]))
    return Looked(certificate, round(counts.total), len(scores), log)


def _past(log: Path, problem: str) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    try:
        lines = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines() if line.strip()]
        other = next((line["problem"] for line in lines if line["problem"] != problem), None)
    except (json.JSONDecodeError, KeyError, TypeError):
        raise InputError("log", f"{log.name}, which is not a log of aimfor check", "the log of this decision") from None
    if other is not None:
        raise InputError(
            "log", f"the log of another problem ({other})", "the log of this decision", "Name another --log."
        )
    return lines


def _state(counts: Counts) -> dict[str, Any]:
    levels: Levels = counts.levels
    return {
        "names": list(levels.names), "labels": [list(one) for one in levels.labels], "table": counts.table.tolist(),
    }  # fmt: skip
