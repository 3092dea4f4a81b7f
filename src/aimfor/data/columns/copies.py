"""Rows that are copies of others: on both sides of a split they make a model look better than it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...decisions.asked import sets_of_copies
from .cells import Column


def copied_rows(columns: Mapping[str, Column], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], str] | None:
    """Which rows are equal, and a sentence that counts them; None where no row is a copy, or chance explains it.

    Args:
        columns: The table without its target; columns of texts or whole numbers that all differ count as names of rows.
        ids: Classes, ``(n,)``.

    Returns:
        The number of each row's set of equal rows, ``(n,)``.

    Example:
        >>> column = Column("number", np.random.default_rng(0).normal(size=300).repeat(2))
        >>> copied_rows({"a": column, "b": column}, np.arange(300).repeat(2) % 2)[1]
        '300 of 600 rows are copies of other rows'
    """
    read = [(column, _codes(column)) for column in columns.values() if column.kind != "unread"]
    codes = [ranks for column, ranks in read if not _names_rows(column, ranks)]
    if not codes:
        return None
    classes, counts = np.unique(ids, return_counts=True)
    sets = sets_of_copies(np.stack(codes, axis=1), ids != classes[counts.argmax()])
    if sets is None:
        return None
    copies = len(sets) - len(np.unique(sets))
    return sets, f"{copies} of {len(sets)} rows are {'copies of other rows' if copies > 1 else 'a copy of another row'}"


def _codes(column: Column) -> NDArray[np.int32]:
    """Numbers and times by their rank, texts by the order in which they come."""
    if column.kind == "text":
        return column.distinct()[0].astype(np.int32)
    return np.unique(column.values, return_inverse=True)[1].astype(np.int32)


def _names_rows(column: Column, codes: NDArray[np.int32]) -> bool:
    """Whether a column of texts or whole numbers has another value in every row, as an identifier has."""
    if column.kind == "number" and not bool((column.values == np.floor(column.values)).all()):
        return False
    return column.kind != "time" and bool(codes.min() >= 0) and int(codes.max()) + 1 == len(codes)
