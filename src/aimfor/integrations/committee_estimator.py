"""The committee behind `MetricClassifier`: columns of any kind in, out-of-fold choices, scores and decisions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..fitting.columns import TableEncoder, columns_of
from ..fitting.committee import Committee, fit_committee
from ..fitting.objective import Objective

Array = NDArray[Any]


def is_frame(X: Any) -> bool:
    """A data frame of any library: its columns may hold text, dates and missing values."""
    return hasattr(X, "__arrow_c_stream__") or (hasattr(X, "iloc") and hasattr(X, "columns"))


@dataclass
class FittedTable:
    """An encoder and the committee that learned from its matrix."""

    encoder: TableEncoder
    committee: Committee

    def scores(self, X: Any) -> Tensor:
        return self.committee.scores(_matrix(self.encoder, X))


def _matrix(encoder: TableEncoder, X: Any) -> Tensor:
    return torch.from_numpy(encoder.transform(columns_of(X)))


def fit_table(
    X: Any,
    ids: Array,
    objective: Objective,
    outputs: int,
    *,
    members: tuple[str, ...],
    weights: Array | None,
    groups: Array | None,
    seed: int,
    workers: int,
) -> FittedTable:
    """Fits encoder and committee on all rows.

    Args:
        X: A data frame or an ``(n, d)`` array; missing values are welcome.
        ids: Class ids ``(n,)``; 1 is the positive class of a binary metric.
        objective: The metric.
        outputs: 1, or the number of classes.
        members: Kinds of members.
        weights: Of the rows, or None.
        groups: Labels ``(n,)`` of rows that belong together, or None.
        seed: Decides folds and everything random.
        workers: Processes.
    """
    encoder = TableEncoder.fit(columns_of(X))
    together = None if groups is None else torch.from_numpy(np.unique(groups, return_inverse=True)[1].astype(np.int64))
    committee = fit_committee(
        _matrix(encoder, X),
        torch.from_numpy(ids.astype(np.int64)),
        objective,
        outputs=outputs,
        weights=None if weights is None else torch.from_numpy(np.asarray(weights, dtype=np.float64)),
        groups=together,
        kinds=members,
        seed=seed,
        workers=workers,
    )
    return FittedTable(encoder, committee)
