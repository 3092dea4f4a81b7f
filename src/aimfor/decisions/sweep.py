"""Counts at many thresholds at once, by one search: what every choice of a threshold starts from.

One rule everywhere: an example is predicted positive where ``score > threshold``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import FN, FP, TN, TP, Array, Counts, Levels
from ..constraints.expressions import Expression, Sum, Worst
from ..constraints.inequalities import objective_members
from ..errors import InputError
from .rows import Rows

#: Candidate thresholds in a sweep.
MOST_CANDIDATES = 4096
#: Combinations of thresholds when groups have their own.
MOST_COMBINATIONS = 20_000


def candidates(scores: Array, targets: Array, most: int = MOST_CANDIDATES) -> Array:
    """Cuts halfway between neighbouring scores and beyond both ends, ascending float64.

    When there are many, half are spaced evenly by rank among the positives and half among all examples: a rare class
    sits in a small corner of the scores, and that is where its thresholds have to be told apart.
    """
    distinct = np.unique(scores)
    if len(distinct) == 0:
        return np.zeros(1)
    thresholds = np.concatenate((distinct[:1] - 1.0, 0.5 * (distinct[1:] + distinct[:-1]), distinct[-1:] + 1.0))
    if len(thresholds) <= most:
        return thresholds
    indices = spaced((0, len(thresholds) - 1), most // 2)
    positive = np.sort(scores[targets])
    if len(positive):
        chosen = positive[spaced((0, len(positive) - 1), most // 2)]
        indices = np.unique(np.concatenate((indices, np.searchsorted(distinct, chosen))))
    return thresholds[indices]


def histogram(batch: Rows, codes: Array, levels: Levels, thresholds: Array, mask: Array | None = None) -> Array:
    """Examples between neighbouring thresholds (ascending), ``(t + 1, *sizes, 2)``; the last axis is the class."""
    scores, targets = batch.scores, batch.targets.astype(np.int64)
    if mask is not None:
        scores, codes, targets = scores[mask], codes[mask], targets[mask]
    passed = np.searchsorted(thresholds, scores)  # how many thresholds lie strictly below the score
    size = 2 * levels.combinations
    flat = passed * size + codes * 2 + targets
    mass = np.bincount(flat, minlength=(len(thresholds) + 1) * size).astype(np.float64)
    return mass.reshape(-1, *levels.sizes, 2)


def tables(mass: Array, levels: Levels) -> Array:
    """The four cells at each threshold, ``(*lead, t, *sizes, 4)``, from ``(*lead, t + 1, *sizes, 2)`` between them."""
    axis = mass.ndim - len(levels.sizes) - 2
    above = np.flip(np.flip(mass, axis).cumsum(axis), axis)
    total, passed = np.split(above, [1], axis)
    missed = total - passed
    cells = [passed[..., 1], passed[..., 0], missed[..., 1], missed[..., 0]]
    assert (TP, FP, FN, TN) == (0, 1, 2, 3)
    return np.stack(cells, -1)


def sweep(batch: Rows, codes: Array, levels: Levels, thresholds: Array, mask: Array | None = None) -> Counts:
    """Counts at each threshold (ascending), ``(t, *sizes, 4)``; only of the masked examples where a mask is given."""
    return Counts(levels, tables(histogram(batch, codes, levels, thresholds, mask), levels))


def objective_value(objective: Expression, counts: Counts, sign: float) -> Array:
    """``sign · objective`` for each leading entry; −inf where it cannot be measured."""
    if isinstance(objective, Sum):
        goal = sign * objective.value(counts)
    else:
        assert isinstance(objective, Worst)
        values = np.stack([sign * rate.value(counts) for rate in objective_members(objective, counts.levels)])
        goal = np.where(np.isnan(values), math.inf, values).min(0)
    return np.where(np.isnan(goal), -math.inf, goal)


def points_each(labels: int) -> int:
    """Thresholds to try for each of so many labels, in all combinations: at least four."""
    points = max(4, int(MOST_COMBINATIONS ** (1.0 / labels)))
    if points**labels > 64 * MOST_COMBINATIONS:
        raise InputError("per_group", f"{labels} labels", "at most 10 labels with thresholds of their own")
    return points


def spaced(span: tuple[int, int], points: int) -> Array:
    """At most so many whole numbers from the first to the last, evenly spaced."""
    low, high = span
    return np.unique(evenly(low, high, min(points, high - low + 1)).round().astype(np.int64))


def evenly(low: float, high: float, points: int) -> Array:
    """So many numbers from the first to the last, as exact at one end as at the other."""
    if points < 2:
        return np.full(points, float(low))
    step, index = (high - low) / (points - 1), np.arange(points)
    return np.where(index < points // 2, low + step * index, high - step * (points - 1 - index))


def outer_sum(tables: Sequence[Array]) -> Array:
    """Sums over all combinations of one row of each table, flattened; later tables vary fastest."""
    total = tables[0]
    for table in tables[1:]:
        total = (total[:, None] + table[None]).reshape(-1, *table.shape[1:])
    return total


#: Rows of each class that are taken to lie at the wrong end: none among the learning rows is no proof that none exist.
MISPLACED = 0.5


@dataclass(frozen=True, eq=False)
class Column:
    """Thresholds ``(t,)`` for all rows or one group, ascending, and the rows between, ``(t + 1, *sizes, 2)``."""

    thresholds: Array
    mass: Array


@dataclass(frozen=True, eq=False)
class Grid:
    """Candidates as rows of indices, ``(c, k)``, in the thresholds of k columns."""

    levels: Levels
    columns: tuple[Column, ...]
    index: Array

    @property
    def thresholds(self) -> Array:
        """``(c, k)``."""
        return np.stack([column.thresholds[self.index[:, k]] for k, column in enumerate(self.columns)], 1)

    def counts(self, masses: Sequence[Array] | None = None, scale: float = 1.0) -> Counts:
        """At each candidate, ``(*lead, c, *sizes, 4)``, of the learning rows or of other masses on the same columns."""
        given = [column.mass for column in self.columns] if masses is None else masses
        total = None
        for k, mass in enumerate(given):
            axis = mass.ndim - len(self.levels.sizes) - 2
            table = tables(mass, self.levels).take(self.index[:, k], axis)
            total = table if total is None else total + table
        assert total is not None
        return Counts(self.levels, total * scale)

    def kept(self, chosen: Array) -> Grid:
        """Only these candidates, and columns with no other thresholds than theirs."""
        columns, positions = [], []
        for k, column in enumerate(self.columns):
            used, position = np.unique(self.index[chosen, k], return_inverse=True)
            # Bin j lies above j thresholds: it goes where the kept ones at or below it end.
            target = np.searchsorted(used, np.arange(column.mass.shape[0]))
            mass = np.zeros((len(used) + 1, *column.mass.shape[1:]))
            np.add.at(mass, target, column.mass)
            columns.append(Column(column.thresholds[used], mass))
            positions.append(position)
        return Grid(self.levels, tuple(columns), np.stack(positions, 1))

    def with_misplaced_rows(self) -> Grid:
        """Half a negative above all thresholds and half a positive below them, for each combination of labels met."""
        columns = []
        for column in self.columns:
            mass = column.mass.copy()
            met = (mass.sum(-1).sum(0) > 0).astype(np.float64)
            mass[-1, ..., 0] += MISPLACED * met
            mass[0, ..., 1] += MISPLACED * met
            columns.append(Column(column.thresholds, mass))
        return Grid(self.levels, tuple(columns), self.index)


def learning_grid(batch: Rows, codes: Array, levels: Levels, per_group: str | None) -> Grid:
    """All candidates that learning rows suggest: one threshold, or combinations of one for each label."""
    if per_group is None:
        thresholds = candidates(batch.scores, batch.targets)
        column = Column(thresholds, histogram(batch, codes, levels, thresholds))
        return Grid(levels, (column,), np.arange(len(thresholds))[:, None])
    labels = levels.of(per_group)
    points = points_each(len(labels))
    columns = []
    for label in labels:
        own = batch.groups[per_group] == label
        thresholds = candidates(batch.scores[own], batch.targets[own], 4 * points)
        thresholds = thresholds[spaced((0, len(thresholds) - 1), points)]
        columns.append(Column(thresholds, histogram(batch, codes, levels, thresholds, own)))
    combinations = np.stack(np.meshgrid(*(np.arange(len(column.thresholds)) for column in columns), indexing="ij"), -1)
    return Grid(levels, tuple(columns), combinations.reshape(-1, len(labels)))
