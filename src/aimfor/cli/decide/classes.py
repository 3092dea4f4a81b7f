"""Scores of several classes in the columns of one file, as the two questions about them need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...constraints.counts import Array
from ...errors import InputError
from .rows import ScoredTable, absent, column_of, labels_of, numbers, read_scores


@dataclass(frozen=True)
class ClassColumns:
    """Which column holds the scores of which class, and which the labels."""

    target: str
    columns: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def read(self, path: Path, encoding: str = "utf8", rows: int | None = None, new: bool = False) -> ScoredTable:
        """Raises `InputError` for columns that are not there, rows without a score, and classes without a row.

        ``new`` rows need not have every class: a small file of what arrived since may lack a rare one.
        """
        first, *others = self.columns.values()
        table = read_scores(path, first, self.target, encoding, rows)
        for name in others:
            missing = absent(column_of(table.columns, "score-of", name))
            if missing:
                raise InputError("score-of", f"{missing} rows without a value of {name!r}", "a score in every row")
        strange = sorted(set(self.columns) - set(labels_of(table.columns[self.target])))
        if strange and not new:
            raise InputError(
                "score-of", f"{strange[0]!r}, which no row of {path.name} has", "labels of the target column"
            )
        return table

    def scores(self, table: ScoredTable) -> Array:
        """``(n, c)``."""
        return np.stack([numbers(table.columns[column], column) for column in self.columns.values()], 1)

    def marked(self, table: ScoredTable) -> tuple[Array, Array]:
        """Scores, and whether each row has each class, both ``(n, c)``."""
        labels = labels_of(table.columns[self.target])
        return self.scores(table), np.array([[label == name for name in self.columns] for label in labels])

    def ids(self, table: ScoredTable) -> tuple[Array, Array]:
        """Scores ``(n, c)`` and classes ``(n,)``; every label needs a column of scores."""
        labels = [str(label) for label in labels_of(table.columns[self.target])]
        without = sorted(set(labels) - set(self.columns))
        if without or len(self.columns) < 2:
            came = f"none for {without[0]!r}" if without else "one class"
            raise InputError("score-of", came, "a score for every class")
        return self.scores(table), np.array([self.names.index(label) for label in labels])


def class_columns(target: str, score_of: Sequence[str]) -> ClassColumns:
    """From words such as ``fraud=p_fraud``."""
    pairs = [one.partition("=") for one in score_of]
    wrong = next(
        (one for one, (name, mark, column) in zip(score_of, pairs, strict=True) if not (name and mark and column)), None
    )
    if wrong is not None:
        raise InputError("score-of", repr(wrong), "CLASS=COLUMN", "--score-of fraud=p_fraud --score-of theft=p_theft")
    columns = {name: column for name, _, column in pairs}
    if len(columns) < len(pairs):
        raise InputError("score-of", "a class twice", "each class once")
    return ClassColumns(target, columns)
