"""A table as the rivals' own users give it to them: categories by name, missing values left missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.columns import TableEncoder
from ...data.columns.categories import Category
from ..prepared import Prepared

Array = NDArray[Any]
#: Levels above which scikit-learn's histogram boosting takes no column of categories.
MOST_NATIVE = 255


@dataclass(frozen=True)
class RawTable:
    """Numbers with NaN where they are missing, and categories as level numbers with -1 where missing or unknown.

    Attributes:
        numbers: ``(n, d)`` float64; dates and counts of words are numbers too.
        levels: ``(n, k)`` int64.
        sizes: How many levels each of the k columns has.
    """

    numbers: Array
    levels: Array
    sizes: tuple[int, ...]

    def take(self, rows: Array) -> RawTable:
        return RawTable(self.numbers[rows], self.levels[rows], self.sizes)

    @property
    def native(self) -> Array:
        """``(n, k + d)``: level numbers first, NaN where missing, for learners that know categories."""
        codes = self.levels.astype(np.float64)
        return np.concatenate([np.where(codes < 0, np.nan, codes), self.numbers], 1)

    @property
    def words(self) -> Array:
        """``(n, k + d)`` objects: level numbers as text, for CatBoost."""
        return np.concatenate([self.levels.astype(str).astype(object), self.numbers.astype(object)], 1)


def raw_table(ready: Prepared, learned: Array) -> RawTable:
    """The columns of a table, whose levels are those of the rows that may be learned from.

    Without a table, or where no column holds categories, they are the encoded numbers.
    """
    x = ready.x.clamp(-10, 10).double().numpy()  # one stray value must not ruin the linear one
    if not isinstance(ready.encoder, TableEncoder):
        return RawTable(x.reshape(len(x), -1), np.zeros((len(x), 0), dtype=np.int64), ())
    numbers, levels, at = [], [], 0
    for coder in ready.encoder.columns:
        width = len(coder.parts)
        part, at = x[:, at : at + width], at + width
        column = ready.source.columns[coder.name]
        if isinstance(coder, Category):
            levels.append(_codes(column, learned))
        elif coder.parts[-1] == "missing":
            numbers.append(np.where(part[:, -1:] > 0, np.nan, part[:, :-1]))
        else:
            numbers.append(part)
    empty = np.zeros((len(x), 0))
    codes = np.stack([one for one, _ in levels], 1) if levels else empty.astype(np.int64)
    return RawTable(np.concatenate([*numbers, empty], 1), codes, tuple(size for _, size in levels))


def _codes(column: Any, learned: Array) -> tuple[Array, int]:
    """Level numbers by the rows that may be learned from, and how many levels there are."""
    codes, texts = column.distinct()
    known = np.unique(codes[learned])
    known = known[known >= 0]
    place = np.full(len(texts) + 1, -1, dtype=np.int64)  # the last is for missing, whose code is -1
    place[known] = np.arange(len(known))
    return place[codes], len(known)
