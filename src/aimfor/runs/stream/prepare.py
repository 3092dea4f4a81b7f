"""A table on disk made ready for training: one pass to count and sample, and the held-out rows in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.chunks import open_table, plan
from ...data.columns import TableEncoder, columns_of
from ...data.columns.cells import Column
from ...data.settings import Settings
from ...data.source import groups_of, target_of
from ...metrics.at_rate import AtRate
from ...spelling import tidy_labels
from ...targets.classes import Labels, labels_of_counts
from ...targets.objective import Objective
from ..folder import fingerprint_of
from .reader import Reader
from .survey import TEST, VALIDATION, Cut, Survey, check_parts, class_counts, without_class

#: The half of the validation rows that a threshold is tested on; numbered after the parts of a survey.
ASIDE = 4
#: Bytes a stream may take where nothing was said.
MEMORY = 2 << 30
#: Encoded rows (n, d) and class ids (n,).
Encoded = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class PreparedStream:
    """A streamed task: a reader of all training rows, a sample of them in memory, and the held-out rows."""

    objective: Objective
    reader: Reader
    settings: Settings
    memory: int
    rows: dict[str, int]
    #: Training rows, those that the encoder was fitted on, in the order of their hashes.
    sample: Encoded
    #: How many of them members may learn from in memory.
    members: int
    validation: Encoded
    test: Encoded
    #: Rows that took part in nothing, for a threshold that keeps a floor; None where no floor is asked for.
    aside: Encoded | None
    fingerprint: str
    #: Of each test row, where the report is to break rates down.
    groups: NDArray[Any] | None
    unlabelled: int

    @property
    def labels(self) -> Labels:
        return self.reader.labels

    @property
    def encoder(self) -> TableEncoder:
        return self.reader.encoder

    @property
    def notes(self) -> list[str]:
        read = f"read as a stream: {self.rows['train']:,} training rows"
        without = [f"{self.unlabelled:,} rows without a target were left out"] if self.unlabelled else []
        return [read, *without, *self.labels.notes, *self.encoder.notes]


def prepare(settings: Settings, staged: Path) -> PreparedStream:
    """Reads the table once. Raises `InputError` for whatever is wrong with it.

    Under a metric with a floor, half the validation rows are kept aside to test thresholds on.
    """
    objective, memory = Objective.of(settings.metric), settings.memory or MEMORY
    table = open_table(settings.data, settings.encoding, staged)
    limits = plan(table, len(table.schema.names), memory)
    cut = Cut(settings.target, min(0.2, limits.held / max(1, table.rows)), settings.seed, settings.cluster)
    survey = Survey(limits.sample)
    for number in range(len(table.units)):
        survey.add(table, number, cut)
    counts = class_counts(survey)
    objective = objective.on_classes(len(counts), settings.positive)
    objective.check_group(settings.group)
    labels = labels_of_counts(counts, binary=objective.binary, positive=settings.positive)
    check_parts(survey, labels)
    encoder = survey.encoder(cut, settings.requested)
    train = dict(sorted(survey.train.items()))
    reader = Reader(table, cut, encoder, labels, train, survey.digests, settings.seed)
    columns = {part: columns_of(survey.held_out(part)) for part in (VALIDATION, TEST)}
    groups = None if settings.group is None else groups_of(columns[TEST], settings.group)
    floor = isinstance(objective.metric, AtRate)
    columns |= _halves(columns[VALIDATION], cut) if floor else {}
    held = {part: _encoded(columns[part], reader) for part in list(columns)}
    for part in (VALIDATION, ASIDE) if floor else ():
        _check_half(held[part][1], labels)
    rows = {"train": sum(train.values()), "validation": len(held[VALIDATION][1]), "test": len(held[TEST][1])}
    rows |= {"aside": len(held[ASIDE][1])} if floor else {}
    return PreparedStream(
        objective,
        reader,
        settings,
        memory,
        rows,
        _encoded(survey.sampled(), reader),
        plan(table, encoder.shape[0], memory).members,
        held[VALIDATION],
        held[TEST],
        held.get(ASIDE),
        fingerprint_of([sorted(survey.digests.items()), encoder.state, labels.state, rows]),
        groups,
        survey.unlabelled,
    )


def _halves(columns: dict[str, Column], cut: Cut) -> dict[int, dict[str, Column]]:
    second = cut.second_half(columns)
    rows = {VALIDATION: np.flatnonzero(~second), ASIDE: np.flatnonzero(second)}
    return {part: {name: column.take(one) for name, column in columns.items()} for part, one in rows.items()}


def _check_half(ids: Tensor, labels: Labels) -> None:
    for number, label in enumerate(labels.classes):
        if not bool((ids == number).any()):
            raise without_class(label, "a half of the validation rows, one of which tests thresholds")


def _encoded(columns: dict[str, Column], reader: Reader) -> Encoded:
    codes, found = target_of(columns, reader.cut.target).distinct()
    ids = reader.labels.encode(np.array(tidy_labels(found), dtype=object))[codes]
    return torch.from_numpy(reader.encoder.transform(columns)), torch.from_numpy(ids)
