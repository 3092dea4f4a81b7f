"""A table on disk made ready for training: a pass that counts and samples, and one after the other all training rows.

A row's part is decided by a hash of the row (or of one column, whose rows then stay together), so the order of the
files moves no row from one part to another, and equal rows are never in two parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.chunks import SAMPLE, DiskTable, open_table, plan, row_hashes
from ..data.columns import TableEncoder, columns_of
from ..data.columns.cells import Column, from_arrow
from ..data.settings import Settings
from ..data.source import groups_of, target_of
from ..errors import InputError, nearest
from ..metrics.at_rate import AtRate
from ..spelling import tidy_labels
from ..targets.classes import Labels, labels_of_counts
from ..targets.objective import Objective
from .folder import fingerprint_of

#: Parts of a table. `ASIDE` is the half of the validation rows that a threshold is tested on.
TRAIN, VALIDATION, TEST, UNLABELLED, ASIDE = range(5)
#: Different labels above which a target is no class.
MOST_LABELS = 10_000
#: Rows that are encoded at once: few enough for the cache.
BLOCK = 1 << 14
#: Bytes a stream may take where nothing was said.
MEMORY = 2 << 30
Columns = dict[str, Column]
#: Encoded rows (n, d) and class ids (n,).
Encoded = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class HashSplit:
    """How rows are split: target, share of validation and of test, seed, and the column whose rows stay together."""

    target: str | None
    share: float
    seed: int
    by: str | None = None

    def parts(self, columns: Columns) -> tuple[Column, NDArray[np.uint8], NDArray[np.uint64]]:
        """The target, taken out of ``columns``; the part of each row; and a hash of each row, target included."""
        if self.by is not None and self.by not in columns:
            raise InputError("--cluster", repr(self.by), "a column of the table", nearest(self.by, columns))
        hashes = row_hashes(columns)
        keys = self._keys(columns, hashes)
        target = target_of(columns, self.target)
        drawn = mixed(keys, self.seed).astype(np.float64) / 2.0**64
        parts = np.where(drawn < self.share, VALIDATION, np.where(drawn < 2 * self.share, TEST, TRAIN)).astype(np.uint8)
        parts[target.missing] = UNLABELLED
        return target, parts, hashes

    def second_half(self, columns: Columns) -> NDArray[np.bool_]:
        """Halves rows of one part, ``(n,)``: equal rows, and those of one cluster, stay together."""
        return mixed(self._keys(columns, row_hashes(columns)), self.seed + 2) >= np.uint64(1 << 63)

    def _keys(self, columns: Columns, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return hashes if self.by is None else row_hashes({self.by: columns[self.by]})


def mixed(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Other 64 bits for every seed, evenly spread."""
    salt = np.uint64((0xD1B54A32D192ED03 * (2 * seed + 1)) % 2**64)
    mixed = (keys ^ salt) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(30))


def digest(hashes: NDArray[np.uint64], first: int = 0) -> int:
    """64 bits of rows in their order, the first of them number ``first``; those of blocks add up modulo 2^64."""
    odd = 2 * np.arange(first, first + len(hashes), dtype=np.uint64) + np.uint64(1)
    return int((mixed(hashes, 0) * odd).sum(dtype=np.uint64))


@dataclass
class Survey:
    """What the first pass finds in some units; ``most`` training rows are kept to fit the encoder on.

    Attributes:
        train: Training rows of each unit, by its number.
        digests: What each unit holds.
        counts: Rows by (part, label).
        sample: The training rows with the smallest hashes, as an Arrow table.
        keys: Those hashes.
        held: The tables of validation and of test rows.
    """

    most: int = SAMPLE
    train: dict[int, int] = field(default_factory=dict)
    digests: dict[int, int] = field(default_factory=dict)
    counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    unlabelled: int = 0
    sample: Any = None
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    held: dict[int, list[Any]] = field(default_factory=lambda: {VALIDATION: [], TEST: []})

    def add(self, table: DiskTable, number: int, split: HashSplit) -> None:
        rows = table.arrow(number)
        columns = columns_of(rows)
        target, parts, hashes = split.parts(columns)
        codes, values = target.distinct()
        labels = tidy_labels(values)
        for subset in (TRAIN, VALIDATION, TEST):
            tally = np.bincount(codes[parts == subset], minlength=len(values))
            self.counts.update(
                {(subset, label): int(count) for label, count in zip(labels, tally, strict=True) if count}
            )
        if len(self.counts) > 3 * MOST_LABELS:
            came = f"{split.target!r} with more than {MOST_LABELS:,} different values"
            raise InputError("target", came, "classes, not free text or a measured number")
        train = np.flatnonzero(parts == TRAIN)
        self.train[number] = len(train)
        self.digests[number] = digest(hashes)
        self.unlabelled += int(np.count_nonzero(parts == UNLABELLED))
        for subset, tables in self.held.items():
            tables.append(rows.take(np.flatnonzero(parts == subset)))
        self._keep(rows, train, mixed(hashes[train], split.seed + 1))

    def _keep(self, rows: Any, train: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        if len(self.keys) >= self.most:  # most rows of a long table cannot enter any more
            few = keys < self.keys.max()
            train, keys = train[few], keys[few]
        chosen = rows.take(train)
        self.sample = chosen if self.sample is None else pa.concat_tables([self.sample, chosen])
        self.keys = np.concatenate((self.keys, keys))
        if len(self.keys) > self.most:
            best = np.sort(np.argsort(self.keys, kind="stable")[: self.most])
            self.sample, self.keys = self.sample.take(best).combine_chunks(), self.keys[best]

    def sampled(self) -> Columns:
        """The sample in the order of the hashes: files leave no trace in it."""
        return columns_of(self.sample.take(np.argsort(self.keys, kind="stable")))

    def held_out(self, subset: int) -> Any:
        """The rows of validation or test, in an order of their own (by hash), as an Arrow table."""
        rows = pa.concat_tables(self.held[subset])
        return rows.take(np.argsort(row_hashes(columns_of(rows)), kind="stable")) if rows.num_rows else rows

    def encoder(self, split: HashSplit, requested: dict[str, str] | None) -> TableEncoder:
        """Fitted on the sample; rows outside of it may hold words and gaps that are then missing values."""
        columns = self.sampled()
        target_of(columns, split.target)
        encoder = TableEncoder.fit(columns, None, requested, numbered=False)
        rows = sum(self.train.values())
        if rows > len(self.keys):
            encoder.columns = [
                coder.model_copy(update={"words": True}) if "words" in type(coder).model_fields else coder
                for coder in encoder.columns
            ]
            # Dvoretzky, Kiefer and Wolfowitz: no quantile of a sample is further off, with probability 0.999.
            error = float(np.sqrt(np.log(2 / 0.001) / (2 * len(self.keys))))
            encoder.notes.append(
                f"columns were learned from {len(self.keys):,} of {rows:,} training rows: "
                f"quantiles are right to {100 * error:.1f} % of the rows"
            )
        return encoder

    def check_parts(self, labels: Labels) -> None:
        """Raises `InputError` when a part of the split has no row of some class."""
        for subset, name in ((TRAIN, "training"), (VALIDATION, "validation"), (TEST, "test")):
            there = sorted(label for of, label in self.counts if of == subset)
            ids = labels.encode(np.array(there, dtype=object)).tolist() if there else []
            check_classes(ids, labels, f"the {name} part")

    def class_counts(self) -> Counter[str]:
        """Labelled rows of each class in all parts."""
        total: Counter[str] = Counter()
        for (_, label), count in self.counts.items():
            total[label] += count
        return total


def check_classes(ids: list[int], labels: Labels, where: str) -> None:
    """Raises `InputError` for a class that is not among these ids."""
    absent = next((label for number, label in enumerate(labels.classes) if number not in set(ids)), None)
    if absent is not None:
        came = f"no row of class {absent!r} in {where}"
        raise InputError("target", came, "rows of every class in every part", "Another --seed splits differently.")


@dataclass(frozen=True)
class Reader:
    """Reads and encodes training rows, a unit (row group) at a time, and checks them against the first pass.

    Args:
        table: What is read.
        split: Which rows train.
        encoder: Cells to numbers.
        labels: Labels to class ids.
        train: Training rows of each unit, from the survey.
        digests: What each unit held then; a unit that holds something else now is an error.
        seed: Draws the rows of a unit of which only a share is read.
    """

    table: DiskTable
    split: HashSplit
    encoder: TableEncoder
    labels: Labels
    train: dict[int, int]
    digests: dict[int, int]
    seed: int = 0

    def share(self, number: int, share: float) -> Encoded:
        """A share of a unit's training rows, drawn by the seed, in their order; at least one row."""
        count = max(1, round(share * self.train[number]))
        drawn = np.random.default_rng([self.seed, 3, number]).permutation(self.train[number])[:count]
        return self.read(number, np.sort(drawn))

    def read(self, number: int, order: NDArray[np.int64] | None = None) -> Encoded:
        """Training rows of a unit, by ``order`` if given. Raises `InputError` when the unit has changed."""
        rows, unit = self.table.arrow(number), self.table.units[number]
        whole = np.empty((*self.encoder.shape, unit.rows), np.float32)  # by columns, as they are read and encoded
        train, total = np.empty(unit.rows, bool), 0
        for begin in range(0, rows.num_rows, BLOCK):
            columns = columns_of(rows.slice(begin, BLOCK))
            _, parts, hashes = self.split.parts(columns)
            total += digest(hashes, begin)
            train[begin : begin + BLOCK] = parts == TRAIN
            self.encoder.transform(columns, source=unit.name, out=whole[:, begin : begin + BLOCK].T)
        if rows.num_rows != unit.rows or total % 2**64 != self.digests[number]:
            came = f"{unit.name}, which has changed since training began"
            raise InputError("data", came, "the same rows in every pass", "Start a new run.")
        chosen = np.flatnonzero(train) if order is None else np.flatnonzero(train)[order]
        x = torch.from_numpy(whole).index_select(1, torch.from_numpy(chosen)).T.contiguous()
        return x, self._ids(rows, chosen)

    def _ids(self, rows: Any, chosen: NDArray[np.int64]) -> Tensor:
        """Class ids of the given rows, by way of the few different labels."""
        codes = rows.column(self.split.target).combine_chunks().dictionary_encode()
        texts = from_arrow(codes.dictionary).texts()
        labelled = np.array([text is not None for text in texts], dtype=bool)
        ids = np.full(len(texts) + 1, -1, np.int64)
        ids[:-1][labelled] = self.labels.encode(np.array(tidy_labels(texts[labelled].tolist()), dtype=object))
        return torch.from_numpy(ids[codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)[chosen]])

    def encoded(self, columns: Columns) -> Encoded:
        """Labelled rows that are in memory."""
        codes, values = target_of(columns, self.split.target).distinct()
        ids = self.labels.encode(np.array(tidy_labels(values), dtype=object))[codes]
        return torch.from_numpy(self.encoder.transform(columns)), torch.from_numpy(ids)


@dataclass(frozen=True)
class PreparedStream:
    """A streamed task: a reader of all training rows, a sample of them in memory, and the held-out rows.

    Attributes:
        sample: Training rows, those that the encoder was fitted on, in the order of their hashes.
        members: How many of them members may learn from in memory.
        aside: Rows that took part in nothing, for a threshold that keeps a floor; None where no floor is asked for.
        groups: Of each test row, where the report is to break rates down.
    """

    objective: Objective
    reader: Reader
    settings: Settings
    memory: int
    rows: dict[str, int]
    sample: Encoded
    members: int
    validation: Encoded
    test: Encoded
    aside: Encoded | None
    fingerprint: str
    groups: NDArray[Any] | None
    unlabelled: int

    @property
    def notes(self) -> list[str]:
        read = f"read as a stream: {self.rows['train']:,} training rows"
        without = [f"{self.unlabelled:,} rows without a target were left out"] if self.unlabelled else []
        return [read, *without, *self.reader.labels.notes, *self.reader.encoder.notes]


def prepare(settings: Settings, staged: Path) -> PreparedStream:
    """Reads the table once. Raises `InputError` for whatever is wrong with it.

    Under a metric with a floor, half the validation rows are kept aside to test thresholds on.
    """
    objective, memory = Objective.of(settings.metric), settings.memory or MEMORY
    table = open_table(settings.data, settings.encoding, staged)
    limits = plan(table, len(table.schema.names), memory)
    split = HashSplit(settings.target, min(0.2, limits.held / max(1, table.rows)), settings.seed, settings.cluster)
    survey = Survey(limits.sample)
    for number in range(len(table.units)):
        survey.add(table, number, split)
    counts = survey.class_counts()
    objective = objective.on_classes(len(counts), settings.positive)
    objective.check_group(settings.group)
    labels = labels_of_counts(counts, binary=objective.binary, positive=settings.positive)
    survey.check_parts(labels)
    encoder = survey.encoder(split, settings.requested)
    train = dict(sorted(survey.train.items()))
    reader = Reader(table, split, encoder, labels, train, survey.digests, settings.seed)
    columns = {subset: columns_of(survey.held_out(subset)) for subset in (VALIDATION, TEST)}
    groups = None if settings.group is None else groups_of(columns[TEST], settings.group)
    if isinstance(objective.metric, AtRate):
        columns |= _halves(columns[VALIDATION], split)
    held = {subset: reader.encoded(columns[subset]) for subset in sorted(columns)}
    rows = {"train": sum(train.values()), "validation": len(held[VALIDATION][1]), "test": len(held[TEST][1])}
    if ASIDE in held:
        for half in (VALIDATION, ASIDE):
            where = "a half of the validation rows, one of which tests thresholds"
            check_classes(held[half][1].unique().tolist(), labels, where)
        rows["aside"] = len(held[ASIDE][1])
    return PreparedStream(
        objective,
        reader,
        settings,
        memory,
        rows,
        reader.encoded(survey.sampled()),
        plan(table, encoder.shape[0], memory).members,
        held[VALIDATION],
        held[TEST],
        held.get(ASIDE),
        fingerprint_of([sorted(survey.digests.items()), encoder.state, labels.state, rows]),
        groups,
        survey.unlabelled,
    )


def _halves(columns: Mapping[str, Column], split: HashSplit) -> dict[int, Columns]:
    second = split.second_half(dict(columns))
    rows = {VALIDATION: np.flatnonzero(~second), ASIDE: np.flatnonzero(second)}
    return {half: {name: column.take(own) for name, column in columns.items()} for half, own in rows.items()}
