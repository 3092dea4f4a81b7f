"""``aimfor check``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from .words import Words, one_line

HELP = "Do the floors still hold on what arrived since? Exit code 0: met, 1: missed, 3: undecided so far."


def check(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    parser = Words("check", HELP, ("aimfor check decisions/scores new_scores.csv",))
    add = parser.add_argument
    add("decision", type=Path, help="decision.json of `aimfor decide` or its folder, or a run of `aimfor train`.")
    add("data", type=Path, help="CSV or Parquet file of new rows with their labels.")
    add("--confidence", type=float, default=0.95, help="Confidence of all verdicts together, however often you check.")
    add("--log", type=Path, metavar="FILE", help="By default check.jsonl in the folder.")
    add("--encoding", default="utf8", help="Of the CSV file, where it is not UTF-8.")
    return one_line(_check, parser, words)


def _check(given: Namespace) -> int:
    from .decide.check import look

    found = look(given.decision, given.data, given.log, given.confidence, given.encoding)
    print(f"{found.new} new rows, {found.rows} in all; log: {found.log}")
    print(found)
    return {"met": 0, "missed": 1}.get(found.certificate.verdict.value, 3)
