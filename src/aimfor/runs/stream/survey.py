"""One pass over a table on disk: how many rows of each class every part has, a sample to fit the encoder on, and the
rows that are held out.

A row's part is decided by a hash of the row (or of one column, whose rows then stay together), so the order of the
files moves no row from one part to another, and equal rows are never in two parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...data.chunks import SAMPLE, DiskTable, row_hashes
from ...data.columns import TableEncoder, columns_of
from ...data.columns.cells import Column
from ...data.source import target_of
from ...errors import InputError, nearest
from ...spelling import tidy_labels
from ...targets.classes import Labels

TRAIN, VALIDATION, TEST, UNLABELLED = 0, 1, 2, 3
#: Different labels above which a target is no class.
MOST_LABELS = 10_000


@dataclass(frozen=True)
class Cut:
    """How rows are split: target, share of validation and of test, seed, and the column whose rows stay together."""

    target: str | None
    share: float
    seed: int
    by: str | None = None

    def parts(self, columns: dict[str, Column]) -> tuple[Column, NDArray[np.uint8], NDArray[np.uint64]]:
        """The target, taken out of ``columns``; the part of each row; and a hash of each row, target included."""
        if self.by is not None and self.by not in columns:
            raise InputError("--cluster", repr(self.by), "a column of the table", nearest(self.by, columns))
        hashes = row_hashes(columns)
        keys = self._keys(columns, hashes)
        target = target_of(columns, self.target)
        place = mixed(keys, self.seed).astype(np.float64) / 2.0**64
        part = np.where(place < self.share, VALIDATION, np.where(place < 2 * self.share, TEST, TRAIN)).astype(np.uint8)
        part[target.missing] = UNLABELLED
        return target, part, hashes

    def second_half(self, columns: dict[str, Column]) -> NDArray[np.bool_]:
        """Halves rows of one part, ``(n,)``: equal rows, and those of one cluster, stay together."""
        return mixed(self._keys(columns, row_hashes(columns)), self.seed + 2) >= np.uint64(1 << 63)

    def _keys(self, columns: dict[str, Column], hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return hashes if self.by is None else row_hashes({self.by: columns[self.by]})


def mixed(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Other 64 bits for every seed, evenly spread."""
    salt = np.uint64((0xD1B54A32D192ED03 * (2 * seed + 1)) % 2**64)
    mixed = (keys ^ salt) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(30))


def digest(hashes: NDArray[np.uint64], first: int = 0) -> int:
    """64 bits of rows in their order, the first of them number ``first``; those of parts add up modulo 2^64."""
    places = 2 * np.arange(first, first + len(hashes), dtype=np.uint64) + np.uint64(1)
    return int((mixed(hashes, 0) * places).sum(dtype=np.uint64))


@dataclass
class Survey:
    """What was learned of some units; ``most`` training rows are kept to learn the columns from."""

    most: int = SAMPLE
    #: Training rows and digest of each unit, by its number.
    train: dict[int, int] = field(default_factory=dict)
    digests: dict[int, int] = field(default_factory=dict)
    #: Rows by (part, label).
    counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    #: Training rows with the smallest hashes, and those hashes.
    sample: Any = None
    unlabelled: int = 0
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    held: dict[int, list[Any]] = field(default_factory=lambda: {VALIDATION: [], TEST: []})

    def add(self, table: DiskTable, number: int, cut: Cut) -> None:
        rows = table.arrow(number)
        columns = columns_of(rows)
        target, part, hashes = cut.parts(columns)
        codes, found = target.distinct()
        labels = tidy_labels(found)
        for one in (TRAIN, VALIDATION, TEST):
            tally = np.bincount(codes[part == one], minlength=len(found))
            self.counts.update({(one, label): int(count) for label, count in zip(labels, tally, strict=True) if count})
        if len(self.counts) > 3 * MOST_LABELS:
            came = f"{cut.target!r} with more than {MOST_LABELS:,} different values"
            raise InputError("target", came, "classes, not free text or a measured number")
        self.train[number] = int(np.count_nonzero(part == TRAIN))
        self.digests[number] = digest(hashes)
        self.unlabelled += int(np.count_nonzero(part == UNLABELLED))
        for one in self.held:
            self.held[one].append(rows.take(np.flatnonzero(part == one)))
        train = np.flatnonzero(part == TRAIN)
        self._keep(rows, train, mixed(hashes[train], cut.seed + 1))

    def _keep(self, rows: Any, train: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        if len(self.keys) >= self.most:  # most rows of a long table cannot enter any more
            few = keys < self.keys.max()
            train, keys = train[few], keys[few]
        part = rows.take(train)
        self.sample = part if self.sample is None else pa.concat_tables([self.sample, part])
        self.keys = np.concatenate((self.keys, keys))
        if len(self.keys) > self.most:
            best = np.sort(np.argsort(self.keys, kind="stable")[: self.most])
            self.sample, self.keys = self.sample.take(best).combine_chunks(), self.keys[best]

    def sampled(self) -> dict[str, Column]:
        """The sample in the order of the hashes: files leave no trace in it."""
        return columns_of(self.sample.take(np.argsort(self.keys, kind="stable")))

    def encoder(self, cut: Cut, wishes: dict[str, str] | None) -> TableEncoder:
        """Fitted on the sample."""
        columns = self.sampled()
        target_of(columns, cut.target)
        encoder = TableEncoder.fit(columns, None, wishes, numbered=False)
        rows = sum(self.train.values())
        if rows > len(self.keys):
            encoder.columns = [_lenient(coder) for coder in encoder.columns]
            encoder.notes.append(
                f"columns were learned from {len(self.keys):,} of {rows:,} training rows: "
                f"quantiles are right to {100 * _rank_error(len(self.keys)):.1f} % of the rows"
            )
        return encoder

    def held_out(self, part: int) -> Any:
        """The rows of validation or test, in an order of their own (by hash), as an Arrow table."""
        rows = pa.concat_tables(self.held[part])
        return rows.take(np.argsort(row_hashes(columns_of(rows)), kind="stable")) if rows.num_rows else rows


def _lenient(coder: Any) -> Any:
    """Words and gaps that the sample did not hold are missing values, not errors in the middle of a pass."""
    return coder.model_copy(update={"words": True}) if "words" in type(coder).model_fields else coder


def _rank_error(rows: int) -> float:
    """Dvoretzky, Kiefer and Wolfowitz: no quantile of a sample is further off, with probability 0.999."""
    return float(np.sqrt(np.log(2 / 0.001) / (2 * rows)))


def class_counts(survey: Survey) -> Counter[str]:
    """Labelled rows of each class in all parts."""
    total: Counter[str] = Counter()
    for (_, label), count in survey.counts.items():
        total[label] += count
    return total


def check_parts(survey: Survey, labels: Labels) -> None:
    """Raises `InputError` when a part of the split has no row of some class."""
    for part, name in ((TRAIN, "training"), (VALIDATION, "validation"), (TEST, "test")):
        there = {label: count for (one, label), count in survey.counts.items() if one == part}
        ids = labels.encode(np.array(sorted(there), dtype=object)) if there else np.zeros(0, np.int64)
        absent = [one for i, one in enumerate(labels.classes) if i not in set(ids.tolist())]
        if absent:
            raise without_class(absent[0], f"the {name} part")


def without_class(label: str, place: str) -> InputError:
    came = f"no row of class {label!r} in {place}"
    return InputError("target", came, "rows of every class in every part", "Another --seed splits differently.")
