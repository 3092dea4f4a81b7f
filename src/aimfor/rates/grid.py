"""Candidate thresholds, and the learning rows between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch
from .counts import Counts, Levels
from .sweep import candidates, histogram, points_each, spaced, tables

#: Rows of each class that are taken to lie at the wrong end: none among the learning rows is no proof that none exist.
MISPLACED = 0.5


@dataclass(frozen=True, eq=False)
class Column:
    """Thresholds for all rows or one group: ``cuts (t,)``, ascending, and the rows between, ``(t + 1, *sizes, 2)``."""

    cuts: Tensor
    mass: Tensor


@dataclass(frozen=True, eq=False)
class Grid:
    """Candidates as rows of places, ``(c, k)``, in the cuts of k columns."""

    levels: Levels
    columns: tuple[Column, ...]
    place: Tensor

    @property
    def cuts(self) -> Tensor:
        """``(c, k)``."""
        return torch.stack([column.cuts[self.place[:, k]] for k, column in enumerate(self.columns)], 1)

    def counts(self, masses: Sequence[Tensor] | None = None, scale: float = 1.0) -> Counts:
        """At each candidate, ``(*lead, c, *sizes, 4)``, of the learning rows or of other masses on the same columns."""
        given = [column.mass for column in self.columns] if masses is None else masses
        total = None
        for k, mass in enumerate(given):
            axis = mass.ndim - len(self.levels.sizes) - 2
            table = tables(mass, self.levels).index_select(axis, self.place[:, k])
            total = table if total is None else total + table
        assert total is not None
        return Counts(self.levels, total * scale)

    def kept(self, chosen: Tensor) -> Grid:
        """Only these candidates, and columns with no other cuts than theirs."""
        columns, places = [], []
        for k, column in enumerate(self.columns):
            used, place = self.place[chosen, k].unique(return_inverse=True)
            # Bin j lies above j cuts: it goes where the kept cuts at or below it end.
            target = torch.searchsorted(used, torch.arange(column.mass.shape[0]))
            mass = column.mass.new_zeros(used.numel() + 1, *column.mass.shape[1:]).index_add_(0, target, column.mass)
            columns.append(Column(column.cuts[used], mass))
            places.append(place)
        return Grid(self.levels, tuple(columns), torch.stack(places, 1))

    def with_misplaced_rows(self) -> Grid:
        """Half a negative above all cuts and half a positive below them, for each combination of labels met."""
        columns = []
        for column in self.columns:
            mass = column.mass.clone()
            met = (mass.sum(-1).sum(0) > 0).to(mass.dtype)
            mass[-1, ..., 0] += MISPLACED * met
            mass[0, ..., 1] += MISPLACED * met
            columns.append(Column(column.cuts, mass))
        return Grid(self.levels, tuple(columns), self.place)


def learning_grid(batch: Batch, codes: Tensor, levels: Levels, per_group: str | None) -> Grid:
    """All candidates that learning rows suggest: one threshold, or combinations of one for each label."""
    if per_group is None:
        cuts = candidates(batch.scores, batch.targets)
        column = Column(cuts, histogram(batch, codes, levels, cuts))
        return Grid(levels, (column,), torch.arange(cuts.numel())[:, None])
    labels = levels.of(per_group)
    points = points_each(len(labels))
    columns = []
    for label in labels:
        own = batch.groups[per_group].double() == label
        cuts = candidates(batch.scores[own], batch.targets[own], 4 * points)
        cuts = cuts[spaced((0, cuts.numel() - 1), points)]
        columns.append(Column(cuts, histogram(batch, codes, levels, cuts, own)))
    places = torch.cartesian_prod(*(torch.arange(column.cuts.numel()) for column in columns))
    return Grid(levels, tuple(columns), places.reshape(-1, len(labels)))
