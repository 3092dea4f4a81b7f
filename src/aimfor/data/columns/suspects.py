"""Columns and rows that know too much: one that nearly decides the target, and copies on both sides of a split."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from ...decisions.asked import sets_of_copies
from ...metrics import AUROC
from .cells import Column
from .encoder import TableEncoder
from .kinds import Floats, Matrix, override

_NEARLY = 0.995
_MOST_ROWS = 20_000


def near_perfect(encoder: TableEncoder, x: Matrix, ids: NDArray[np.int64]) -> list[str]:
    """A sentence for each input column whose values alone tell the classes apart.

    Args:
        encoder: The encoder that gave ``x``.
        x: Encoded training rows, ``(n, d)``.
        ids: Their classes, ``(n,)``. With more than two, each is taken against the rest, and the worst one counts.
    """
    step = max(1, len(x) // _MOST_ROWS)
    x, ids = x[::step], ids[::step]
    classes, counts = np.unique(ids, return_counts=True)
    if len(classes) < 2 or counts.min() < 10:  # fewer rows are told apart by chance
        return []
    sentences, at = [], 0
    for coder in encoder.columns:
        width = len(coder.parts)
        worst = min(_told_apart(x[:, at : at + width], ids == one) for one in classes[-1 if len(classes) == 2 else 0 :])
        at += width
        if worst >= _NEARLY:
            sentences.append(
                f"column {coder.name!r} alone nearly decides the target (AUROC {worst:.4f}): if it is only known "
                f"afterwards, leave it out with {override(coder.name, 'ignore')}"
            )
    return sentences


def _told_apart(part: Matrix, positive: NDArray[np.bool_]) -> float:
    """The best AUROC of one output, or of the share of positives at each level of a category."""
    if bool(((part == 0) | (part == 1)).all()) and part.shape[1] > 1:
        ones = part.astype(np.float64)
        share = (ones.T @ positive + 1e-9) / (ones.sum(0) + 2e-9)
        return _auroc(ones @ share, positive)
    return max(_auroc(column.astype(np.float64), positive) for column in part.T)


def _auroc(values: Floats, positive: NDArray[np.bool_]) -> float:
    found = float(AUROC().value(torch.from_numpy(np.ascontiguousarray(values)), torch.from_numpy(positive).long()))
    return max(found, 1 - found)


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
