"""Examples as they came, and the columns of a table that are no features: groups, queries, rows without a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decisions.independence import sets_of_copies
from ..errors import InputError, nearest
from .columns.cells import Column
from .columns.quantities import read_dates, read_numbers
from .columns.schema import decide
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
        for name in ("images", "labels", "test", "groups", "queries", "whole", "times"):
            if (values := getattr(self, name)) is not None:
                setattr(self, name, values[kept])
        for name in ("row_names", "hashes"):
            if (names := getattr(self, name)) is not None:
                setattr(self, name, [names[row] for row in kept])
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
    texts = column_of(columns, name, flag).texts()
    return np.array(["(missing)" if text is None else text for text in texts], dtype=object)


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
    copied = copied_rows(source.columns, ids) if source.kind == "table" and source.whole is None else None
    if copied is None:
        return
    sets, sentence = copied
    fewest = min(len(np.unique(sets[ids == label])) for label in np.unique(ids))
    if source.test is not None or fewest < LEAST_APART:
        source.notes.append(f"{sentence}, also in different parts of the split: the values found may be too high")
        return
    source.whole = sets
    source.notes.append(f"{sentence}: equal rows stay together in test rows and folds")


def copied_rows(columns: Mapping[str, Column], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], str] | None:
    """Which rows are equal, and a sentence that counts them; None where no row is a copy, or chance explains it.

    Args:
        columns: The table without its target; columns of texts or whole numbers that all differ count as names of rows.
        ids: Classes, ``(n,)``.

    Returns:
        The number of each row's set of equal rows, ``(n,)``.

    Example:
        >>> column = Column("number", np.random.default_rng(0).normal(size=300).repeat(2))
        >>> copied_rows({"a": column, "b": column}, np.arange(300).repeat(2) % 2)[1]
        '300 of 600 rows are copies of other rows'
    """
    read = [(column, _codes(column)) for column in columns.values() if column.kind != "unread"]
    codes = [ranks for column, ranks in read if not _names_rows(column, ranks)]
    if not codes:
        return None
    classes, counts = np.unique(ids, return_counts=True)
    sets = sets_of_copies(np.stack(codes, axis=1), ids != classes[counts.argmax()])
    if sets is None:
        return None
    copies = len(sets) - len(np.unique(sets))
    return sets, f"{copies} of {len(sets)} rows are {'copies of other rows' if copies > 1 else 'a copy of another row'}"


def _codes(column: Column) -> NDArray[np.int32]:
    """Numbers and times by their rank, texts by the order in which they come."""
    if column.kind == "text":
        return column.distinct()[0].astype(np.int32)
    return np.unique(column.values, return_inverse=True)[1].astype(np.int32)


def _names_rows(column: Column, codes: NDArray[np.int32]) -> bool:
    """Whether a column of texts or whole numbers has another value in every row, as an identifier has."""
    if column.kind == "number" and not bool((column.values == np.floor(column.values)).all()):
        return False
    return column.kind != "time" and bool(codes.min() >= 0) and int(codes.max()) + 1 == len(codes)


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
    """Leaves out rows without a target, a query or a moment, with a note. Several labels at once may be unknown."""
    if source.labels is None or source.labels.ndim > 1:
        return
    present = {"target": np.array([label is not None for label in source.labels], dtype=bool)}
    if not present["target"].any():
        raise InputError("target", "a column without a single value", "a label in at least some rows")
    if source.queries is not None:
        present["query"] = np.array([query is not None for query in source.queries], dtype=bool)
        if not present["query"].any():
            raise InputError("--query", "a column without a single value", "a query for at least some rows")
    if source.times is not None:
        present["time"] = np.isfinite(source.times)
    for role, rows in present.items():
        if not rows.all():
            source.notes.append(f"{int((~rows).sum())} rows without a {role} were left out")
    complete = np.logical_and.reduce(list(present.values()))
    if not complete.all():
        source.take(np.flatnonzero(complete))
