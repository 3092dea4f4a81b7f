"""Counts over a data set: true and false positives and negatives, for every combination of group labels.

Everything a rate needs is in one table of shape ``(*lead, |a₁|, |a₂|, …, 4)``: one axis for each group attribute that
the problem names, then the four cells. Any subset's counts are a sum over axes, so a group that is missing from a
batch adds nothing and needs no special case. Leading axes hold many tables at once (one for each threshold).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .. import distributed
from ..engine import Batch
from ..errors import InputError

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
    table: Tensor

    def cells(self, conditions: tuple[tuple[str, float | str], ...] = ()) -> Tensor:
        """Counts ``(*lead, 4)`` of the examples that satisfy all conditions; zeros for a label never seen."""
        kept = self.table
        for axis in range(len(self.levels.names) - 1, -1, -1):
            name, place = self.levels.names[axis], kept.ndim - 2
            wanted = [value for attribute, value in conditions if attribute == name]
            if not wanted:
                kept = kept.sum(place)
            elif len(set(wanted)) > 1 or wanted[0] not in self.levels.labels[axis]:
                kept = kept.sum(place) * 0.0
            else:
                kept = kept.select(place, self.levels.labels[axis].index(wanted[0]))
        return kept

    def mask(self, conditions: tuple[tuple[str, float | str], ...]) -> Tensor:
        """1.0 for the combinations of labels that satisfy all conditions, shape ``levels.sizes``."""
        mask = torch.ones(self.levels.sizes, dtype=self.table.dtype, device=self.table.device)
        for axis, name in enumerate(self.levels.names):
            for attribute, value in conditions:
                if attribute == name:
                    hit = [float(label == value) for label in self.levels.labels[axis]]
                    shape = [-1 if a == axis else 1 for a in range(len(self.levels.names))]
                    mask = mask * mask.new_tensor(hit).reshape(shape)
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
                place = torch.tensor([labels.index(label) for label in old], dtype=torch.long, device=table.device)
                table = table.new_zeros(shape).index_copy_(lead + axis, place, table)
        return Counts(levels, table)

    def plus(self, other: Counts) -> Counts:
        levels = self.levels.union(other.levels)
        return Counts(levels, self.on(levels).table.to(other.table.device) + other.on(levels).table)

    def times(self, factor: float) -> Counts:
        return Counts(self.levels, self.table * factor)

    def reduced(self) -> Counts:
        """Summed over all processes, which first agree on the labels; the same table everywhere."""
        if distributed.world_size() == 1:
            return self
        every: list[Any] = [None] * distributed.world_size()
        dist.all_gather_object(every, self.levels)
        levels = self.levels
        for other in every:
            levels = levels.union(other)
        table = self.on(levels).table.clone()
        dist.all_reduce(table)
        return Counts(levels, table)

    @property
    def total(self) -> float:
        return float(self.table.sum())

    def state(self) -> dict[str, Any]:
        """Plain lists and one tensor: loads with ``weights_only=True``."""
        return {
            "names": list(self.levels.names),
            "labels": [list(v) for v in self.levels.labels],
            "table": self.table.clone(),
        }


def counts_from_state(state: dict[str, Any]) -> Counts:
    levels = Levels(tuple(state["names"]), tuple(tuple(v) for v in state["labels"]))
    return Counts(levels, state["table"].clone())


def no_counts(names: tuple[str, ...]) -> Counts:
    levels = empty_levels(names)
    return Counts(levels, torch.zeros((*levels.sizes, 4), dtype=torch.float64))


def encode(batch: Batch, levels: Levels) -> tuple[Tensor, Levels]:
    """Each example's combination of labels as one whole number, and the levels with any new label added."""
    columns = []
    for name in levels.names:
        if name not in batch.groups:
            raise InputError(
                "groups",
                f"the names {sorted(batch.groups)}" if batch.groups else "no groups",
                f"a tensor of labels for {name!r}",
                f'The problem names this group: pass groups={{"{name}": ...}}.',
            )
        columns.append(batch.groups[name].double())
    found = []
    for column, labels in zip(columns, levels.labels, strict=True):
        known = column.new_tensor(labels)
        place = torch.searchsorted(known, column).clamp_max_(max(len(labels) - 1, 0))
        new = not labels or bool((known[place] != column).any())
        found.append((place, tuple(sorted({*labels, *column.unique().tolist()})) if new else labels))
    grown = Levels(levels.names, tuple(labels for _, labels in found))
    if grown.combinations > MOST_COMBINATIONS:
        raise InputError(
            "groups",
            f"{grown.combinations} combinations of labels",
            f"at most {MOST_COMBINATIONS}",
            "Groups are categories; bin a continuous column first.",
        )
    codes = torch.zeros(batch.scores.shape[0], dtype=torch.long, device=batch.scores.device)
    for column, (place, labels), old in zip(columns, found, levels.labels, strict=True):
        place = place if labels == old else torch.searchsorted(column.new_tensor(labels), column)
        codes = codes * len(labels) + place
    return codes, grown


def tally(batch: Batch, predicted: Tensor, codes: Tensor, levels: Levels) -> Counts:
    """Counts of one batch of decisions (``(n,)`` bool), weighted and masked as the batch says."""
    cell = 3 - 2 * predicted.long() - batch.targets.long()
    counted = torch.bincount(
        cell if not levels.names else codes * 4 + cell,
        weights=batch.effective_weights(),
        minlength=4 * levels.combinations,
    )
    return Counts(levels, counted.double().reshape(*levels.sizes, 4))
