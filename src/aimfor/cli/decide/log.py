"""The log of ``aimfor check``: counts of every file so far, and of every cluster where the promise is for new ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...constraints.counts import Array, Counts, Levels
from ...decisions.clusters import Clusters, set_aside, shuffled
from ...errors import InputError
from ...files import shaped


def numbered(ids: Array) -> tuple[list[str], Array]:
    """A digest of each cluster's id, and the number of the cluster of each row; both in the order of the log."""
    missing = sum(cell is None for cell in ids)
    if missing:
        raise InputError("cluster", f"{missing} of {len(ids)} rows without a cluster", "an id in every row")
    names, index = np.unique(ids.astype(str), return_inverse=True)
    return [hashlib.sha256(name.encode()).hexdigest()[:16] for name in shuffled(names).tolist()], index


def clusters_of(past: Sequence[Line], new: Counts, ids: list[str], name: str) -> Clusters:
    """All clusters so far, file by file; a part of the first file's is set aside, and not bet on."""
    tables = [new]
    for line in reversed(past):
        if line.clusters is None:
            raise InputError("log", "counts by rows", f"counts by {name}", "Name another --log, or delete this one.")
        again = len(set(ids) & set(line.clusters.ids))
        if again:
            raise InputError(
                "data", f"{again} values of {name} whose rows the log has counted before", f"each {name} in one file",
                f"Wait until all rows of a {name} are there.",
            )  # fmt: skip
        tables.insert(0, line.clusters.read(new.levels.names))
    levels = tables[0].levels
    for table in tables[1:]:
        levels = levels.union(table.levels)
    every, aside = np.concatenate([table.on(levels).table for table in tables]), set_aside(len(tables[0].table))
    ends = np.cumsum([len(table.table) for table in tables]) - aside
    return Clusters(levels, every[aside:], every[:aside], tuple(ends.tolist()))


def plain(counts: Counts) -> dict[str, Any]:
    return {**vars(counts.levels), "table": counts.table.tolist()}


@dataclass(frozen=True)
class _Counted:
    """Counts in a line of the log: by combination of group labels, the four cells of a table of decisions."""

    names: list[str]
    labels: list[list[float]]
    table: Any

    def read(self, names: tuple[str, ...], clusters: tuple[int, ...] = ()) -> Counts:
        """Raises `ValueError` for counts that no rows can have."""
        table = np.array(self.table, dtype=np.float64)
        shape = (*clusters, *(len(labels) for labels in self.labels), 4)
        possible = bool(((table >= 0) & (table < 2**53)).all())
        if tuple(self.names) != tuple(names) or table.shape != shape or not possible:
            raise ValueError("its counts are not those of this decision")
        return Counts(Levels(tuple(names), tuple(tuple(labels) for labels in self.labels)), table)


@dataclass(frozen=True)
class _CountedClusters(_Counted):
    """The same for each cluster of one file, and a digest of its id."""

    ids: list[str]

    def read(self, names: tuple[str, ...], clusters: tuple[int, ...] = ()) -> Counts:
        return super().read(names, (len(self.ids),))


@dataclass(frozen=True)
class Line:
    """A line of the log."""

    sha256: str
    problem: str
    total: int
    counts: _Counted
    #: Of the thresholds that were counted at; logs written before there was one have none.
    decision: str = ""
    clusters: _CountedClusters | None = None


def past_lines(log: Path, problem: str, decision: str) -> list[Line]:
    if not log.exists():
        return []
    try:
        lines = [shaped(Line, json.loads(line)) for line in log.read_text(encoding="utf8").splitlines() if line.strip()]
    except ValueError:  # also of bytes that are no text
        raise InputError("log", f"{log.name}, which is not a log of aimfor check", "the log of this decision") from None
    other = next((line.problem for line in lines if line.problem != problem), None)
    if other is not None:
        raise InputError(
            "log", f"the log of another problem ({other})", "the log of this decision", "Name another --log."
        )
    if any(line.decision != decision for line in lines):
        raise InputError(
            "log", "counts at other thresholds", "the log of this decision", "Name another --log, or delete this one."
        )
    return lines
