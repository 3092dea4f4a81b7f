"""What the target says about each level of a category with many: a number in place of the level's own.

The statistic of a level is shrunk towards that of all rows, by as many rows as the spread between levels asks for. A
row that trains gets it from other rows (of other clusters, where there are any), or it would be told its own target.

References:
    Micci-Barreca, A preprocessing scheme for high-cardinality categorical attributes, 2001.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from .members.base import Rows

#: Parts of the training rows, each of which gets its statistics from the others.
PARTS = 5
#: Rows that the statistic of all rows counts for, at least and at most.
LEAST_ROWS, MOST_ROWS = 1.0, 10_000.0
#: Of several classes, those with most rows have statistics.
MOST_CLASSES = 20


class Levels:
    """Statistics of the levels of each such column, learned from the training rows of a fold.

    Args:
        columns: Where the numbers of levels stand.
        tables: For each column the numbers, ascending, and their statistics ``(levels, k)``.

    Example:
        >>> level = torch.arange(400) % 4
        >>> rows = Rows(level[:, None].float(), (torch.arange(400) % 8 < 2).long())
        >>> levels, trained = Levels.fit(rows, (0,), 1)
        >>> [round(value, 1) for value in levels(torch.tensor([[0.0], [1.0], [2.0], [9.0]]))[:, 0].tolist()]
        [1.1, 1.1, -3.8, 0.0]
    """

    def __init__(self, columns: tuple[int, ...], tables: list[tuple[Tensor, Tensor]]) -> None:
        self.columns, self.tables = columns, tables

    @classmethod
    def fit(cls, rows: Rows, columns: tuple[int, ...], outputs: int, seed: int = 0) -> tuple[Self, Rows]:
        """The statistics of all these rows, and the rows with those of other rows in place of level numbers."""
        target = _targets(rows, outputs)
        part_of = _parts(rows, seed)
        mass = torch.ones(len(target)).double() if rows.weights is None else rows.weights.double()
        tables, trained = [], []
        for column in columns:
            numbers, level = rows.x[:, column].unique(return_inverse=True)
            counts = torch.zeros(len(numbers) * PARTS, dtype=torch.float64)
            sums = torch.zeros(len(numbers) * PARTS, target.shape[1], dtype=torch.float64)
            cell = level * PARTS + part_of
            counts.index_add_(0, cell, mass)
            sums.index_add_(0, cell, mass[:, None] * target)
            counts, sums = counts.view(-1, PARTS), sums.view(len(numbers), PARTS, -1)
            whole = Prior(target, mass, counts.sum(1), sums.sum(1), rows.lists is None)
            tables.append((numbers, whole(counts.sum(1), sums.sum(1)).float()))
            others = counts.sum(1, keepdim=True) - counts, sums.sum(1, keepdim=True) - sums
            trained.append(whole(*others)[level, part_of].float())
        levels = cls(columns, tables)
        return levels, replace(rows, x=levels._in_place(rows.x, trained))

    def __call__(self, x: Tensor) -> Tensor:
        """Rows with statistics; a level that no training row had gets that of all rows, which is 0."""
        statistics = []
        for column, (numbers, values) in zip(self.columns, self.tables, strict=True):
            cells = x[:, column].contiguous()
            level = torch.searchsorted(numbers, cells).clamp_max(len(numbers) - 1)
            statistics.append(torch.where((numbers[level] == cells)[:, None], values[level], 0.0))
        return self._in_place(x, statistics)

    def _in_place(self, x: Tensor, statistics: list[Tensor]) -> Tensor:
        """The first statistic of a column replaces its number, further ones follow behind all columns."""
        x = x.clone()
        for column, values in zip(self.columns, statistics, strict=True):
            x[:, column] = values[:, 0]
        return torch.cat((x, *(values[:, 1:] for values in statistics)), 1)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """As they are stored; `restore` is the inverse."""
        return {
            f"{column}/{name}": tensor
            for column, table in zip(self.columns, self.tables, strict=True)
            for name, tensor in zip(("numbers", "values"), table, strict=True)
        }

    @classmethod
    def restore(cls, tensors: dict[str, Tensor]) -> Self:
        columns = tuple(sorted({int(name.partition("/")[0]) for name in tensors}))
        return cls(columns, [(tensors[f"{column}/numbers"], tensors[f"{column}/values"]) for column in columns])


class Prior:
    """The statistic of all rows and how many rows of a level it counts for, from the spread between levels."""

    def __init__(self, target: Tensor, mass: Tensor, counts: Tensor, sums: Tensor, classes: bool) -> None:
        self.classes = classes
        self.mean = (mass[:, None] * target).sum(0) / mass.sum()
        within = (mass[:, None] * (target - self.mean).square()).sum(0)
        pairs = (counts.square().sum() - mass.square().sum()).clamp_min(1e-9)
        # E (Σ (y − mean))² of a level is what its rows add one by one, and the spread between levels for each pair.
        spread = ((sums - counts[:, None] * self.mean).square().sum(0) - within) / pairs
        self.rows = (within / mass.sum() / spread.clamp_min(1e-12)).clamp(LEAST_ROWS, MOST_ROWS)

    def __call__(self, counts: Tensor, sums: Tensor) -> Tensor:
        """Of levels with so many rows: log-odds, or mean grade, above that of all rows."""
        mean = (sums + self.rows * self.mean) / (counts[..., None] + self.rows)
        if not self.classes:
            return mean - self.mean
        held = mean.clamp(1e-6, 1 - 1e-6)
        return held.logit() - self.mean.clamp(1e-6, 1 - 1e-6).logit()


def _targets(rows: Rows, outputs: int) -> Tensor:
    """``(n, k)``: the grade, the positive class, or a column for each class."""
    if rows.lists is not None or outputs == 1:
        return rows.y[:, None].double()
    if outputs == 2:
        return (rows.y == 1)[:, None].double()
    frequent = torch.bincount(rows.y, minlength=outputs).argsort(descending=True, stable=True)[:MOST_CLASSES]
    return (rows.y[:, None] == frequent.sort().values).double()


def _parts(rows: Rows, seed: int) -> Tensor:
    """A part for each row: rows of a list or cluster are in one."""
    together = rows.clusters if rows.lists is None else rows.lists
    generator = torch.Generator().manual_seed(seed)
    if together is None:
        return torch.randint(PARTS, (len(rows.y),), generator=generator)
    numbers, number = together.unique(return_inverse=True)
    return torch.randint(PARTS, (len(numbers),), generator=generator)[number]
