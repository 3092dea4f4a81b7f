"""What is to be decided, and whether the rows at hand can answer it.

Some rows choose the order of the tests: other rows, a random part of the same, or each fold in turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..constraints.counts import Array, Levels, empty_levels, encode
from ..constraints.expressions import Conditions, Constraint, Expression
from ..errors import InputError
from .rows import Rows, checked_rows, column


class Question(Protocol):
    """What a problem says about itself."""

    direction: str
    objective: Expression
    constraints: tuple[Constraint, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class DecisionTask:
    """What is to be decided: the problem's own words, and how sure the answer has to be."""

    direction: str
    objective: Expression
    constraints: tuple[Constraint, ...]
    attributes: tuple[str, ...]
    confidence: float
    per_group: str | None = None
    starts: int = 1
    #: Whether rows of one class only are a mistake; where the "class" is whether a decision was right, they are not.
    both_classes: bool = True
    #: Calibration rows as a share of all labelled rows: how many labels are missing is said in those.
    share: float = 1.0

    @property
    def sign(self) -> float:
        return 1.0 if self.direction == "maximize" else -1.0


def coded(task: DecisionTask, learn: Rows, calibrate: Rows) -> tuple[Array, Array, Levels]:
    """Group codes of the calibration and of the learning rows, by the former's levels. Refuses what cannot answer."""
    names = tuple(sorted({*task.attributes, *([task.per_group] if task.per_group else [])}))
    codes, levels = encode(calibrate.groups, len(calibrate), empty_levels(names))
    learn_codes, seen = encode(learn.groups, len(learn), levels)
    _check_rows(task, calibrate, learn, levels, seen)
    return codes, learn_codes, levels


def _check_rows(task: DecisionTask, calibrate: Rows, learn: Rows, levels: Levels, seen: Levels) -> None:
    for name, batch in (("scores", calibrate), ("learn", learn)):
        n, positives = len(batch), int(batch.targets.sum())
        if n < FEWEST_ROWS:
            raise InputError(
                name, f"{n} rows", f"at least {FEWEST_ROWS}", "Label more rows; a guarantee rests on their number."
            )
        if task.both_classes and positives in (0, n):
            raise InputError(
                name,
                f"{n} rows with {positives} positives",
                "rows of both classes",
                "Check which label is positive; with few positives pass learn=(scores, targets) of training rows.",
            )
        if float(batch.scores.min()) == float(batch.scores.max()):
            raise InputError(name, f"one score, {float(batch.scores[0]):g}, for all rows", "scores that differ")
    for name, here, wider in zip(levels.names, levels.labels, seen.labels, strict=True):
        missing = sorted(set(wider) - set(here))
        if missing:
            raise InputError(
                "groups",
                f"{name} = {missing[0]:g} among the learning rows only",
                "every group among the calibration rows",
                "Nothing can be promised to a group that was never measured: add rows of it or drop it.",
            )
    for conditions in dict.fromkeys(
        conditions for constraint in task.constraints for conditions in _conditions(constraint)
    ):
        for name, label in conditions:
            if label not in levels.of(name):
                came = f"no row with {name} = {label if isinstance(label, str) else format(label, 'g')}"
                raise InputError("groups", came, f"rows of the group that a constraint names ({name})")


def _conditions(constraint: Constraint) -> list[Conditions]:
    left = constraint.left
    rates = [left.rate] if hasattr(left, "rate") else [rate for _, rate in left.terms]  # type: ignore[attr-defined]
    return [rate.conditions for rate in rates]


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
    for index, step in enumerate((raw % (rows - np.arange(wanted))).tolist()):
        order[index], order[index + step] = order[index + step], order[index]
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
