"""Which rows choose the order of the tests: other rows, a random part of the same, or each fold in turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..constraints.counts import Array
from ..errors import InputError
from .rows import Rows, checked_rows, column

#: Share of the rows that choose the order of tests when the same rows have to serve for both.
LEARN_SHARE = 0.3
MOST_FOLDS = 20
#: Fewer calibration rows than this cannot guarantee anything worth having.
FEWEST_ROWS = 20
#: Other rows (scores, targets), with groups or (groups, cluster) behind; "split"; or fold ids, in any kind of column.
Learn = Any


def calibration_share(learn: Learn) -> float:
    """Calibration rows as a share of the labelled rows that were given; folds calibrate on all but their own."""
    if isinstance(learn, tuple):
        return 1.0
    if isinstance(learn, str):
        return 1.0 - LEARN_SHARE
    folds = max(len(np.unique(column("learn", learn))), 2)
    return (folds - 1) / folds


def learning_pairs(batch: Rows, learn: Learn) -> list[tuple[Rows, Rows]]:
    """(learning rows, calibration rows) from other rows, from a random part of these, or by folds of these."""
    if isinstance(learn, tuple) and len(learn) in (2, 3, 4):
        scores, targets, groups, cluster = (*learn, None, None)[:4]
        other = checked_rows("learn", scores, targets, groups, cluster=cluster)
        if np.array_equal(other.scores, batch.scores) and np.array_equal(other.targets, batch.targets):
            raise InputError(
                "learn", "the calibration rows themselves", "other rows", 'Use learn="split", or training rows.'
            )
        return [(other, batch)]
    if not isinstance(learn, (str, tuple)) and learn is not None:
        return _by_folds(batch, column("learn", learn))
    if learn != "split":
        raise InputError("learn", repr(learn), '(scores, targets) of other rows, "split", or fold ids')
    if round(LEARN_SHARE * len(batch)) < FEWEST_ROWS:
        least = math.ceil((FEWEST_ROWS - 0.5) / LEARN_SHARE)
        remedy = "Label more rows; or let other rows, such as training rows, order the tests (learn)."
        raise InputError("scores", f"{len(batch)} rows, to be split", f"at least {least}", remedy)
    if batch.cluster is None:
        learns = np.zeros(len(batch), dtype=bool)
        learns[_drawn(len(batch), round(LEARN_SHARE * len(batch)))] = True
    else:  # whole clusters
        number = int(batch.cluster.max()) + 1
        learns = np.isin(batch.cluster, _drawn(number, round(LEARN_SHARE * number)))
    return [(batch.take(learns), batch.take(~learns))]


def _drawn(rows: int, wanted: int) -> list[int]:
    """So many of the rows at random, by Fisher and Yates: the draw of every version, so that decisions repeat."""
    raw = np.frombuffer(np.random.RandomState(0).bytes(4 * wanted), dtype="<u4")
    order = list(range(rows))
    for place, step in enumerate((raw % (rows - np.arange(wanted))).tolist()):
        order[place], order[place + step] = order[place + step], order[place]
    return order[:wanted]


def _by_folds(batch: Rows, ids: Array) -> list[tuple[Rows, Rows]]:
    if ids.shape != batch.scores.shape or ids.dtype.kind not in "iub":
        raise InputError("learn", f"fold ids of shape {ids.shape}", "one whole number for each row")
    folds = np.unique(ids)
    if not 2 <= len(folds) <= MOST_FOLDS:
        raise InputError("learn", f"{len(folds)} folds", f"2 to {MOST_FOLDS} folds")
    if batch.cluster is not None and len(np.unique(np.stack((batch.cluster, ids)), axis=1).T) > batch.cluster.max() + 1:
        raise InputError("learn", "a cluster with rows in several folds", "every cluster in one fold")
    return [(batch.take(ids == fold), batch.take(ids != fold)) for fold in folds]
