"""Columns that know too much: one column that nearly decides the target is more often a leak than a discovery."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ...metrics import AUROC
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
