"""The training rows of a table on disk, a unit (row group) at a time, encoded and checked against the first pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.chunks import DiskTable
from ...data.columns import TableEncoder, columns_of
from ...data.columns.cells import from_arrow
from ...errors import InputError
from ...spelling import tidy_labels
from ...targets.classes import Labels
from .survey import TRAIN, Cut, digest

#: Rows that are encoded at once: few enough for the cache.
BLOCK = 1 << 14


@dataclass(frozen=True)
class Reader:
    """Reads and encodes training rows.

    Args:
        table: What is read.
        cut: Which rows train.
        encoder: Cells to numbers.
        labels: Labels to class ids.
        train: Training rows of each unit, from the survey.
        digests: What each unit held then; a unit that holds something else now is an error.
        seed: Draws the rows of a unit of which only a share is read.
    """

    table: DiskTable
    cut: Cut
    encoder: TableEncoder
    labels: Labels
    train: dict[int, int]
    digests: dict[int, int]
    seed: int = 0

    def share(self, number: int, share: float) -> tuple[Tensor, Tensor]:
        """A share of a unit's training rows, drawn by the seed, in their order; at least one row."""
        count = max(1, round(share * self.train[number]))
        drawn = np.random.default_rng([self.seed, 3, number]).permutation(self.train[number])[:count]
        return self.read(number, np.sort(drawn))

    def read(self, number: int, order: NDArray[np.int64] | None = None) -> tuple[Tensor, Tensor]:
        """Training rows of a unit, by ``order`` if given. Raises `InputError` when the unit has changed."""
        rows, unit = self.table.arrow(number), self.table.units[number]
        whole = np.empty((*self.encoder.shape, unit.rows), np.float32)  # by columns, as they are read and encoded
        train, found = np.empty(unit.rows, bool), 0
        for begin in range(0, rows.num_rows, BLOCK):
            columns = columns_of(rows.slice(begin, BLOCK))
            _, part, hashes = self.cut.parts(columns)
            found += digest(hashes, begin)
            train[begin : begin + BLOCK] = part == TRAIN
            self.encoder.transform(columns, source=unit.name, out=whole[:, begin : begin + BLOCK].T)
        if rows.num_rows != unit.rows or found % 2**64 != self.digests[number]:
            came = f"{unit.name}, which has changed since training began"
            raise InputError("data", came, "the same rows in every pass", "Start a new run.")
        places = np.flatnonzero(train) if order is None else np.flatnonzero(train)[order]
        x = torch.from_numpy(whole).index_select(1, torch.from_numpy(places)).T.contiguous()
        return x, self._ids(rows, places)

    def _ids(self, rows: Any, places: NDArray[np.int64]) -> Tensor:
        """Class ids of the given rows, by way of the few different labels."""
        codes = rows.column(self.cut.target).combine_chunks().dictionary_encode()
        found = from_arrow(codes.dictionary).texts()
        known = np.array([text is not None for text in found], dtype=bool)
        ids = np.full(len(found) + 1, -1, np.int64)
        ids[:-1][known] = self.labels.encode(np.array(tidy_labels(found[known].tolist()), dtype=object))
        return torch.from_numpy(ids[codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)[places]])
