"""Rows that are copies of others: exact tests count independent rows, and a copy is no new evidence.

Equal scores alone prove nothing, since a tree has few leaves and a judge speaks in integers. But independent rows of
one score differ in their labels as often as the rate of positives around it says. Rows with equal scores and groups
that agree in their labels far more often than that are copies.
"""

from __future__ import annotations

import math

import numpy as np

from ..constraints.counts import Array
from .rows import Rows

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
