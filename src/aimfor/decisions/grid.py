"""Candidate thresholds, and the learning rows between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import Array, Counts, Levels
from .rows import Rows
from .sweep import candidates, histogram, points_each, spaced, tables

#: Rows of each class that are taken to lie at the wrong end: none among the learning rows is no proof that none exist.
MISPLACED = 0.5


@dataclass(frozen=True, eq=False)
class Column:
    """Thresholds for all rows or one group: ``cuts (t,)``, ascending, and the rows between, ``(t + 1, *sizes, 2)``."""

    cuts: Array
    mass: Array


@dataclass(frozen=True, eq=False)
class Grid:
    """Candidates as rows of places, ``(c, k)``, in the cuts of k columns."""

    levels: Levels
    columns: tuple[Column, ...]
    place: Array

    @property
    def cuts(self) -> Array:
        """``(c, k)``."""
        return np.stack([column.cuts[self.place[:, k]] for k, column in enumerate(self.columns)], 1)

    def counts(self, masses: Sequence[Array] | None = None, scale: float = 1.0) -> Counts:
        """At each candidate, ``(*lead, c, *sizes, 4)``, of the learning rows or of other masses on the same columns."""
        given = [column.mass for column in self.columns] if masses is None else masses
        total = None
        for k, mass in enumerate(given):
            axis = mass.ndim - len(self.levels.sizes) - 2
            table = tables(mass, self.levels).take(self.place[:, k], axis)
            total = table if total is None else total + table
        assert total is not None
        return Counts(self.levels, total * scale)

    def kept(self, chosen: Array) -> Grid:
        """Only these candidates, and columns with no other cuts than theirs."""
        columns, places = [], []
        for k, column in enumerate(self.columns):
            used, place = np.unique(self.place[chosen, k], return_inverse=True)
            # Bin j lies above j cuts: it goes where the kept cuts at or below it end.
            target = np.searchsorted(used, np.arange(column.mass.shape[0]))
            mass = np.zeros((len(used) + 1, *column.mass.shape[1:]))
            np.add.at(mass, target, column.mass)
            columns.append(Column(column.cuts[used], mass))
            places.append(place)
        return Grid(self.levels, tuple(columns), np.stack(places, 1))

    def with_misplaced_rows(self) -> Grid:
        """Half a negative above all cuts and half a positive below them, for each combination of labels met."""
        columns = []
        for column in self.columns:
            mass = column.mass.copy()
            met = (mass.sum(-1).sum(0) > 0).astype(np.float64)
            mass[-1, ..., 0] += MISPLACED * met
            mass[0, ..., 1] += MISPLACED * met
            columns.append(Column(column.cuts, mass))
        return Grid(self.levels, tuple(columns), self.place)


def learning_grid(batch: Rows, codes: Array, levels: Levels, per_group: str | None) -> Grid:
    """All candidates that learning rows suggest: one threshold, or combinations of one for each label."""
    if per_group is None:
        cuts = candidates(batch.scores, batch.targets)
        column = Column(cuts, histogram(batch, codes, levels, cuts))
        return Grid(levels, (column,), np.arange(len(cuts))[:, None])
    labels = levels.of(per_group)
    points = points_each(len(labels))
    columns = []
    for label in labels:
        own = batch.groups[per_group] == label
        cuts = candidates(batch.scores[own], batch.targets[own], 4 * points)
        cuts = cuts[spaced((0, len(cuts) - 1), points)]
        columns.append(Column(cuts, histogram(batch, codes, levels, cuts, own)))
    places = np.stack(np.meshgrid(*(np.arange(len(column.cuts)) for column in columns), indexing="ij"), -1)
    return Grid(levels, tuple(columns), places.reshape(-1, len(labels)))
