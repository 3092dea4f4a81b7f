"""Counts over a data set: true and false positives and negatives, for every combination of group labels.

Everything a rate needs is in one table of shape ``(*lead, |a₁|, |a₂|, …, 4)``: one axis for each group attribute that
the problem names, then the four cells. Any subset's counts are a sum over axes, so a group that is missing from a
batch adds nothing and needs no special case. Leading axes hold many tables at once (one for each threshold).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

Array = NDArray[Any]
TP, FP, FN, TN = range(4)
CELLS = ("tp", "fp", "fn", "tn")
#: More combinations of group labels than this is a continuous column passed as a group.
MOST_COMBINATIONS = 10_000


@dataclass(frozen=True)
class Levels:
    """The group attributes of a problem and the labels seen so far, ascending, for each."""

    names: tuple[str, ...] = ()
    labels: tuple[tuple[float, ...], ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(labels) for labels in self.labels)

    @property
    def combinations(self) -> int:
        return math.prod(self.sizes)

    def of(self, name: str) -> tuple[float, ...]:
        return self.labels[self.names.index(name)]

    def union(self, other: Levels) -> Levels:
        """Both sets of labels; the attributes must be the same."""
        if self == other:
            return self
        joined = tuple(tuple(sorted({*a, *b})) for a, b in zip(self.labels, other.labels, strict=True))
        return Levels(self.names, joined)


def empty_levels(names: tuple[str, ...]) -> Levels:
    return Levels(names, tuple(() for _ in names))


@dataclass(frozen=True, eq=False)
class Counts:
    """A table of counts; see the module's docstring. ``table`` is float64."""

    levels: Levels
    table: Array

    def __post_init__(self) -> None:
        # A table of another kind, such as a tensor, is taken as what it holds.
        object.__setattr__(self, "table", np.asarray(self.table, dtype=np.float64))

    def cells(self, conditions: tuple[tuple[str, float | str], ...] = ()) -> Array:
        """Counts ``(*lead, 4)`` of the examples that satisfy all conditions; zeros for a label never seen."""
        kept = self.table
        for axis in range(len(self.levels.names) - 1, -1, -1):
            name, dimension = self.levels.names[axis], kept.ndim - 2
            wanted = [value for attribute, value in conditions if attribute == name]
            if not wanted:
                kept = kept.sum(dimension)
            elif len(set(wanted)) > 1 or wanted[0] not in self.levels.labels[axis]:
                kept = kept.sum(dimension) * 0.0
            else:
                kept = kept.take(self.levels.labels[axis].index(wanted[0]), dimension)
        return kept

    def mask(self, conditions: tuple[tuple[str, float | str], ...]) -> Array:
        """1.0 for the combinations of labels that satisfy all conditions, shape ``levels.sizes``."""
        mask = np.ones(self.levels.sizes)
        for axis, name in enumerate(self.levels.names):
            for attribute, value in conditions:
                if attribute == name:
                    hit = [float(label == value) for label in self.levels.labels[axis]]
                    mask = mask * np.reshape(hit, [-1 if a == axis else 1 for a in range(len(self.levels.names))])
        return mask

    def on(self, levels: Levels) -> Counts:
        """The same counts on a table with more labels."""
        if levels == self.levels:
            return self
        table = self.table
        lead = table.ndim - len(levels.names) - 1
        for axis, labels in enumerate(levels.labels):
            old = self.levels.labels[axis]
            if labels != old:
                shape = list(table.shape)
                shape[lead + axis] = len(labels)
                wider = np.zeros(shape)
                where: list[Any] = [slice(None)] * table.ndim
                where[lead + axis] = [labels.index(label) for label in old]
                wider[tuple(where)] = table
                table = wider
        return Counts(levels, table)

    def plus(self, other: Counts) -> Counts:
        levels = self.levels.union(other.levels)
        return Counts(levels, self.on(levels).table + other.on(levels).table)

    def times(self, factor: float) -> Counts:
        return Counts(self.levels, self.table * factor)

    @property
    def total(self) -> float:
        return float(self.table.sum())

    def class_masses(self) -> Array:
        """Examples of class 0 and 1 in each combination of labels, ``(*lead, *sizes, 2)``."""
        table = self.table
        return np.stack((table[..., FP] + table[..., TN], table[..., TP] + table[..., FN]), -1)

    def decided(self, negatives: float, positives: float) -> Counts:
        """The same examples with these shares of each class predicted positive; (0, 1) is a perfect classifier."""
        masses = self.class_masses()
        n, p = masses[..., 0], masses[..., 1]
        cells = (positives * p, negatives * n, (1.0 - positives) * p, (1.0 - negatives) * n)
        return Counts(self.levels, np.stack(cells, -1))


def divided(top: Array, bottom: Array) -> Array:
    """The quotient; NaN where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(top, bottom)


def no_counts(names: tuple[str, ...]) -> Counts:
    levels = empty_levels(names)
    return Counts(levels, np.zeros((*levels.sizes, 4)))


def encode(groups: Mapping[str, Array], rows: int, levels: Levels) -> tuple[NDArray[np.int64], Levels]:
    """Each example's combination of labels as one whole number, and the levels with any new label added."""
    columns = []
    for name in levels.names:
        if name not in groups:
            raise InputError(
                "groups",
                f"the names {sorted(groups)}" if groups else "no groups",
                f"a tensor of labels for {name!r}",
                f'The problem names this group: pass groups={{"{name}": ...}}.',
            )
        columns.append(np.asarray(groups[name], dtype=np.float64))
    coded = []
    for column, labels in zip(columns, levels.labels, strict=True):
        ascending = np.array(labels)
        index = np.minimum(np.searchsorted(ascending, column), max(len(labels) - 1, 0))
        new = not labels or bool((ascending[index] != column).any())
        coded.append((index, tuple(sorted({*labels, *np.unique(column).tolist()})) if new else labels))
    grown = Levels(levels.names, tuple(labels for _, labels in coded))
    if grown.combinations > MOST_COMBINATIONS:
        raise InputError(
            "groups",
            f"{grown.combinations} combinations of labels",
            f"at most {MOST_COMBINATIONS}",
            "Groups are categories; bin a continuous column first.",
        )
    codes = np.zeros(rows, dtype=np.int64)
    for column, (index, labels), old in zip(columns, coded, levels.labels, strict=True):
        index = index if labels == old else np.searchsorted(np.array(labels), column)
        codes = codes * len(labels) + index
    return codes, grown


def tally(predicted: Array, targets: Array, codes: Array, levels: Levels, weights: Array | None = None) -> Counts:
    """Counts of decisions (``(n,)`` bool), each example by its weight."""
    cell = 3 - 2 * predicted.astype(np.int64) - targets.astype(np.int64)
    counted = np.bincount(codes * 4 + cell, weights, minlength=4 * levels.combinations)
    return Counts(levels, counted.astype(np.float64).reshape(*levels.sizes, 4))
