"""Examples as they came, and the columns of a table that are no features: groups, queries, rows without a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, nearest
from .columns.cells import Column
from .columns.dates import read_dates
from .columns.numbers import read_numbers
from .columns.schema import decide
from .columns.suspects import copied_rows
from .pictures import Pictures

Array = NDArray[Any]
#: Groups that the report tells apart, at most.
MOST_IN_TABLE = 50
#: Copies of fewer rows of a class are not kept together: they could not be spread.
LEAST_APART = 20


@dataclass
class Source:
    """Examples as they came, before any encoding.

    Attributes:
        name: Short name for folders and titles.
        columns: Feature columns of a table; empty for images.
        images: ``(n, h, w, c)`` uint8, all of one size, or None.
        pictures: Pictures that are read one by one, for a pretrained network, or None.
        labels: One label per row as text, or None when there is no target (prediction).
        row_names: What to call each row in predictions (image paths), or None for row numbers.
        test: True for rows that the data itself sets aside for testing, or None.
        groups: Group of each row, by which the report breaks rates down, or None.
        queries: The query of each row as text, for ranked lists, or None.
        whole: Cluster of each row where rows of one must stay in one part of every split, or None.
        times: Of each row, where folds learn from what was before, or None.
        extras: Further values per row that are not features (only from npz files).
        notes: Sentences about what was dropped or assumed.
        hashes: Of the pictures' contents, where they were computed.
        label_names: Of several labels at once, where ``labels`` is ``(n, l)``.
    """

    name: str
    columns: dict[str, Column]
    images: Array | None = None
    labels: Array | None = None
    row_names: list[str] | None = None
    test: Array | None = None
    groups: Array | None = None
    queries: Array | None = None
    whole: Array | None = None
    times: Array | None = None
    extras: dict[str, Column] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    hashes: list[str] | None = None
    label_names: list[str] = field(default_factory=list)
    pictures: Pictures | None = None

    def __len__(self) -> int:
        if self.pictures is not None:
            return len(self.pictures)
        return len(self.images) if self.images is not None else len(next(iter(self.columns.values())))

    @property
    def named(self) -> dict[str, Column]:
        """Every column that an option may name, feature or not."""
        return {**self.extras, **self.columns}

    def take(self, rows: Sequence[int] | Array) -> None:
        """Keeps these rows, by number, in this order."""
        kept = np.asarray(rows, dtype=np.int64)
        self.columns = {name: column.take(kept) for name, column in self.columns.items()}
        self.extras = {name: column.take(kept) for name, column in self.extras.items()}
        for part in ("images", "labels", "test", "groups", "queries", "whole", "times"):
            if (value := getattr(self, part)) is not None:
                setattr(self, part, value[kept])
        for part in ("row_names", "hashes"):
            if (names := getattr(self, part)) is not None:
                setattr(self, part, [names[row] for row in kept])
        if self.pictures is not None:
            self.pictures = self.pictures.take(kept.tolist())

    @property
    def kind(self) -> str:
        """``table`` or ``pictures``."""
        return "table" if self.images is None and self.pictures is None else "pictures"

    def as_pictures(self) -> Pictures:
        if self.pictures is not None:
            return self.pictures
        assert self.images is not None
        names = self.row_names or [str(number) for number in range(len(self.images))]
        return Pictures(names, array=self.images)


def column_of(columns: Mapping[str, Column], name: str, flag: str) -> Column:
    """The column that an option names. Raises `InputError` for no such column."""
    if name not in columns:
        raise InputError(flag, repr(name), "a column of the data", nearest(name, columns))
    return columns[name]


def target_of(columns: dict[str, Column], target: str | None) -> Column:
    """Takes the target column out. Raises `InputError` when there is none."""
    if target is None:
        raise InputError("target", "nothing", "the name of the column to predict", f"--target {list(columns)[-1]!r}?")
    if target not in columns:
        raise InputError("target", repr(target), "a column of the table", nearest(target, columns))
    return columns.pop(target)


def values_of(columns: Mapping[str, Column], name: str, flag: str) -> Array:
    """The value of each row in a column, as text. Raises `InputError` for no such column."""
    return np.array(
        ["(missing)" if one is None else one for one in column_of(columns, name, flag).texts()], dtype=object
    )


def groups_of(columns: Mapping[str, Column], group: str) -> Array:
    """The group of each row, by the values of a column. Raises `InputError` for no such column, or too many values."""
    groups = values_of(columns, group, "--group")
    if (count := len(set(groups))) > MOST_IN_TABLE:
        remedy = f"Rows that belong together: --cluster {group}."
        raise InputError("--group", f"{group!r} with {count} values", f"a column with at most {MOST_IN_TABLE}", remedy)
    return groups


def take_cluster(source: Source, cluster: str) -> None:
    """Rows of one cluster (a patient, a site) are kept together in every split."""
    source.whole = values_of(source.named, cluster, "--cluster")
    count = len(set(source.whole))
    if count < 2:
        expected = "many clusters: some to learn from, others to evaluate on"
        raise InputError("--cluster", f"{cluster!r} with one cluster for all rows", expected)
    source.notes.append(f"rows of one {cluster!r} stay together in test rows and folds ({count} clusters)")


def take_time(source: Source, time: str) -> None:
    """The column that orders the rows: folds learn from what was before. It is no feature: later values are all new."""
    column = column_of(source.named, time, "--time")
    decision = decide(time, column)
    if decision.kind == "number":
        moments = read_numbers(column, decision.style)[0]
    elif decision.kind == "date":
        dates = read_dates(column, decision.form)[0].astype("M8[us]")
        moments = np.where(np.isnat(dates), np.nan, dates.astype(np.int64).astype(np.float64))
        later = int((dates > np.datetime64("now")).sum())
        if later:
            source.notes.append(f"{later} rows have a {time!r} that is yet to come")
    else:
        words = "numbers or dates, which say what was before what"
        raise InputError("--time", f"{time!r}, a column of {decision.kind}", words)
    if len(np.unique(moments[np.isfinite(moments)])) < 2:
        raise InputError("--time", f"{time!r} with one moment for all rows", "moments that differ")
    source.times = moments
    source.columns.pop(time, None)
    if not source.columns:
        raise InputError("data", "no column but the target and the time", "at least one feature column")
    source.notes.append(f"every fold learns from rows before those it is judged on, by {time!r}, which is no feature")


def take_copies(source: Source, ids: NDArray[np.int64]) -> None:
    """Copies of rows, more than chance explains, stay together in every split, counted in a note."""
    found = copied_rows(source.columns, ids) if source.kind == "table" and source.whole is None else None
    if found is None:
        return
    sets, sentence = found
    fewest = min(len(np.unique(sets[ids == one])) for one in np.unique(ids))
    if source.test is not None or fewest < LEAST_APART:
        source.notes.append(f"{sentence}, also in different parts of the split: the values found may be too high")
        return
    source.whole = sets
    source.notes.append(f"{sentence}: equal rows stay together in test rows and folds")


def take_query(source: Source, query: str, target: str | None) -> None:
    """The query column is what holds a list together, never a feature: a new query has a new name."""
    if source.images is not None:
        raise InputError("--query", repr(query), "a column of a table, not pictures")
    if query == target:
        raise InputError("--query", f"{query!r}, which is the target", "the column that names the query of each row")
    source.queries = np.array(column_of(source.named, query, "--query").texts(), dtype=object)
    source.columns.pop(query, None)
    if not source.columns:
        raise InputError("data", "no column but the target and the query", "at least one feature column")


def drop_unlabelled(source: Source) -> None:
    assert source.labels is not None
    known = np.array([label is not None for label in source.labels], dtype=bool)
    if not known.any():
        raise InputError("target", "a column without a single value", "a label in at least some rows")
    there = {"target": known}
    if source.queries is not None:
        there["query"] = np.array([one is not None for one in source.queries], dtype=bool)
        if not there["query"].any():
            raise InputError("--query", "a column without a single value", "a query for at least some rows")
    if source.times is not None:
        there["time"] = np.isfinite(source.times)
    for what, known in there.items():
        if not known.all():
            source.notes.append(f"{int((~known).sum())} rows without a {what} were left out")
    complete = np.logical_and.reduce(list(there.values()))
    if not complete.all():
        source.take(np.flatnonzero(complete))
