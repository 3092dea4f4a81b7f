"""Everything a streamed run needs before its first step: parts, labels, encoder, held-out rows, the loader."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...fitting.columns import TableEncoder
from ...fitting.config import Settings
from ...fitting.objective import Objective
from ..data.labels import Labels, labels_of_counts, tidy_labels
from .batches import Loader
from .ranks import Ranks
from .survey import HELD_OUT, TEST, TRAIN, VALIDATION, Cut, Survey, check_parts, class_counts
from .table import DiskTable, columns_of_batch, open_table, target_of, window_of

#: Bytes a stream may take where nothing was said.
MEMORY = 2 << 30
_BATCH = 2048
#: Rows that are passed over in all epochs together, where their number was left open.
_WANTED = 5_000_000


@dataclass(frozen=True)
class Ready:
    """A streamed task. Held-out rows are this rank's share of ``x`` and all of ``y``."""

    table: DiskTable
    objective: Objective
    labels: Labels
    encoder: TableEncoder
    loader: Loader
    settings: Settings
    classes: Tensor
    rows: dict[str, int]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    fingerprint: str

    @property
    def notes(self) -> list[str]:
        return [*self.labels.notes, *self.encoder.notes]


def prepare(settings: Settings, ranks: Ranks, staged: Path) -> Ready:
    """Reads the table once. Raises `InputError` for whatever is wrong with it."""
    objective = Objective.of(settings.metric)
    table = _opened(settings, ranks, staged)
    if len(table.units) < ranks.world:
        came = f"{len(table.units)} row groups for {ranks.world} processes"
        raise InputError("data", came, "a row group for each process", "Write smaller row groups, or start fewer.")
    cut = Cut(settings.target, min(0.2, HELD_OUT / max(1, table.rows)), settings.seed, settings.split_by)
    window_of(table, len(table.schema.names), settings.memory or MEMORY, settings.readers)
    survey = Survey()
    for number in range(ranks.rank, len(table.units), ranks.world):
        survey.add(table, number, cut)
    parts = ranks.gathered(survey)
    for other in parts[1:]:
        parts[0].join(other)
    return _ready(settings, objective, table, cut, parts[0], ranks)


def _opened(settings: Settings, ranks: Ranks, staged: Path) -> DiskTable:
    """The first process writes CSV as Parquet; the others wait for it."""
    table = open_table(settings.data, settings.encoding, staged) if ranks.first else None
    ranks.gathered(None)
    return open_table(settings.data, settings.encoding, staged) if table is None else table


def _ready(settings: Settings, objective: Objective, table: DiskTable, cut: Cut, survey: Survey, ranks: Ranks) -> Ready:
    labels = labels_of_counts(class_counts(survey), binary=objective.binary, positive=settings.positive)
    check_parts(survey, labels)
    encoder = survey.encoder(cut, settings.wishes)
    train = sum(survey.train.values())
    size = min(settings.batch_size or _BATCH, train)
    epochs = settings.epochs or min(30, max(1, round(_WANTED / train)))
    settings = settings.model_copy(update={"batch_size": size, "epochs": epochs})
    window = window_of(table, encoder.shape[0], settings.memory or MEMORY, settings.readers)
    loader = Loader(
        table, cut, encoder, labels, dict(sorted(survey.train.items())), survey.digests, window, size,
        settings.seed, ranks.rank, ranks.world, settings.readers,
    )  # fmt: skip
    held = {part: _held(survey.held_out(part), cut, encoder, labels, ranks) for part in (VALIDATION, TEST)}
    classes = torch.zeros(max(2, labels.outputs), dtype=torch.float64)
    for (part, label), count in survey.counts.items():
        if part == TRAIN:
            classes[labels.encode(np.array([label], dtype=object))[0]] += count
    rows = {"train": train, "validation": len(held[VALIDATION][1]), "test": len(held[TEST][1])}
    digest = json.dumps([sorted(survey.digests.items()), encoder.state, labels.state, rows])
    fingerprint = hashlib.sha256(digest.encode()).hexdigest()[:32]
    return Ready(
        table, objective, labels, encoder, loader, settings, classes, rows, held[VALIDATION], held[TEST], fingerprint
    )


def _held(rows: Any, cut: Cut, encoder: TableEncoder, labels: Labels, ranks: Ranks) -> tuple[Tensor, Tensor]:
    columns = columns_of_batch(rows)
    target = target_of(columns, cut.target)
    codes, found = target.distinct()
    ids = labels.encode(np.array(tidy_labels(found), dtype=object))[codes]
    x = encoder.transform(columns)[ranks.rank :: ranks.world]
    return torch.from_numpy(x.copy()), torch.from_numpy(ids)
