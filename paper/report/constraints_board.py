"""The page's table for floors and gaps: who kept the promise on test data, and what it cost."""

from __future__ import annotations

from typing import Any

from ..claims.judging import Entries
from .scoreboard import markdown
from .statistics import paired

INTRO = """### Floors on Adult and bank marketing, gaps on Adult and COMPAS (`adult_constraints`)

*met*: share of seeds whose 95 % certificate on test data says "met". Both sides tune their threshold with the same
certified margin; aimfor chooses on validation data between the rival and two trained candidates. The objective is
recall under a precision floor, the true negative rate under a recall floor, and accuracy under a limit on the gap.
"""
GAP_METHODS = ("aimfor, threshold by group, margin certify", "cross-entropy")


def constraints_board(entries: Entries) -> str:
    """One row per data set, model and constraint: aimfor against the rival, paired by seed."""
    rows = [*_floors(entries), *_gaps(entries)]
    head = ("data", "model", "constraint", "aimfor met", "rival met", "difference in the objective [95 %]", "verdict")
    return f"{INTRO}\n{markdown(head, rows)}\n"


def _floors(entries: Entries) -> list[tuple[str, ...]]:
    runs: dict[tuple[str, str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for entry in entries:
        cell = entry["cell"]
        if cell["task"] == "floor":
            for text, methods in entry["result"].items():
                runs.setdefault((cell["data"], cell["model"], text), []).append((methods["aimfor"], methods["rival"]))
    return [_row(key, pairs, "objective") for key, pairs in sorted(runs.items())]


def _gaps(entries: Entries) -> list[tuple[str, ...]]:
    runs: dict[tuple[str, str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for entry in entries:
        cell, methods = entry["cell"], entry["result"]
        if cell["task"] == "gap" and all(name in methods for name in GAP_METHODS):
            key = (cell["data"], cell["model"], "gap in false positive rates, against cross-entropy without it")
            runs.setdefault(key, []).append((methods[GAP_METHODS[0]], methods[GAP_METHODS[1]]))
    return [_row(key, pairs, "accuracy") for key, pairs in sorted(runs.items())]


def _row(
    key: tuple[str, str, str], pairs: list[tuple[dict[str, Any], dict[str, Any]]], goal: str
) -> tuple[str, str, str, str, str, str, str]:
    difference = paired([ours[goal] for ours, _ in pairs], [theirs[goal] for _, theirs in pairs])
    ours, theirs = (sum(pair[side]["verdict"] == "met" for pair in pairs) / len(pairs) for side in (0, 1))
    return (*key, f"{ours:.0%}", f"{theirs:.0%}", str(difference), difference.verdict)
