"""A run on a table larger than memory: trees learn from all rows, the other members from a sample that fits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.chunks import BASE
from ..errors import InputError
from ..learners.ensemble import Ensemble, FolderStore, fit_ensemble
from ..learners.ensemble.calibration import Threshold
from ..learners.ensemble.members import Member, members
from ..learners.ensemble.members.base import Job
from ..learners.ensemble.members.trees import FittedTrees, Trees, boosted, need_lightgbm
from ..targets.evaluate import evaluate
from ..targets.folds import Folds
from ..targets.importance import Importance
from .ensemble import RULE, OfEnsemble, keeping_floor, step_of
from .evaluation import EnsembleEvaluation, Estimate
from .folder import CELLS
from .kinds import Reading, Stop, Tell
from .survey import PreparedStream, Reader, prepare

#: CSV files as Parquet, while the run is not finished.
STAGED = "rows"
#: Rounds at most and at least, and rows passed in all of them together, between which their number follows from the
#: rows: a long table gets fewer rounds, each of a larger step.
ROUNDS, FEWEST_ROUNDS, PASSED = 200, 50, 1_500_000_000
#: Bytes of a row beside its bins: label, score, gradient, and its index in leaves and draws. Measured: 80.
_BESIDE = 100
_FEWEST = 1_000


class StreamTask(OfEnsemble):
    """A table in chunks × classes × the ensemble: trees learn from all rows, the others from a sample.

    One pass over the table; CSV files are staged in the run's folder, which stays empty where that fails.
    """

    kind = "stream"

    def __init__(self, reading: Reading) -> None:
        self.settings, self.name = reading.settings, Path(reading.settings.data).name.split(".")[0]
        folder = reading.folder(f"{self.name}-{self.settings.metric}")
        try:
            self.prepared = prepare(self.settings, folder / STAGED)
            self.members, remarks = members_of(self.prepared)
        except BaseException:
            if not (folder / "config.json").exists():
                shutil.rmtree(folder / STAGED, ignore_errors=True)
                if not any(folder.iterdir()):
                    folder.rmdir()
            raise
        self.labels, self.notes = self.prepared.reader.labels, [*self.prepared.notes, *remarks]
        self.facts = {"labels": self.labels.state, "encoder": self.prepared.reader.encoder.state}
        self.fingerprint = self.prepared.fingerprint

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> Ensemble:
        """The validation rows stop the members, weigh them and set the threshold."""
        prepared = self.prepared
        (x, y), (held_x, held_y) = (rows[: prepared.members] for rows in prepared.sample), prepared.validation
        n = len(y) + len(held_y)
        ensemble = fit_ensemble(
            torch.cat((x, held_x)),
            torch.cat((y, held_y)),
            prepared.objective,
            outputs=self.labels.outputs,
            members=self.members,
            folds=Folds((torch.arange(len(y), n),), n),
            seed=self.settings.seed,
            minutes=self.settings.budget_minutes,
            store=FolderStore(folder / CELLS),
            report=lambda progress: tell(step_of(progress)),
            stop=stop,
        )
        text = ensemble.threshold.text.replace("out-of-fold", "validation")
        ensemble = replace(ensemble, threshold=Threshold(ensemble.threshold.value, text))
        if prepared.aside is None:
            return ensemble
        scores, grouped = ensemble.scores(prepared.aside[0]), self.settings.cluster is not None
        return keeping_floor(ensemble, scores, prepared.aside[1], "validation", grouped)

    def evaluate(self, fitted: Ensemble, tell: Tell, stop: Stop) -> EnsembleEvaluation:
        prepared, (x, y), threshold = self.prepared, self.prepared.test, fitted.threshold.value
        scores = fitted.scores(x)
        stated = self.stated(scores)
        return self.evaluation_of(
            fitted,
            RULE.replace("out-of-fold", "validation"),
            expected=Estimate(fitted.cross_validated),
            test=evaluate(prepared.objective, scores, y, threshold, prepared.groups, probabilities=stated),
            importance=Importance(left_out="the rows of a stream are not kept"),
            rows=prepared.rows,
        )

    def save(self, folder: Path, fitted: Ensemble, evaluation: EnsembleEvaluation) -> None:
        super().save(folder, fitted, evaluation)
        shutil.rmtree(folder / STAGED, ignore_errors=True)
        for file in folder.rglob(".*.part"):  # of a save in whose middle the process was killed
            file.unlink(missing_ok=True)


def members_of(prepared: PreparedStream) -> tuple[tuple[Member, ...], list[str]]:
    """Who learns, and notes. Raises `InputError` where trees are wanted and cannot be."""
    settings, notes, learning = prepared.settings, list[str](), list[Member]()
    kinds = ("trees",) if settings.fast else settings.members
    if "trees" in kinds:
        need_lightgbm("--members")
        held_out = sum(count for name, count in prepared.rows.items() if name != "train")
        share = share_that_fits(prepared.reader, held_out, prepared.memory)
        if share < 1.0:
            of = f"{100 * share:.0f} % of the training rows, the same share of each row group"
            notes.append(f"trees were grown from {of}")
        learning.append(StreamedTrees(prepared.reader, prepared.sample[0], share, settings.threads))
    others = tuple(kind for kind in kinds if kind != "trees")
    if others:
        y = prepared.sample[1][: prepared.members]
        classes = prepared.reader.labels.classes
        absent = set(range(len(classes))) - set(y.unique().tolist())
        if absent and learning:
            rows = f"the {len(y):,} training rows in memory"
            notes.append(f"trees alone: {rows} have none of class {classes[min(absent)]!r}")
        elif absent:
            came = f"{','.join(others)} for {len(y):,} training rows in memory without class {min(absent)}"
            raise InputError("--members", came, "trees, which learn from all rows")
        else:
            learning += members(others)
            if len(y) < prepared.rows["train"]:
                titles = ", ".join(member.title for member in members(others))
                notes.append(f"{titles}: learned from {len(y):,} training rows, as many as are kept in memory")
    return tuple(learning), notes


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

    LightGBM gets the rows a row group at a time and keeps one byte a column of each, in the bins of the rows that the
    encoder was fitted on.

    Args:
        reader: The rows.
        sample: Encoded rows whose quantiles are the bins.
        share: Of the rows of every row group; below 1 where even one byte a column is more than `--memory` allows.
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
        units = [_unit_rows(reader, unit, self.share) for unit in sorted(reader.train) if reader.train[unit]]
        train = lightgbm.Dataset(units, reference=reference, params=quiet)
        train.construct()
        train.set_label(np.concatenate([unit.labels for unit in units]))
        held = lightgbm.Dataset(job.held.x.numpy(), job.held.y.numpy(), reference=train, params=quiet)
        settings = self.all_settings(job.outputs, job.seed)
        text, watch = boosted(settings, train, held, self.rounds, job.stop)
        return FittedTrees(text(watch.best_at), [watch.best_at], job.outputs)


def _unit_rows(reader: Reader, unit: int, share: float) -> Any:
    """A unit's training rows as LightGBM reads them: a sequence of slices, loaded when the first is asked for."""
    import lightgbm

    class UnitRows(lightgbm.Sequence):
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
            chosen: NDArray[np.float64] = self.x[rows].astype(np.float64)
            if isinstance(rows, slice) and (rows.stop or 0) >= self.rows:
                self.x = None  # the last slice: nobody asks again
            return chosen

    return UnitRows()
