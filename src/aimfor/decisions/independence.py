"""Signs that rows are not independent: copies of rows, and clusters that nobody has named.

Exact tests count independent rows, and a copy is no new evidence. Equal scores alone prove nothing, since a tree has
few leaves and a judge speaks in integers. But independent rows of one score differ in their labels as often as the rate
of positives around it says: rows with equal scores and groups that agree in their labels far more often are copies.
Likewise rows that share a value of some column, or stand side by side in the file, and err in the same direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..constraints.counts import Array
from .rows import Rows

#: How unlikely the agreement of copies has to be by chance.
CHANCE = 1e-6
#: Sets of equal rows that are examined.
MOST_SETS = 20_000
#: Standard deviations from which on agreement is no chance: 1 file in 30,000 of independent rows.
CLEAR = 4.0
#: Rows of a column's value, on average, from which on it may be what rows belong to; and the fewest values.
FEWEST_ROWS, FEWEST_VALUES = 1.2, 10
#: Labels that change so much less often than in a shuffled file are sorted, which says nothing about clusters.
SORTED = 0.2


def copies(batch: Rows) -> int:
    """How many of the rows are copies of others; 0 where chance explains the rows that are equal."""
    member = _numbered([batch.scores, *(batch.groups[name] for name in sorted(batch.groups))])
    size = np.bincount(member).astype(np.float64)
    hits = np.bincount(member, batch.targets, minlength=len(size))
    if bool((size == 1).all()):
        return 0
    if not _agree(*_mixed_sets(hits, size)):
        return 0
    return len(member) - int((hits > 0).sum() + (hits < size).sum())


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
    first, member = _sets(x)
    if len(first) in (1, len(x)):  # constant columns are no copies
        return None
    size = np.bincount(member).astype(np.float64)
    share = np.bincount(member, positive, minlength=len(size)) / size
    order = np.argsort(_unseen_scores(x[first].astype(np.float32), share), kind="stable")
    expected, mixed = _mixed_sets((share * size)[order].round(), size[order])
    copied = _agree(expected, mixed) or (10 * mixed <= expected and _half_tells_apart(x[first]))
    return member if copied else None


def _sets(x: Array) -> tuple[Array, Array]:
    """The first row of each set of equal rows ``(n, d)``, and each row's set."""
    whole = np.ascontiguousarray(x).view(f"V{x.shape[1] * x.itemsize}").ravel()
    _, first, member = np.unique(whole, return_index=True, return_inverse=True)
    return first, member


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
    """The number of each row's set of equal rows, ascending by the first column, then the next."""
    member = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        distinct, own = np.unique(values, return_inverse=True)
        member = np.unique(member * len(distinct) + own, return_inverse=True)[1]
    return member


def rising(hits: Array, size: Array, weight: Array) -> Array:
    """The rate of positives at each score, which rises with it: isotonic regression with these weights."""
    blocks: list[list[float]] = []
    for share, mass in zip((hits / size).tolist(), weight.tolist(), strict=True):
        blocks.append([share * mass, mass, 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [total + other for total, other in zip(blocks[-1], last, strict=True)]
    means = np.array([total / mass for total, mass, _ in blocks])
    return means.repeat([int(count) for *_, count in blocks])


def suspected(columns: Mapping[str, Array], scores: Array, targets: Array) -> tuple[str, int, float] | None:
    """The column by which rows agree most, beyond chance: its name, its values and the standard deviations.

    The name is empty where neighbours in the file agree and no column says why; None where nothing is suspected.

    Args:
        columns: Cells as text, ``(n,)`` objects, by name.
        scores: ``(n,)``.
        targets: ``(n,)`` of 0 and 1.
    """
    residual = _residuals(scores, targets.astype(bool))
    signs = [(*_agreement(residual, column), name) for name, column in columns.items() if not _is_measured(column)]
    clear = [sign for sign in signs if sign[0] > CLEAR]
    if clear:
        deviations, values, name = max(clear, key=lambda sign: (sign[0], sign[2], sign[1]))
        return name, values, deviations
    deviations = _in_order(residual, targets)
    return ("", 0, deviations) if deviations > CLEAR else None


def _residuals(scores: Array, targets: Array) -> Array:
    """Label minus the rate of positives at its score, which rises with the score."""
    _, member = np.unique(scores, return_inverse=True)
    size, hits = np.bincount(member).astype(np.float64), np.bincount(member, targets)
    return np.asarray(targets - rising(hits, size, size)[member])


def _is_measured(column: Array) -> bool:
    """Numbers with fractions are measurements (other scores, the label in finer words), by which rows may well agree
    without belonging together; ids are words or whole."""
    try:
        values = column[[cell is not None for cell in column]].astype(np.float64)
    except ValueError:
        return False
    return bool((values != np.round(values)).any())


def _agreement(residual: Array, column: Array) -> tuple[float, int]:
    """How far the sums of residuals by value are from those of independent rows, in deviations; and the values."""
    _, member = np.unique(np.array([str(cell) for cell in column]), return_inverse=True)
    sizes = np.bincount(member)
    if len(sizes) < FEWEST_VALUES or len(column) < FEWEST_ROWS * len(sizes):
        return 0.0, len(sizes)
    sums, squares = np.bincount(member, residual), np.bincount(member, residual**2)
    # Σ over pairs within a value; pairs of independent rows have mean 0 and variance v², and are uncorrelated.
    pairs = 0.5 * float((sums**2 - squares).sum())
    number = 0.5 * float((sizes * (sizes - 1.0)).sum())
    return pairs / (float((residual**2).mean()) * math.sqrt(number) or 1.0), len(sizes)


def _in_order(residual: Array, targets: Array) -> float:
    """The same for each row and the next one of the file; 0 where the file is sorted by its labels."""
    share = float(targets.mean())
    changes = float((targets[1:] != targets[:-1]).sum())
    if changes < SORTED * 2.0 * share * (1.0 - share) * len(targets):
        return 0.0
    product = float((residual[1:] * residual[:-1]).sum())
    return product / (float((residual**2).mean()) * math.sqrt(len(residual) - 1) or 1.0)
