"""Boosted trees from a stream: LightGBM gets the rows a row group at a time and keeps one byte a column of each.

The bins are those of the rows the encoder was fitted on. Where even one byte a column is more than `--memory` allows,
every row group gives the same share of its rows, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...fitting.committee.members.trees import FittedTrees, Trees, boosted
from .batches import Loader
from .memory import BASE
from .prepare import MEMORY, Ready

#: Rounds at most and at least, and rows passed in all of them together, between which their number follows from the
#: rows: a long table gets fewer rounds, each of a larger step.
ROUNDS, FEWEST_ROUNDS, PASSED = 200, 50, 1_500_000_000
#: Bytes of a row beside its bins: label, score, gradient, and the places of rows in leaves and draws. Measured: 80.
_BESIDE = 100
_FEWEST = 1_000


def rows_that_fit(ready: Ready) -> int:
    """Training rows that LightGBM can hold as bins beside what a run holds anyway."""
    memory, width = ready.settings.memory or MEMORY, ready.encoder.shape[0]
    loader = ready.loader
    unit = max(unit.rows for unit in loader.table.units) * (4 * width + 8)
    held = sum(count for part, count in ready.rows.items() if part != "train") * 5 * width
    room = memory - BASE - 4 * unit - 2 * max(unit.size for unit in loader.table.units) - held
    return max(0, room // (width + _BESIDE))


def grow(ready: Ready, validation: tuple[Tensor, Tensor], stop: Callable[[], bool]) -> tuple[FittedTrees, list[str]]:
    """Trees from all training rows that fit, with ``validation`` (x, y) for when to stop; and notes.

    Raises:
        InputError: ``--memory`` has no room for trees at all.
    """
    import lightgbm

    rows, fit, notes = ready.rows["train"], rows_that_fit(ready), list[str]()
    share = min(1.0, fit / rows)
    if fit < min(rows, _FEWEST):
        raise InputError("--memory", "a limit without room for trees", "more memory", "Or choose --members network.")
    if share < 1.0:
        notes.append(
            f"trees were grown from {100 * share:.0f} % of the training rows, the same share of each row group"
        )
    rounds = int(min(ROUNDS, max(FEWEST_ROUNDS, PASSED / (share * rows))))
    member = Trees(rounds, learning_rate=min(0.3, 20 / rounds), num_threads=ready.settings.threads)
    quiet = dict(member.settings)  # binning looks at some of them
    reference = lightgbm.Dataset(ready.sample.numpy(), params=quiet, free_raw_data=False)
    parts = [_part(ready.loader, unit, share) for unit in sorted(ready.loader.train) if ready.loader.train[unit]]
    train = lightgbm.Dataset(parts, reference=reference, params=quiet)
    train.construct()
    train.set_label(np.concatenate([part.labels for part in parts]))
    held = lightgbm.Dataset(validation[0].numpy(), validation[1].numpy(), reference=train, params=quiet)
    settings = member.all_settings(ready.labels.outputs, ready.settings.seed)
    text, watch = boosted(settings, train, held, rounds, stop)
    return FittedTrees(text(watch.best_at), [watch.best_at], ready.labels.outputs), notes


def _part(loader: Loader, unit: int, share: float) -> Any:
    """A unit's training rows as LightGBM reads them: a sequence of slices, loaded when the first is asked for."""
    import lightgbm

    class Part(lightgbm.Sequence):
        batch_size = 1 << 14

        def __init__(self) -> None:
            self.rows, self.labels = max(1, round(share * loader.train[unit])), np.zeros(0, np.float32)
            self.x: NDArray[np.float32] | None = None

        def __len__(self) -> int:
            return self.rows

        def __getitem__(self, rows: Any) -> NDArray[np.float64]:
            if self.x is None:
                order = np.random.default_rng([loader.seed, 3, unit]).permutation(loader.train[unit])[: self.rows]
                x, y = loader.read(unit, np.sort(order))
                self.x, self.labels = x.numpy(), y.numpy().astype(np.float32)
            found: NDArray[np.float64] = self.x[rows].astype(np.float64)
            if isinstance(rows, slice) and (rows.stop or 0) >= self.rows:
                self.x = None  # the last slice: nobody asks again
            return found

    return Part()
