"""Everything a streamed run needs before its first step: parts, labels, encoder, held-out rows, the loader."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...fitting.columns import TableEncoder
from ...fitting.columns.cells import Column
from ...fitting.config import Settings
from ...fitting.objective import Objective
from ...metrics.at_rate import AtRate
from ..data.labels import Labels, labels_of_counts, tidy_labels
from ..data.source import groups_of
from .batches import Loader
from .memory import SAMPLE, plan
from .ranks import Ranks
from .survey import TEST, TRAIN, VALIDATION, Cut, Survey, check_parts, class_counts, without_class
from .table import DiskTable, columns_of_batch, open_table, target_of

#: The half of the validation rows that a threshold is tested on; numbered after the parts of a survey.
ASIDE = 4
#: Bytes a stream may take where nothing was said.
MEMORY = 2 << 30
#: Rows of a batch of a long table; a short one has smaller ones, so that an epoch has twenty steps or more.
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
    #: Rows that took part in nothing, for a threshold that keeps a floor; None where no floor is asked for.
    aside: tuple[Tensor, Tensor] | None
    fingerprint: str
    #: Of each test row, where the report is to break rates down.
    groups: NDArray[Any] | None
    unlabelled: int
    #: The encoded rows that the encoder was fitted on.
    sample: Tensor

    @property
    def notes(self) -> list[str]:
        without = [f"{self.unlabelled:,} rows without a target were left out"] if self.unlabelled else []
        return [*without, *self.labels.notes, *self.encoder.notes]


def prepare(settings: Settings, ranks: Ranks, staged: Path, guarantee: bool = True) -> Ready:
    """Reads the table once. Raises `InputError` for whatever is wrong with it.

    With ``guarantee``, and a metric with a floor, half the validation rows are kept aside to test thresholds on.
    """
    objective = Objective.of(settings.metric)
    table = _opened(settings, ranks, staged)
    if len(table.units) < ranks.world:
        came = f"{len(table.units)} row groups for {ranks.world} processes"
        raise InputError("data", came, "a row group for each process", "Write smaller row groups, or start fewer.")
    limits = plan(table, len(table.schema.names), settings.memory or MEMORY)
    cut = Cut(settings.target, min(0.2, limits.held / max(1, table.rows)), settings.seed, settings.split_by)
    guarantee = guarantee and isinstance(objective.metric, AtRate)
    return _ready(settings, objective, table, cut, surveyed(table, cut, ranks, limits.sample), ranks, guarantee)


def surveyed(table: DiskTable, cut: Cut, ranks: Ranks, sample: int = SAMPLE) -> Survey:
    """What all processes together learn of the table, each reading its share; the same in every one of them."""
    survey = Survey(sample)
    for number in range(ranks.rank, len(table.units), ranks.world):
        survey.add(table, number, cut)
    survey.trim(np.concatenate(ranks.gathered(survey.keys)))  # so that no process is sent more rows than are kept
    parts = ranks.gathered(survey)
    for other in parts[1:]:
        parts[0].join(other)
    found: Survey = parts[0]
    return found


def _opened(settings: Settings, ranks: Ranks, staged: Path) -> DiskTable:
    """The first process writes CSV as Parquet; the others wait for it."""
    table = open_table(settings.data, settings.encoding, staged) if ranks.first else None
    ranks.gathered(None)
    return open_table(settings.data, settings.encoding, staged) if table is None else table


def _ready(
    settings: Settings, objective: Objective, table: DiskTable, cut: Cut, survey: Survey, ranks: Ranks, guarantee: bool
) -> Ready:
    counts = class_counts(survey)
    objective = objective.on_classes(len(counts), settings.positive)
    labels = labels_of_counts(counts, binary=objective.binary, positive=settings.positive)
    check_parts(survey, labels)
    encoder = survey.encoder(cut, settings.wishes)
    train = sum(survey.train.values())
    size = min(settings.batch_size or min(_BATCH, max(64, 2 ** ((train // 20).bit_length() - 1))), train)
    epochs = settings.epochs or min(30, max(1, round(_WANTED / train)))
    settings = settings.model_copy(update={"batch_size": size, "epochs": epochs})
    limits = plan(table, encoder.shape[0], settings.memory or MEMORY)
    loader = Loader(
        table, cut, encoder, labels, dict(sorted(survey.train.items())), survey.digests, limits.window, size,
        settings.seed, ranks.rank, ranks.world, min(settings.readers, limits.readers),
    )  # fmt: skip
    columns = {part: columns_of_batch(survey.held_out(part)) for part in (VALIDATION, TEST)}
    groups = None if settings.group is None else groups_of(columns[TEST], settings.group)
    columns |= _halves(columns[VALIDATION], cut) if guarantee else {}
    held = {part: _held(columns[part], cut, encoder, labels, ranks) for part in list(columns)}
    for part in (VALIDATION, ASIDE) if guarantee else ():
        _check_half(held[part][1], labels)
    classes = torch.zeros(max(2, labels.outputs), dtype=torch.float64)
    for (part, label), count in survey.counts.items():
        if part == TRAIN:
            classes[labels.encode(np.array([label], dtype=object))[0]] += count
    rows = {"train": train, "validation": len(held[VALIDATION][1]), "test": len(held[TEST][1])}
    rows |= {"aside": len(held[ASIDE][1])} if guarantee else {}
    digest = json.dumps([sorted(survey.digests.items()), encoder.state, labels.state, rows])
    fingerprint = hashlib.sha256(digest.encode()).hexdigest()[:32]
    return Ready(
        table, objective, labels, encoder, loader, settings, classes, rows, held[VALIDATION], held[TEST],
        held.get(ASIDE), fingerprint, groups, survey.unlabelled,
        torch.from_numpy(encoder.transform(survey.columns(cut))),
    )  # fmt: skip


def _halves(columns: dict[str, Column], cut: Cut) -> dict[int, dict[str, Column]]:
    second = cut.second_half(columns)
    rows = {VALIDATION: np.flatnonzero(~second), ASIDE: np.flatnonzero(second)}
    return {part: {name: column.take(one) for name, column in columns.items()} for part, one in rows.items()}


def _check_half(ids: Tensor, labels: Labels) -> None:
    for number, label in enumerate(labels.classes):
        if not bool((ids == number).any()):
            raise without_class(label, "a half of the validation rows, one of which tests thresholds")


def _held(
    columns: dict[str, Column], cut: Cut, encoder: TableEncoder, labels: Labels, ranks: Ranks
) -> tuple[Tensor, Tensor]:
    target = target_of(columns, cut.target)
    codes, found = target.distinct()
    ids = labels.encode(np.array(tidy_labels(found), dtype=object))[codes]
    mine = np.arange(ranks.rank, len(ids), ranks.world)
    x = encoder.transform({name: column.take(mine) for name, column in columns.items()})
    return torch.from_numpy(x), torch.from_numpy(ids)
