"""METRICS × ENGINES: names, and the support table, all read off the code.

Registering a metric here is all it takes to give it the laws in tests/test_laws.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from ..engine import Engine
from ..errors import InputError
from ..pairwise.engine import SortedEngine
from .auroc import AUROC
from .base import Metric


@dataclass(frozen=True)
class Entry:
    """A metric's name, how to make it, and an example that the law tests use."""

    name: str
    make: Callable[..., Metric]
    cls: type[Metric]
    example: str
    #: How a parameter is written after the name: "" (none), "=" (``fbeta=2``) or "@" (``ndcg@10``).
    parameter: str = ""


METRICS: tuple[Entry, ...] = (Entry("auroc", AUROC, AUROC, "auroc"),)

ENGINES: tuple[type[Engine], ...] = (SortedEngine,)


def metric_from_name(text: str) -> Metric:
    """The metric of that name: ``"auroc"``, ``"fbeta=2"``, ``"ndcg@10"``, ``"precision@recall=0.8"``, …"""
    for entry in METRICS:
        if text == entry.name and (not entry.parameter or entry.example == entry.name):
            return entry.make()
        if entry.parameter and text.startswith(entry.name + entry.parameter):
            return entry.make(_parse(text, text[len(entry.name) + 1 :]))
    known = [entry.example for entry in METRICS]
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    raise InputError("metric", repr(text), "one of " + ", ".join(known), f"Did you mean {near[0]!r}?" if near else "")


def _parse(text: str, number: str) -> float:
    try:
        return int(number) if number.isdigit() else float(number)
    except ValueError:
        raise InputError(
            "metric", repr(text), "a number after the name", "For instance 'fbeta=2' or 'ndcg@10'."
        ) from None


def engines_for(metric: Metric) -> list[str]:
    """Names of the engines that can train this metric."""
    return [engine.__name__ for engine in ENGINES if isinstance(metric, engine.capability)]


def support() -> str:
    """The table of metrics × engines, with what each pair costs: generated from the classes, never by hand."""
    head = ["metric", "class", *(f"{engine.name}" for engine in ENGINES)]
    rows = [
        [
            entry.example,
            entry.cls.__name__,
            *(engine.cost if issubclass(entry.cls, engine.capability) else "–" for engine in ENGINES),
        ]
        for entry in METRICS
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])
