"""What is to be decided, and whether the rows at hand can answer it.

Some rows choose the order of the tests: other rows, a random part of the same, or each fold in turn. Copies of rows are
found: exact tests count independent rows, and a copy is no new evidence.

Equal scores alone prove nothing, since a tree has few leaves and a judge speaks in integers. But independent rows of
one score differ in their labels as often as the rate of positives around it says. Rows with equal scores and groups
that agree in their labels far more often than that are copies.
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
    for conditions in dict.fromkeys(one for constraint in task.constraints for one in _conditions(constraint)):
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


#: How unlikely the agreement has to be by chance.
CHANCE = 1e-6
#: Sets of equal rows that are looked at.
MOST_SETS = 20_000


def copies(batch: Rows) -> int:
    """How many of the rows are copies of others; 0 where chance explains the rows that are equal."""
    place = _numbered([batch.scores, *(batch.groups[name] for name in sorted(batch.groups))])
    size = np.bincount(place).astype(np.float64)
    hits = np.bincount(place, batch.targets, minlength=len(size))
    if bool((size == 1).all()):
        return 0
    if not _agree(*_mixed_sets(hits, size)):
        return 0
    return len(place) - int((hits > 0).sum() + (hits < size).sum())


def _mixed_sets(hits: Array, size: Array) -> tuple[float, int]:
    """Of the sets of equal rows, in the order of their scores: how many should hold both labels, and how many do."""
    rate = rising(hits, size, np.ones_like(size))
    tied = np.flatnonzero(size > 1)[:MOST_SETS]
    pure = rate[tied] ** size[tied] + (1.0 - rate[tied]) ** size[tied]
    return float((1.0 - pure).sum()), int(((hits > 0) & (hits < size))[tied].sum())


def _agree(expected: float, mixed: int) -> bool:
    """Whether so few mixed sets are more than chance: Chernoff's bound."""
    if expected <= mixed:
        return False
    log_chance = mixed - expected + (mixed * math.log(expected / mixed) if mixed else 0.0)
    return log_chance < math.log(CHANCE)


def sets_of_copies(x: Array, positive: Array) -> Array | None:
    """For a table that holds copies of rows, the set of equal rows that each row belongs to; else None.

    Tables of few columns have equal rows without any copying. Copies show in one of two ways: their labels agree more
    often than a score that never saw them explains, or half of the columns are enough to tell all different rows
    apart, and equal rows do not contradict each other.

    Args:
        x: The table as numbers, ``(n, d)``; texts by any code.
        positive: Labels, ``(n,)`` bool.

    Returns:
        Numbers of the sets, ``(n,)``, or None.

    Example:
        >>> draw = np.random.default_rng(0)
        >>> x, positive = draw.normal(size=(50, 2)), draw.random(50) < 0.5
        >>> sets_of_copies(x, positive)
        >>> len(np.unique(sets_of_copies(np.tile(x, (2, 1)), np.tile(positive, 2))))
        50
    """
    if x.dtype.kind == "f":
        x = x + 0.0  # -0.0 is 0.0
    first, place = _sets(x)
    if len(first) in (1, len(x)):  # constant columns are no copies
        return None
    size = np.bincount(place).astype(np.float64)
    share = np.bincount(place, positive, minlength=len(size)) / size
    order = np.argsort(_unseen_scores(x[first].astype(np.float32), share), kind="stable")
    expected, mixed = _mixed_sets((share * size)[order].round(), size[order])
    copied = _agree(expected, mixed) or (10 * mixed <= expected and _half_tells_apart(x[first]))
    return place if copied else None


def _sets(x: Array) -> tuple[Array, Array]:
    """The first row of each set of equal rows ``(n, d)``, and each row's set."""
    whole = np.ascontiguousarray(x).view(f"V{x.shape[1] * x.itemsize}").ravel()
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return first, place


def _half_tells_apart(x: Array, tries: int = 5) -> bool:
    """Whether some half of the columns of different rows ``(n, d)`` has no two equal rows."""
    draw, d = np.random.default_rng(0), x.shape[1]
    halves = (draw.permutation(d)[: d // 2] for _ in range(tries if d > 1 else 0))
    return any(len(_sets(x[:, half])[0]) == len(x) for half in halves)


def _unseen_scores(x: Array, share: Array) -> Array:
    """Scores ``(n,)``: columns times how they go with the share of positives in the other half of the rows."""
    x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-12)
    half = np.random.default_rng(0).permutation(len(x)) < len(x) // 2
    score = np.empty(len(x))
    for mine in (half, ~half):
        score[mine] = x[mine] @ (x[~mine].T @ (share[~mine] - share[~mine].mean()))
    return score


def _numbered(columns: list[Array]) -> Array:
    """Each row's place among the different rows, ascending by the first column, then the next."""
    place = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        found, own = np.unique(values, return_inverse=True)
        place = np.unique(place * len(found) + own, return_inverse=True)[1]
    return place


def rising(hits: Array, size: Array, weight: Array) -> Array:
    """The rate of positives at each score, which rises with it: isotonic regression with these weights."""
    blocks: list[list[float]] = []
    for share, mass in zip((hits / size).tolist(), weight.tolist(), strict=True):
        blocks.append([share * mass, mass, 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [one + other for one, other in zip(blocks[-1], last, strict=True)]
    means = np.array([total / mass for total, mass, _ in blocks])
    return means.repeat([int(count) for *_, count in blocks])
