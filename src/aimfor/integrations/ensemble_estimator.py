"""The ensemble behind `MetricClassifier`: columns of any kind in, out-of-fold choices, scores and decisions out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.columns import Column, TableEncoder, columns_of
from ..data.source import copied_rows
from ..errors import CopiesWarning, InputError, callers_level
from ..learners.ensemble import Ensemble, fit_ensemble
from ..targets.objective import Objective

Array = NDArray[Any]


def is_frame(X: Any) -> bool:
    """A data frame of any library: its columns may hold text, dates and missing values."""
    if hasattr(X, "collect_schema") and not hasattr(X, "__arrow_c_stream__"):
        raise InputError("X", f"a {type(X).__name__}, which holds no rows yet", "a data frame", "Pass X.collect().")
    return hasattr(X, "__arrow_c_stream__") or (hasattr(X, "iloc") and hasattr(X, "columns"))


@dataclass
class FittedTable:
    """An encoder and the ensemble that learned from its matrix."""

    encoder: TableEncoder
    ensemble: Ensemble

    def scores(self, X: Any) -> Tensor:
        return self.ensemble.scores(torch.from_numpy(self.encoder.transform(columns_of(X))))


def fit_table(
    X: Any,
    ids: Array,
    objective: Objective,
    outputs: int,
    *,
    members: tuple[Any, ...],
    weights: Array | None,
    groups: Array | None,
    seed: int,
    workers: int,
) -> FittedTable:
    """Fits encoder and ensemble on all rows.

    Args:
        X: A data frame or an ``(n, d)`` array; missing values are welcome.
        ids: Class ids ``(n,)``; 1 is the positive class of a binary metric.
        objective: The metric.
        outputs: 1, or the number of classes.
        members: Kinds of members, and scikit-learn classifiers.
        weights: Of the rows, or None.
        groups: Labels ``(n,)`` of rows that belong together, or None.
        seed: Decides folds and everything random.
        workers: Processes.
    """
    columns = columns_of(X)
    encoder = TableEncoder.fit(columns)
    if groups is None:
        groups = _kept_together(columns, ids)
    together = None if groups is None else torch.from_numpy(np.unique(groups, return_inverse=True)[1].astype(np.int64))
    ensemble = fit_ensemble(
        torch.from_numpy(encoder.transform(columns)),
        torch.from_numpy(ids.astype(np.int64)),
        objective,
        outputs=outputs,
        levels=encoder.levels,
        weights=None if weights is None else torch.from_numpy(np.asarray(weights, dtype=np.float64)),
        groups=together,
        kinds=members,
        seed=seed,
        workers=workers,
    )
    return FittedTable(encoder, ensemble)


def _kept_together(columns: Mapping[str, Column], ids: Array) -> Array | None:
    """The set of equal rows that each row belongs to, with a warning, where rows are copies of others."""
    found = copied_rows(columns, ids)
    if found is None:
        return None
    sets, sentence = found
    apart = min(len(np.unique(sets[ids == one])) for one in np.unique(ids)) >= 2
    effect = "equal rows stay in one fold, and metric_ is about the rows as given" if apart else "metric_ is too high"
    text = f"{sentence}: {effect}. An oversampler belongs behind the split, or nowhere."
    warnings.warn(text, CopiesWarning, stacklevel=callers_level())
    return sets if apart else None
