"""Boosted trees from a stream: LightGBM gets the rows a row group at a time and keeps one byte a column of each.

The bins are those of the rows the encoder was fitted on. Where even one byte a column is more than `--memory` allows,
every row group gives the same share of its rows, and a note says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...data.chunks import BASE
from ...errors import InputError
from ...learners.ensemble.members.base import Job
from ...learners.ensemble.members.trees import FittedTrees, Trees, boosted
from .reader import Reader

#: Rounds at most and at least, and rows passed in all of them together, between which their number follows from the
#: rows: a long table gets fewer rounds, each of a larger step.
ROUNDS, FEWEST_ROUNDS, PASSED = 200, 50, 1_500_000_000
#: Bytes of a row beside its bins: label, score, gradient, and the places of rows in leaves and draws. Measured: 80.
_BESIDE = 100
_FEWEST = 1_000


def rows_that_fit(reader: Reader, held_out: int, memory: int) -> int:
    """Training rows that LightGBM can hold as bins beside what a run holds anyway."""
    width, units = reader.encoder.shape[0], reader.table.units
    unit = max(unit.rows for unit in units) * (4 * width + 8)
    room = memory - BASE - 4 * unit - 2 * max(unit.size for unit in units) - held_out * 5 * width
    return max(0, room // (width + _BESIDE))


def share_that_fits(reader: Reader, held_out: int, memory: int) -> float:
    """The share of the training rows that trees are grown from. Raises `InputError` where there is room for none."""
    rows, fit = sum(reader.train.values()), rows_that_fit(reader, held_out, memory)
    if fit < min(rows, _FEWEST):
        came = "a limit without room for trees"
        raise InputError("--memory", came, "more memory", "Or choose --members linear,network.")
    return min(1.0, fit / rows)


class StreamedTrees(Trees):
    """Trees that learn from the rows on disk; of the rows in memory they use the held-out ones, to know when to stop.

    Args:
        reader: The rows.
        sample: Encoded rows whose quantiles are the bins.
        share: Of the rows of every row group.
        threads: Of LightGBM.
    """

    def __init__(self, reader: Reader, sample: Tensor, share: float, threads: int) -> None:
        rows = share * sum(reader.train.values())
        rounds = int(min(ROUNDS, max(FEWEST_ROUNDS, PASSED / rows)))
        super().__init__(rounds, learning_rate=min(0.3, 20 / rounds), num_threads=threads)
        self.share, self._reader, self._sample = share, reader, sample

    def fit(self, job: Job) -> FittedTrees:
        import lightgbm

        reader, quiet = self._reader, dict(self.settings)  # binning looks at some of them
        reference = lightgbm.Dataset(self._sample.numpy(), params=quiet, free_raw_data=False)
        parts = [_part(reader, unit, self.share) for unit in sorted(reader.train) if reader.train[unit]]
        train = lightgbm.Dataset(parts, reference=reference, params=quiet)
        train.construct()
        train.set_label(np.concatenate([part.labels for part in parts]))
        held = lightgbm.Dataset(job.held.x.numpy(), job.held.y.numpy(), reference=train, params=quiet)
        settings = self.all_settings(job.outputs, job.seed)
        text, watch = boosted(settings, train, held, self.rounds, job.stop)
        return FittedTrees(text(watch.best_at), [watch.best_at], job.outputs)


def _part(reader: Reader, unit: int, share: float) -> Any:
    """A unit's training rows as LightGBM reads them: a sequence of slices, loaded when the first is asked for."""
    import lightgbm

    class Part(lightgbm.Sequence):
        batch_size = 1 << 14

        def __init__(self) -> None:
            self.rows, self.labels = max(1, round(share * reader.train[unit])), np.zeros(0, np.float32)
            self.x: NDArray[np.float32] | None = None

        def __len__(self) -> int:
            return self.rows

        def __getitem__(self, rows: Any) -> NDArray[np.float64]:
            if self.x is None:
                x, y = reader.share(unit, share)
                self.x, self.labels = x.numpy(), y.numpy().astype(np.float32)
            found: NDArray[np.float64] = self.x[rows].astype(np.float64)
            if isinstance(rows, slice) and (rows.stop or 0) >= self.rows:
                self.x = None  # the last slice: nobody asks again
            return found

    return Part()
