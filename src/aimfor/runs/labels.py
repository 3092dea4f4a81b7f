"""A run on several labels: ``aimfor train photos.csv --target sky,sea,boat --metric ap --model BACKBONE``.

The metric is the mean over labels of the metric of each, so each label can have what is best for itself: its own
ensemble, its own weights, its own threshold. Features are computed once for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import checkpoint
from ..data.encode import encode, fit_encoder, restore_encoder
from ..data.features import FeatureEncoder
from ..errors import InputError
from ..learners.ensemble import Ensemble, FolderStore, Progress, fit_ensemble
from ..targets.evaluate import confusion, rates
from ..targets.folds import stratified
from ..targets.intervals import bootstrap_interval
from ..targets.objective import Objective
from .evaluation import Estimate, LabelRow, LabelsEvaluation
from .finished import load_ensemble, save_ensemble
from .folder import CELLS, fingerprint_of, finished_run
from .kinds import Reading, Step, Stop, Task, Tell
from .sheets import label_sheets

LABELS = "labels.json"
#: Share of the pictures that are for the test.
TEST_SHARE = 0.2
#: Positives and negatives of a label that training and test need at least.
LEAST_TRAIN, LEAST_TEST = 4, 1


class LabelsTask(Task):
    """Pictures × several labels × an ensemble each. Labels are in {1, 0, −1 (unknown)}.

    Labels without enough pictures are left out, and named.
    """

    kind = "labels"

    def __init__(self, reading: Reading) -> None:
        settings, source, work = reading.settings, reading.source, reading.work
        self.objective = Objective.of(settings.metric)
        if not self.objective.binary:
            expected = "a metric of two classes, for each label: ap, auroc, f1, …"
            raise InputError("--metric", repr(settings.metric), expected)
        assert source.labels is not None
        y = np.select([source.labels == "1", source.labels == "0"], [1, 0], -1).astype(np.int64)
        random = np.random.default_rng([settings.seed, 20240607])
        test = source.test if source.test is not None else stratified(y == 1, TEST_SHARE, random)
        kept, notes = [], list(source.notes)
        for column, name in enumerate(source.label_names):
            train, tested = (min(int((y[rows, column] == side).sum()) for side in (0, 1)) for rows in (~test, test))
            if train >= LEAST_TRAIN and tested >= LEAST_TEST:
                kept.append(column)
            else:
                notes.append(f"the label {name} is left out: {train} pictures of its rarer side to learn from")
        if not kept:
            expected = f"at least {LEAST_TRAIN} of each side to learn from"
            raise InputError("target", "labels with too few pictures", expected)
        work.hashes = source.hashes
        how: dict[str, Any] = {"backbone": settings.model, "side": settings.image_size, "work": work}
        encoder = fit_encoder(source, np.flatnonzero(~test), **how)
        self.settings, self.name, self.notes, self.source = settings, source.name, notes, source
        self.labels = [source.label_names[column] for column in kept]
        self.x, self.y = torch.from_numpy(encode(encoder, source)), torch.from_numpy(y[:, kept])
        self.test = torch.from_numpy(np.asarray(test))
        self.facts = {"labels": self.labels, "encoder": encoder.state}
        self.fingerprint = fingerprint_of(self.x, self.y, self.test, self.labels)

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> list[Ensemble]:
        """An ensemble a label, on the pictures whose label is known."""
        ensembles = []
        for number, name in enumerate(self.labels):
            rows = (~self.test & (self.y[:, number] >= 0)).nonzero().reshape(-1)

            def report(progress: Progress, number: int = number, name: str = name) -> None:
                done = number + progress.done / max(1, progress.total)
                tell(Step("training", f"{name}, {progress.title}", done, len(self.labels)))

            ensembles.append(
                fit_ensemble(
                    self.x[rows],
                    self.y[rows, number],
                    self.objective,
                    kinds=self.settings.members,
                    seed=self.settings.seed,
                    minutes=self.settings.budget_minutes,
                    store=FolderStore(folder / CELLS / str(number)),
                    report=report,
                    stop=stop,
                )
            )
        return ensembles

    def evaluate(self, fitted: list[Ensemble], tell: Tell, stop: Stop) -> LabelsEvaluation:
        """The mean over labels with an interval over test pictures, and a row for each label."""
        return self.evaluation_of(self._scores(fitted), thresholds_of(fitted))

    def evaluation_of(self, scores: Tensor, thresholds: list[float]) -> LabelsEvaluation:
        """Of ``(n, l)`` scores of the test pictures, decided at these thresholds."""
        y = self.y[self.test]

        def values(rows: Tensor) -> list[float]:
            """The metric of every label, on those of the rows whose label is known."""
            labelled = [rows[y[rows, number] >= 0] for number in range(len(thresholds))]
            return [
                self.objective.value(scores[rows, number], y[rows, number], threshold)
                for number, (rows, threshold) in enumerate(zip(labelled, thresholds, strict=True))
            ]

        seed = self.settings.seed
        interval = bootstrap_interval(lambda rows: float(np.nanmean(values(rows))), len(y), seed=seed)
        each, table = values(torch.arange(len(y))), []
        for number, (name, value, threshold) in enumerate(zip(self.labels, each, thresholds, strict=True)):
            labelled = y[:, number] >= 0
            own = rates(confusion(scores[labelled, number].numpy(), y[labelled, number].numpy(), threshold))
            positives = int((y[:, number] == 1).sum())
            table.append(LabelRow(name, value, positives, threshold, own["precision"], own["recall"]))
        return LabelsEvaluation(
            metric=self.settings.metric,
            test=Estimate(float(np.mean(each)), interval),
            labels=table,
            pictures={"train": int((~self.test).sum()), "test": len(y)},
            notes=self.notes,
        )

    def save(self, folder: Path, fitted: list[Ensemble], evaluation: LabelsEvaluation) -> None:
        for number, ensemble in enumerate(fitted):
            (folder / str(number)).mkdir(exist_ok=True)
            save_ensemble(folder / str(number), ensemble)
        checkpoint.write_json(folder / LABELS, {"labels": self.labels, "thresholds": thresholds_of(fitted)})

    def sheets(self, fitted: list[Ensemble], evaluation: LabelsEvaluation) -> list[dict[str, Any]]:
        margins = self._scores(fitted) - torch.tensor(thresholds_of(fitted), dtype=torch.float64)
        rows = self.test.nonzero().reshape(-1).tolist()
        return label_sheets(self.source.as_pictures(), rows, self.y[self.test], margins, self.labels)

    def _scores(self, fitted: list[Ensemble]) -> Tensor:
        """Of the test pictures, ``(n, l)``."""
        return torch.stack([ensemble.scores(self.x[self.test]) for ensemble in fitted], 1)


def thresholds_of(ensembles: list[Ensemble]) -> list[float]:
    return [ensemble.threshold.value for ensemble in ensembles]


@dataclass
class LabelsRun:
    """A finished run, ready to decide."""

    labels: list[str]
    thresholds: list[float]
    ensembles: list[Ensemble]
    encoder: FeatureEncoder


def load_run(folder: Path) -> LabelsRun:
    """Raises `InputError` for an unfinished or damaged run, or one of another kind."""
    with finished_run(folder, LabelsTask.kind, "a run on several labels") as (config, _):
        stored = checkpoint.read_json(folder / LABELS)
        with checkpoint.reading(folder / LABELS):
            labels = [str(name) for name in stored["labels"]]
            thresholds = [float(value) for value in stored["thresholds"]]
            if len(labels) != len(thresholds) or not np.isfinite(thresholds).all():
                raise ValueError("thresholds of other labels")
            ensembles = [load_ensemble(folder / str(number)) for number in range(len(labels))]
        with checkpoint.reading(folder / "config.json"):
            encoder = restore_encoder(config["encoder"])
            if not isinstance(encoder, FeatureEncoder):
                raise ValueError("its encoder is not one of pictures")
    return LabelsRun(labels, thresholds, ensembles, encoder)
