"""A run on several labels: ``aimfor train photos.csv --target sky,sea,boat --metric ap --model BACKBONE``.

The metric is the mean over labels of the metric of each, so each label can have what is best for itself: its own
committee, its own weights, its own threshold. Features are computed once for all.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.calibrate import probability
from ...fitting.committee import Committee, FolderStore, Progress, fit_committee
from ...fitting.config import Settings
from ...fitting.intervals import bootstrap_interval
from ...fitting.objective import Objective
from ..data.encode import encode, fit_encoder, restore_encoder
from ..data.features import FeatureEncoder, Work
from ..data.source import Source
from ..data.sources import load
from ..run.committee_files import CELLS, forget_cells, load_committee, save_committee
from ..run.evaluate.decisions import confusion, rates
from ..run.folder import check_finished, fingerprint_of, new_run
from ..run.predict import put
from .split import stratified

LABELS = "labels.json"
#: Share of the pictures that are for the test.
TEST_SHARE = 0.2
#: Positives and negatives of a label that training and test need at least.
LEAST_TRAIN, LEAST_TEST = 4, 1


@dataclass
class Ready:
    """Encoded pictures with labels in {1, 0, −1 (unknown)}, and who tests."""

    settings: Settings
    source: Source
    encoder: FeatureEncoder
    x: Tensor
    y: NDArray[np.int64]
    names: list[str]
    test: NDArray[np.bool_]
    notes: list[str]

    @property
    def fingerprint(self) -> str:
        """Changes when the data does; a resumed run checks it."""
        return fingerprint_of(self.x, self.y, self.test, self.names)


def prepare(settings: Settings, source: Source, work: Work) -> Ready:
    """Splits and encodes. Labels without enough pictures are left out, and named."""
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
    return Ready(settings, source, encoder, x, y[:, kept], names, np.asarray(test), notes)


def start(settings: Settings, source: Source, out: Path | None, work: Work) -> tuple[Path, Ready]:
    """Checks everything, then makes the folder and writes config.json."""
    ready = prepare(settings, source, work)
    facts = {"labels": ready.names, "encoder": ready.encoder.state, "fingerprint": ready.fingerprint}
    return new_run(out, f"{source.name}-{settings.metric}", "many", settings, **facts), ready


def finish(
    folder: Path,
    ready: Ready,
    report: Callable[[str, Progress], None] | None,
    stop: Callable[[], bool],
    sheets: Callable[[Path, Ready, Tensor, list[float]], None] | None = None,
) -> dict[str, Any]:
    """One committee a label, evaluated on test pictures; metrics.json is written last.

    ``sheets`` gets what was said about the test pictures, to show some of them.
    """
    began, thresholds, scores = time.monotonic(), [], []
    for place, name in enumerate(ready.names):
        known = torch.from_numpy(np.flatnonzero(~ready.test & (ready.y[:, place] >= 0)))
        committee = fit_committee(
            ready.x[known],
            torch.from_numpy(ready.y[:, place])[known],
            Objective.of(ready.settings.metric),
            kinds=ready.settings.members,
            seed=ready.settings.seed,
            minutes=ready.settings.budget_minutes,
            store=FolderStore(folder / CELLS / str(place)),
            report=None if report is None else (lambda progress, name=name: report(name, progress)),  # type: ignore[misc]
            stop=stop,
        )
        (folder / str(place)).mkdir(exist_ok=True)
        save_committee(folder / str(place), committee)
        thresholds.append(committee.threshold.value)
        scores.append(committee.scores(ready.x[torch.from_numpy(ready.test)]))
    metrics = evaluated(ready, torch.stack(scores, 1), thresholds)
    if sheets is not None:
        sheets(folder, ready, torch.stack(scores, 1), thresholds)
    metrics["seconds"] = round(time.monotonic() - began, 3)
    checkpoint.write_json(folder / LABELS, {"labels": ready.names, "thresholds": thresholds})
    checkpoint.write_json(folder / "metrics.json", metrics)
    forget_cells(folder)
    return metrics


def evaluated(ready: Ready, scores: Tensor, thresholds: list[float]) -> dict[str, Any]:
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
        rows.append(
            {
                "label": name,
                "value": value,
                "positives": int((y[:, place] == 1).sum()),
                "threshold": cut,
                "precision": found["precision"],
                "recall": found["recall"],
            }
        )
    return {
        "metric": ready.settings.metric,
        "test": {"metric": float(np.mean(each)), "interval": interval},
        "labels": rows,
        "pictures": {"train": int((~ready.test).sum()), "test": int(ready.test.sum())},
        "notes": ready.notes,
    }


def predict(folder: Path, data: str, out: Path | None, encoding: str, rows: int | None, skip_corrupt: bool) -> None:
    """A CSV with score, probability and decision of every label."""
    config = checkpoint.read_json(folder / "config.json")
    check_finished(folder)
    stored = checkpoint.read_json(folder / LABELS)
    with checkpoint.reading(folder / LABELS):
        names, thresholds = [str(one) for one in stored["labels"]], [float(one) for one in stored["thresholds"]]
        if len(names) != len(thresholds) or not np.isfinite(thresholds).all():
            raise ValueError("thresholds of other labels")
        committees = [load_committee(folder / str(place)) for place in range(len(names))]
    with checkpoint.reading(folder / "config.json"):
        encoder = restore_encoder(config["encoder"])
        if not isinstance(encoder, FeatureEncoder):
            raise ValueError("its encoder is not one of pictures")
    encoder.work = Work(folder.resolve().parent, write=False)
    source = load(data, None, labelled=False, encoding=encoding, rows=rows, lazy=True, skip_corrupt=skip_corrupt)
    text = _table(source, torch.from_numpy(encode(encoder, source)), names, thresholds, committees)
    put(text, out)


def _table(source: Source, x: Tensor, names: list[str], thresholds: list[float], committees: list[Committee]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", *(f"{kind} {name}" for name in names for kind in ("score", "probability", "decision"))])
    columns: list[list[str]] = []
    for cut, committee in zip(thresholds, committees, strict=True):
        scores = committee.scores(x)
        columns.append([repr(one) for one in scores.tolist()])
        columns.append([f"{one:.6g}" for one in probability(scores).tolist()])
        columns.append([str(int(one > cut)) for one in scores.tolist()])
    for row, name in enumerate(source.row_names or []):
        writer.writerow([name, *(column[row] for column in columns)])
    return text.getvalue()
