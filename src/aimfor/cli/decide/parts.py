"""Several thresholds for the rows of one file: for each class, for each category, or to accept and to reject.

And what decision.json answers, question by question: where each threshold applies, and what stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...constraints.counts import Array
from ...errors import InputError
from .rows import ScoredTable, column_of, labels_of, numbers

#: The two sides of a band that a person decides: rows above one threshold, rows not above the other.
ACCEPT, REJECT = "accept", "reject"
LABEL, SIDE = "label", "side"


@dataclass(frozen=True)
class Parts:
    """Which rows each threshold is about, by its name.

    Attributes:
        attribute: What the names are values of: the label, the side of the band, or else a column of categories.
        target: Column of the labels.
        scores: Column of the scores, by name.
        positive: Label of the positive class, by name.
    """

    attribute: str
    target: str
    scores: Mapping[str, str]
    positive: Mapping[str, str]

    @property
    def by_category(self) -> bool:
        return self.attribute not in (LABEL, SIDE)

    def split(self, table: ScoredTable, cluster: Array | None = None) -> dict[str, tuple[Array, Array, Array | None]]:
        """Scores, whether each row is positive, and clusters, by name."""
        labels = labels_of(table.columns[self.target])
        of = labels_of(column_of(table.columns, "category", self.attribute)) if self.by_category else None
        found = {}
        for name, column in self.scores.items():
            kept = np.ones(len(labels), dtype=bool) if of is None else of == name
            own = None if cluster is None else cluster[kept]
            found[name] = numbers(table.columns[column], column)[kept], (labels == self.positive[name])[kept], own
        return found

    def where(self, name: str) -> str:
        """Words before a threshold."""
        low = (self.attribute, name) == (SIDE, REJECT)
        return f"{name}, where {self.scores[name]} is {'at most' if low else 'above'}"


def class_columns(score_of: Sequence[str]) -> dict[str, str]:
    """Columns by class, from words such as ``fraud=p_fraud``."""
    pairs = [one.partition("=") for one in score_of]
    wrong = next((one for one, pair in zip(score_of, pairs, strict=True) if not all(pair)), None)
    if wrong is not None:
        raise InputError("score-of", repr(wrong), "CLASS=COLUMN", "--score-of fraud=p_fraud --score-of theft=p_theft")
    columns = {name: column for name, _, column in pairs}
    if len(columns) < len(pairs):
        raise InputError("score-of", "a class twice", "each class once")
    return columns


def class_ids(table: ScoredTable, target: str, columns: Mapping[str, str]) -> tuple[Array, Array]:
    """Scores ``(n, c)`` and classes ``(n,)``; every label needs a column of scores."""
    labels, names = [str(label) for label in labels_of(table.columns[target])], list(columns)
    without = sorted(set(labels) - set(names))
    if without or len(names) < 2:
        raise InputError("score-of", f"none for {without[0]!r}" if without else "one class", "a score for every class")
    scores = np.stack([numbers(table.columns[column], column) for column in columns.values()], 1)
    return scores, np.array([names.index(label) for label in labels])


def refuse_strange(table: ScoredTable, classes: Mapping[str, str]) -> None:
    """Classes that no row has."""
    strange = sorted(set(classes) - set(table.labels))
    if strange:
        came = f"{strange[0]!r}, which no row of {table.path.name} has"
        raise InputError("score-of", came, "labels of the target column")


@dataclass(frozen=True)
class Answered:
    """One question: its thresholds ``(where, threshold)``, promised or, without any, those of the best effort."""

    name: str
    cuts: list[tuple[str, str]]
    best: list[tuple[str, str]]
    decision: dict[str, Any]
    described: dict[str, Any]

    @property
    def promise(self) -> dict[str, Any]:
        found: dict[str, Any] = self.decision["guarantee"]
        return found


def questions(document: dict[str, Any]) -> list[Answered]:
    """One for a decision or an abstention, else one for each class, category or side."""
    if document["kind"] == "decisions":
        parts = Parts(document["attribute"], document["target"], document["scores"], document["positive"])
        return [
            _answered(name, [parts.where(name)], [one["threshold"]], one, document["parts"][name])
            for name, one in document["decisions"].items()
        ]
    decision = document["decision"]
    if document["kind"] == "abstention":
        where, cuts = ["every row whose largest score is ahead of the next by more than"], [decision["threshold"]]
    elif document.get("group") is None:
        where, cuts = ["everyone"], [decision["threshold"]]
    else:
        where = [f"{document['group']} = {word}" for word in document["groups"][document["group"]]]
        cuts = list(decision["thresholds"].values())
    return [_answered("", where, cuts, decision, document)]


def _answered(
    name: str, where: list[str], cuts: list[float | None], decision: dict[str, Any], described: dict[str, Any]
) -> Answered:
    promised = [] if decision["threshold"] is None else _lines(where, cuts)
    best = [] if promised else _lines(where, decision["guarantee"].get("best_effort", ()))
    return Answered(name, promised, best, decision, described)


def _lines(where: list[str], cuts: Any) -> list[tuple[str, str]]:
    return [(who, f"{cut:.10g}") for who, cut in zip(where, cuts, strict=False)]
