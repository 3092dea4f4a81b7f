"""The batches of an epoch, a function of the seed alone: one process, many workers and many ranks see the same ones.

The units (row groups) of an epoch are shuffled and taken in windows. Each unit's training rows are shuffled, and batch
j of a window takes the j-th stripe of every unit in it: all batches of a window are (nearly) of one size, every row is
used once, and a rank that owns some of the window's units needs to read no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...fitting.columns import TableEncoder
from ...fitting.columns.cells import from_arrow
from ..data.labels import Labels, tidy_labels
from .survey import TRAIN, Cut, digest
from .table import DiskTable, columns_of_batch

Encoded = tuple[Tensor, Tensor]
#: Rows that are encoded at once: few enough for the cache.
BLOCK = 1 << 14


@dataclass(frozen=True)
class Place:
    """Where in an epoch a batch stands."""

    epoch: int = 0
    window: int = 0
    step: int = 0


@dataclass(frozen=True)
class StreamBatch:
    """This rank's rows of a batch: ``x`` (m, d), ``y`` (m,); ``size`` counts the rows of all ranks."""

    place: Place
    x: Tensor
    y: Tensor
    size: int
    #: The place after this one.
    following: Place
    #: Share of the epoch that is done with this batch.
    progress: float


@dataclass(frozen=True)
class Loader:
    """Reads, encodes and orders the training rows.

    Args:
        table: What is read.
        cut: Which rows train.
        encoder: Cells to numbers.
        labels: Labels to class ids.
        train: Training rows of each unit, from the survey.
        digests: What each unit held then; a unit that holds something else now is an error.
        window: Units that are mixed.
        batch_size: Rows of a batch of all ranks together, nearly.
        seed: Decides the order.
        rank: This process.
        world: All processes.
        workers: Threads that read ahead; 0 reads when needed.
    """

    table: DiskTable
    cut: Cut
    encoder: TableEncoder
    labels: Labels
    train: dict[int, int]
    digests: dict[int, int]
    window: int
    batch_size: int
    seed: int = 0
    rank: int = 0
    world: int = 1
    workers: int = 1

    def windows(self, epoch: int) -> list[list[int]]:
        """The units of each window, as numbers."""
        units = np.array(sorted(number for number, rows in self.train.items() if rows))
        order = np.random.default_rng([self.seed, epoch, 1]).permutation(units).tolist()
        return [order[i : i + self.window] for i in range(0, len(order), self.window)]

    def steps(self, units: list[int]) -> int:
        return max(1, round(sum(self.train[unit] for unit in units) / self.batch_size))

    def read(self, number: int, order: NDArray[np.int64] | None = None) -> Encoded:
        """Training rows of a unit, by ``order`` if given. Raises `InputError` when the unit has changed."""
        rows, unit = self.table.arrow(number), self.table.units[number]
        whole = np.empty((*self.encoder.shape, unit.rows), np.float32)  # by columns, as they are read and encoded
        train, found = np.empty(unit.rows, bool), 0
        for begin in range(0, rows.num_rows, BLOCK):
            columns = columns_of_batch(rows.slice(begin, BLOCK))
            _, part, hashes = self.cut.parts(columns)
            found += digest(hashes, begin)
            train[begin : begin + BLOCK] = part == TRAIN
            self.encoder.transform(columns, source=unit.name, out=whole[:, begin : begin + BLOCK].T)
        if rows.num_rows != unit.rows or found % 2**64 != self.digests[number]:
            came = f"{unit.name}, which has changed since training began"
            raise InputError("data", came, "the same rows in every epoch", "Start a new run.")
        places = np.flatnonzero(train) if order is None else np.flatnonzero(train)[order]
        x = torch.from_numpy(whole).index_select(1, torch.from_numpy(places)).T.contiguous()
        return x, self._ids(rows, places)

    def _ids(self, rows: Any, places: NDArray[np.int64]) -> Tensor:
        """Class ids of the given rows, by way of the few different labels."""
        codes = rows.column(self.cut.target).combine_chunks().dictionary_encode()
        found = from_arrow(str(self.cut.target), codes.dictionary).texts()
        known = np.array([text is not None for text in found], dtype=bool)
        ids = np.full(len(found) + 1, -1, np.int64)
        ids[:-1][known] = self.labels.encode(np.array(tidy_labels(found[known].tolist()), dtype=object))
        return torch.from_numpy(ids[codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)[places]])

    def _shuffled(self, number: int, epoch: int) -> Encoded:
        return self.read(number, np.random.default_rng([self.seed, epoch, 2, number]).permutation(self.train[number]))

    def epoch(self, start: Place) -> Iterator[StreamBatch]:
        """The batches of one epoch from a place on."""
        windows = self.windows(start.epoch)
        mine = [units[self.rank :: self.world] for units in windows]
        with ThreadPoolExecutor(max(1, self.workers)) as pool:
            ahead = self._request(pool, mine[start.window], start.epoch)
            for at in range(start.window, len(windows)):
                parts = [part.result() for part in ahead]
                if at + 1 < len(windows):
                    ahead = self._request(pool, mine[at + 1], start.epoch)
                first = start.step if at == start.window else 0
                yield from self._stripes(start.epoch, at, windows, parts, first)
                del parts

    def _request(self, pool: ThreadPoolExecutor, units: list[int], epoch: int) -> list[Future[Encoded]]:
        if self.workers:
            return [pool.submit(self._shuffled, unit, epoch) for unit in units]
        return [_Later(self, unit, epoch) for unit in units]

    def _stripes(
        self, epoch: int, at: int, windows: list[list[int]], parts: list[Encoded], first: int
    ) -> Iterator[StreamBatch]:
        units, rows = windows[at], [sum(self.train[unit] for unit in window) for window in windows]
        before, steps = sum(rows[:at]), self.steps(units)
        for step in range(first, steps):
            cuts = [(step * len(y) // steps, (step + 1) * len(y) // steps) for _, y in parts]
            xs = [x[low:high] for (x, _), (low, high) in zip(parts, cuts, strict=True)]
            ys = [y[low:high] for (_, y), (low, high) in zip(parts, cuts, strict=True)]
            x = torch.cat(xs) if xs else torch.zeros(0, *self.encoder.shape)
            y = torch.cat(ys) if ys else torch.zeros(0, dtype=torch.int64)
            size = sum((step + 1) * self.train[u] // steps - step * self.train[u] // steps for u in units)
            last = step + 1 == steps
            following = Place(epoch, at, step + 1)
            if last:
                following = Place(epoch, at + 1) if at + 1 < len(windows) else Place(epoch + 1)
            progress = (before + rows[at] * (step + 1) / steps) / sum(rows)
            yield StreamBatch(Place(epoch, at, step), x, y, size, following, progress)


class _Later(Future[Encoded]):
    """Reads when it is asked for."""

    def __init__(self, loader: Loader, unit: int, epoch: int) -> None:
        super().__init__()
        self.read = loader._shuffled, unit, epoch

    def result(self, timeout: float | None = None) -> Encoded:
        function, unit, epoch = self.read
        return function(unit, epoch)
