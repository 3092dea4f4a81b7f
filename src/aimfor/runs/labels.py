"""A run on several labels: ``aimfor train photos.csv --target sky,sea,boat --metric ap --model BACKBONE``.

The metric is the mean over labels of the metric of each, so each label can have what is best for itself: its own
ensemble, its own weights, its own threshold. Features are computed once for all.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import checkpoint
from ..data.encode import encode, fit_encoder, restore_encoder
from ..data.features import FeatureEncoder, Work
from ..data.load import load
from ..data.settings import Settings
from ..data.source import Source
from ..errors import InputError
from ..learners.ensemble import Ensemble, FolderStore, Progress, fit_ensemble
from ..targets.calibrate import probability
from ..targets.evaluate.decisions import confusion, rates
from ..targets.folds import stratified
from ..targets.intervals import bootstrap_interval
from ..targets.objective import Objective
from .evaluation import Estimate, LabelRow, LabelsEvaluation
from .finished import load_ensemble, save_ensemble
from .folder import check_finished, check_sealed, fingerprint_of
from .kinds import Reading
from .predict import TableWriter, put
from .sheets import HARDEST, MOST_CLASSES, sheet, tile
from .task import CELLS, Step, Stop, Task, Tell

LABELS = "labels.json"
#: Share of the pictures that are for the test.
TEST_SHARE = 0.2
#: Positives and negatives of a label that training and test need at least.
LEAST_TRAIN, LEAST_TEST = 4, 1


@dataclass
class LabelsTask(Task):
    """Pictures × several labels × an ensemble each. Labels are in {1, 0, −1 (unknown)}; ``test`` says who tests."""

    kind = "labels"

    settings: Settings
    source: Source
    encoder: FeatureEncoder
    x: Tensor
    y: NDArray[np.int64]
    names: list[str]
    test: NDArray[np.bool_]
    stated: list[str]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.source.name

    @property
    def notes(self) -> list[str]:
        return self.stated

    @property
    def facts(self) -> dict[str, Any]:
        return {"labels": self.names, "encoder": self.encoder.state}

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.x, self.y, self.test, self.names)

    def fit(self, folder: Path, tell: Tell, stop: Stop) -> list[Ensemble]:
        """An ensemble a label, on the pictures whose label is known."""
        found = []
        for place, name in enumerate(self.names):
            known = torch.from_numpy(np.flatnonzero(~self.test & (self.y[:, place] >= 0)))

            def report(progress: Progress, place: int = place, name: str = name) -> None:
                done = place + progress.done / max(1, progress.total)
                tell(Step("training", f"{name}, {progress.title}", done, len(self.names)))

            found.append(
                fit_ensemble(
                    self.x[known],
                    torch.from_numpy(self.y[:, place])[known],
                    Objective.of(self.settings.metric),
                    kinds=self.settings.members,
                    seed=self.settings.seed,
                    minutes=self.settings.budget_minutes,
                    store=FolderStore(folder / CELLS / str(place)),
                    report=report,
                    stop=stop,
                )
            )
        return found

    def evaluate(self, fitted: list[Ensemble], tell: Tell, stop: Stop) -> LabelsEvaluation:
        return evaluated(self, self._scores(fitted), [one.threshold.value for one in fitted])

    def save(self, folder: Path, fitted: list[Ensemble], evaluation: LabelsEvaluation) -> None:
        for place, ensemble in enumerate(fitted):
            (folder / str(place)).mkdir(exist_ok=True)
            save_ensemble(folder / str(place), ensemble)
        thresholds = [one.threshold.value for one in fitted]
        checkpoint.write_json(folder / LABELS, {"labels": self.names, "thresholds": thresholds})

    def sheets(self, fitted: list[Ensemble], evaluation: LabelsEvaluation) -> list[dict[str, Any]]:
        return label_sheets(self, self._scores(fitted), [one.threshold.value for one in fitted])

    def _scores(self, fitted: list[Ensemble]) -> Tensor:
        """Of the test pictures, ``(n, l)``."""
        return torch.stack([one.scores(self.x[torch.from_numpy(self.test)]) for one in fitted], 1)


def of_labels(reading: Reading) -> LabelsTask:
    """Splits and encodes. Labels without enough pictures are left out, and named."""
    settings, source, work = reading.settings, reading.source, reading.work
    objective = Objective.of(settings.metric)
    if not objective.binary:
        raise InputError("--metric", repr(settings.metric), "a metric of two classes, for each label: ap, auroc, f1, …")
    assert source.labels is not None
    assert source.pictures is not None
    y = np.select([source.labels == "1", source.labels == "0"], [1, 0], -1).astype(np.int64)
    random = np.random.default_rng([settings.seed, 20240607])
    test = source.test if source.test is not None else stratified(y == 1, TEST_SHARE, random)
    kept, notes = [], list(source.notes)
    for place, name in enumerate(source.label_names):
        counts = [min(int((y[part, place] == one).sum()) for one in (0, 1)) for part in (~test, test)]
        if counts[0] >= LEAST_TRAIN and counts[1] >= LEAST_TEST:
            kept.append(place)
        else:
            notes.append(f"the label {name} is left out: {counts[0]} pictures of its rarer side to learn from")
    if not kept:
        raise InputError("target", "labels with too few pictures", f"at least {LEAST_TRAIN} of each side to learn from")
    work.hashes = source.hashes
    rows = np.flatnonzero(~test)
    encoder = fit_encoder(source, rows, backbone=settings.model, side=settings.image_size, work=work)
    assert isinstance(encoder, FeatureEncoder)
    x = torch.from_numpy(encode(encoder, source))
    names = [source.label_names[place] for place in kept]
    return LabelsTask(settings, source, encoder, x, y[:, kept], names, np.asarray(test), notes)


def evaluated(ready: LabelsTask, scores: Tensor, thresholds: list[float]) -> LabelsEvaluation:
    """The mean over labels with an interval over test pictures, and a row for each label."""
    objective, y = Objective.of(ready.settings.metric), torch.from_numpy(ready.y[ready.test])

    def values(rows: Tensor) -> list[float]:
        found = []
        for place, cut in enumerate(thresholds):
            known = rows[y[rows, place] >= 0]
            found.append(objective.value(scores[known, place], y[known, place], cut))
        return found

    interval = bootstrap_interval(lambda rows: float(np.nanmean(values(rows))), len(y), seed=ready.settings.seed)
    each, rows = values(torch.arange(len(y))), []
    for place, (name, value, cut) in enumerate(zip(ready.names, each, thresholds, strict=True)):
        known = y[:, place] >= 0
        found = rates(confusion(scores[known, place].numpy(), y[known, place].numpy(), cut))
        positives = int((y[:, place] == 1).sum())
        rows.append(LabelRow(name, value, positives, cut, found["precision"], found["recall"]))
    return LabelsEvaluation(
        metric=ready.settings.metric,
        test=Estimate(float(np.mean(each)), interval),
        labels=rows,
        pictures={"train": int((~ready.test).sum()), "test": int(ready.test.sum())},
        notes=ready.notes,
    )


def predict(
    folder: Path, data: str, out: Path | None, encoding: str, rows: int | None, skip_corrupt: bool, raw: bool
) -> None:
    """A CSV with score, probability and decision of every label."""
    config = checkpoint.read_json(folder / "config.json")
    check_finished(folder)
    stored = checkpoint.read_json(folder / LABELS)
    with checkpoint.reading(folder / LABELS):
        names, thresholds = [str(one) for one in stored["labels"]], [float(one) for one in stored["thresholds"]]
        if len(names) != len(thresholds) or not np.isfinite(thresholds).all():
            raise ValueError("thresholds of other labels")
        ensembles = [load_ensemble(folder / str(place)) for place in range(len(names))]
    with checkpoint.reading(folder / "config.json"):
        encoder = restore_encoder(config["encoder"])
        if not isinstance(encoder, FeatureEncoder):
            raise ValueError("its encoder is not one of pictures")
    check_sealed(folder)
    encoder.work = Work(folder.resolve().parent, write=False)
    source = load(data, None, labelled=False, encoding=encoding, rows=rows, lazy=True, skip_corrupt=skip_corrupt)
    text = io.StringIO()
    found = _table(source, torch.from_numpy(encode(encoder, source)), names, thresholds, ensembles)
    TableWriter(text, raw).writerows(found)
    put(text.getvalue(), out)


def _table(
    source: Source, x: Tensor, names: list[str], thresholds: list[float], ensembles: list[Ensemble]
) -> Iterator[list[str]]:
    yield ["row", *(f"{kind} {name}" for name in names for kind in ("score", "probability", "decision"))]
    columns: list[list[str]] = []
    for cut, ensemble in zip(thresholds, ensembles, strict=True):
        scores = ensemble.scores(x)
        columns.append([repr(one) for one in scores.tolist()])
        columns.append([f"{one:.6g}" for one in probability(scores).tolist()])
        columns.append([str(int(one > cut)) for one in scores.tolist()])
    for row, name in enumerate(source.row_names or []):
        yield [name, *(column[row] for column in columns)]


def label_sheets(ready: LabelsTask, scores: Tensor, thresholds: list[float]) -> list[dict[str, Any]]:
    """Mistakes on test pictures, the surest first; labels without one have no sheet. Unknown labels are no mistakes."""
    rows = np.flatnonzero(ready.test).tolist()
    y, found = torch.from_numpy(ready.y[ready.test]), []
    for place, name in enumerate(ready.names[:MOST_CLASSES]):
        sure = scores[:, place] - thresholds[place]
        alarms = ((y[:, place] == 0) & (sure > 0)).nonzero().reshape(-1)
        misses = ((y[:, place] == 1) & (sure <= 0)).nonzero().reshape(-1)
        alarms, misses = alarms[sure[alarms].argsort(descending=True)], misses[sure[misses].argsort()]
        tiles = [_tile(ready, rows[one], f"called {name}, is not") for one in alarms[:HARDEST].tolist()]
        tiles += [_tile(ready, rows[one], f"is {name}, missed") for one in misses[:HARDEST].tolist()]
        if tiles:
            words = f"{len(alarms)} false alarms and {len(misses)} misses among test pictures; the surest of each."
            found.append(sheet(f"Mistakes about {name}", words, tiles))
    return found


def _tile(ready: LabelsTask, row: int, stated: str) -> dict[str, str]:
    pictures = ready.source.as_pictures()
    return tile(pictures, row, f"{pictures.names[row]}: {stated}", 128)
