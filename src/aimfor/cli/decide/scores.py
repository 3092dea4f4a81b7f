"""A file of scores and labels as arrays, with group labels as numbers and the words they stand for.

Files of scores as columns of text: CSV by the standard library, Parquet and Arrow where pyarrow is installed.
"""

from __future__ import annotations

import csv
import io
import itertools
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...constraints.counts import Array
from ...delimited import opened
from ...errors import InputError, nearest
from ...spelling import MISSING, tidy_labels, without_control
from ...targets.classes import Labels, fit_labels

#: The two sides of a band that a person decides: rows above one threshold, rows not above the other.
ACCEPT, REJECT = "accept", "reject"
LABEL, SIDE = "label", "side"


@dataclass
class ScoredTable:
    """A file as it came: its columns, which of them hold score and target, and what was left out."""

    path: Path
    columns: dict[str, Array]
    score: str
    target: str
    notes: list[str] = field(default_factory=list)

    @property
    def labels(self) -> list[str]:
        """The target's different values, sorted."""
        return sorted({str(label) for label in labels_of(self.columns[self.target])})

    def words(self, attribute: str, option: str = "subject-to") -> list[str]:
        """Labels of a column of groups. Raises `InputError` for rows without one and for more than 100."""
        column = labels_of(column_of(self.columns, option, attribute))
        empty = sum(label is None for label in column)
        if empty:
            raise InputError(attribute, f"{empty} rows without a label in {self.path.name}", "a group for every row")
        if len(set(column)) > 100:
            raise InputError(attribute, f"{len(set(column))} different values", "a few groups", "Bin the column first.")
        return list(column)


@dataclass
class Vocabulary:
    """What words mean as numbers: which label is positive, and the labels of each group, the same for all files."""

    classes: Labels
    groups: dict[str, list[str]] = field(default_factory=dict)

    @property
    def positive(self) -> str:
        return self.classes.classes[1]

    def label(self, attribute: str, word: str) -> float:
        labels = self.groups[attribute]
        if word not in labels:
            raise InputError(attribute, repr(word), "a label of that column", nearest(word, labels))
        return float(labels.index(word))

    def add_group(self, attribute: str, tables: list[ScoredTable]) -> None:
        """A group column's labels; the first table is the calibration's, which has to hold all of them."""
        if attribute in self.groups:
            return
        labels = [set(table.words(attribute)) for table in tables]
        self.groups[attribute] = sorted(set.union(*labels))
        lost = sorted(set(self.groups[attribute]) - labels[0])
        if lost:
            raise InputError(
                attribute,
                f"{lost[0]!r} in {tables[1].path.name} only",
                "every group among the calibration rows",
                "Nothing can be promised to a group that was never measured.",
            )

    def arrays(self, table: ScoredTable) -> tuple[Array, Array, dict[str, Array]]:
        """Scores ``(n,)`` float64, targets ``(n,)`` bool, and group codes."""
        targets = self.classes.encode(labels_of(table.columns[table.target]))
        groups = {
            name: np.array([labels.index(label) for label in table.words(name)]) for name, labels in self.groups.items()
        }
        return numbers(table.columns[table.score], table.score), targets, groups


def read_scores(
    path: Path, score: str | Sequence[str], target: str, encoding: str = "utf8", rows: int | None = None
) -> ScoredTable:
    """Reads a file and leaves out rows without a label. Raises `InputError` for columns that are not there."""
    if not path.is_file():
        came = f"the folder {path}" if path.is_dir() else f"{path}, which does not exist"
        raise InputError("data", came, "a CSV or Parquet file with scores and labels")
    option, names = ("score", [score]) if isinstance(score, str) else ("score-of", list(score))
    columns = read_columns(path, encoding, rows)
    for name in names:
        column_of(columns, option, name)
    is_labelled = np.array([cell is not None for cell in column_of(columns, "target", target)], dtype=bool)
    table = ScoredTable(path, columns, names[0], target)
    if not is_labelled.all():
        table.columns = {name: column[is_labelled] for name, column in columns.items()}
        table.notes.append(f"{int((~is_labelled).sum())} rows of {path.name} have no label and were left out")
    for name in names:
        missing = sum(cell is None for cell in table.columns[name])
        if missing:
            came = f"{missing} rows without a score in {name!r} of {path.name}"
            raise InputError(option, came, "a score in every row")
        numbers(table.columns[name], name)
    return table


def numbers(column: Array, name: str) -> Array:
    """The scores ``(n,)`` in float64."""
    try:
        return column.astype(np.float64)
    except ValueError:
        wrong = next(text for text in column if not _is_float(text))
        raise InputError(
            "score", f"{wrong!r} in {name!r}", "numbers, higher meaning more positive", "Name another column."
        ) from None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def labels_of(column: Array) -> Array:
    """Labels as text, ``(n,)`` objects; None where missing. ``1.0`` and ``1`` are one label, ``01`` is another."""
    labels = [label for label in dict.fromkeys(column) if label is not None]
    spelled = {None: None, **dict(zip(labels, tidy_labels(labels), strict=True))}
    return np.array([spelled[label] for label in column], dtype=object)


def vocabulary(calibration: ScoredTable, positive: str | None) -> Vocabulary:
    """Which label is the positive class, by the rules of the other commands."""
    column = labels_of(calibration.columns[calibration.target])
    labels = fit_labels(
        column, binary=True, positive=positive, otherwise="give each its scores: --score-of CLASS=COLUMN"
    )
    calibration.notes.extend(labels.notes)
    return Vocabulary(labels)


def class_columns(score_of: Sequence[str]) -> dict[str, str]:
    """Columns by class, from words such as ``fraud=p_fraud``."""
    pairs = [text.partition("=") for text in score_of]
    wrong = next((text for text, pair in zip(score_of, pairs, strict=True) if not all(pair)), None)
    if wrong is not None:
        raise InputError("score-of", repr(wrong), "CLASS=COLUMN", "--score-of fraud=p_fraud --score-of theft=p_theft")
    columns = {name: column for name, _, column in pairs}
    if len(columns) < len(pairs):
        raise InputError("score-of", "a class twice", "each class once")
    return columns


def class_ids(table: ScoredTable, columns: Mapping[str, str]) -> tuple[Array, Array]:
    """Scores ``(n, c)`` and classes ``(n,)``; every label needs a column of scores."""
    names, without = list(columns), sorted(set(table.labels) - set(columns))
    if without or len(names) < 2:
        raise InputError("score-of", f"none for {without[0]!r}" if without else "one class", "a score for every class")
    scores = np.stack([numbers(table.columns[column], column) for column in columns.values()], 1)
    return scores, np.array([names.index(str(label)) for label in labels_of(table.columns[table.target])])


@dataclass(frozen=True)
class Subsets:
    """Which rows each of several thresholds is about, by its name.

    Attributes:
        attribute: What the names are values of: the label, the side of the band, or else a column of categories.
        scores: Column of the scores, by name.
        positive: Label of the positive class, by name.
    """

    attribute: str
    scores: Mapping[str, str]
    positive: Mapping[str, str]

    @property
    def by_category(self) -> bool:
        return self.attribute not in (LABEL, SIDE)

    def split(self, table: ScoredTable, cluster: Array | None = None) -> dict[str, tuple[Array, Array, Array | None]]:
        """Scores, whether each row is positive, and clusters, by name."""
        labels = labels_of(table.columns[table.target])
        categories = labels_of(column_of(table.columns, "category", self.attribute)) if self.by_category else None
        rows = {}
        for name, column in self.scores.items():
            own = np.ones(len(labels), dtype=bool) if categories is None else categories == name
            ids = None if cluster is None else cluster[own]
            rows[name] = numbers(table.columns[column], column)[own], (labels == self.positive[name])[own], ids
        return rows


def refuse_overlap(calibration: ScoredTable, learn: ScoredTable) -> None:
    """Rows that order the tests must not be tested on: the same file, or the same rows in another file, is refused.

    Equal rows can be chance where scores are coarse. They are taken for an overlap where either file alone has no
    repeated row, or where more than half of the learning rows are there again.
    """
    if calibration.path.resolve() == learn.path.resolve():
        raise InputError("learn", str(learn.path), "a file of other rows", "Leave --learn out to split these rows.")
    shared = [name for name in calibration.columns if name in learn.columns]
    here, there = (list(zip(*(table.columns[name] for name in shared), strict=True)) for table in (calibration, learn))
    distinct_here = set(here)
    again = sum(row in distinct_here for row in there)
    distinct = len(distinct_here) == len(here) and len(set(there)) == len(there)
    if again and (distinct or 2 * again > len(there)):
        raise InputError(
            "learn",
            f"{again} of {len(there)} rows that are calibration rows too",
            "rows that are not in the calibration file",
            "Take them out of one of the files.",
        )


def column_of(columns: dict[str, Array], option: str, name: str) -> Array:
    if name not in columns:
        raise InputError(option, repr(name), "a column of the table", nearest(name, columns))
    return columns[name]


_ARROW = (".parquet", ".pq", ".feather", ".arrow", ".ipc")
#: Bytes of memory for each byte of text: every cell is an object. Measured: 9 to 11 for scores and labels.
_COPIES = 12
#: Rows that are split into columns at once.
_BLOCK = 4096


def read_columns(path: Path, encoding: str = "utf8", rows: int | None = None) -> dict[str, Array]:
    """Every column as text, ``(n,)`` objects; None where there is no value.

    Raises:
        InputError: Not readable, no rows, lines that do not fit the header, duplicate names, another encoding.
    """
    if path.suffix.lower() in _ARROW:
        return _from_arrow(path, rows)
    with opened(path, encoding, _COPIES) as text:
        lines = io.TextIOWrapper(text.stream, encoding="utf8", newline="")
        return _columns(path, csv.reader(lines, delimiter=text.delimiter), rows)


def _columns(path: Path, reader: Any, rows: int | None) -> dict[str, Array]:
    names = [without_control(name).strip() for name in next(reader)]
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None:
        raise InputError("data", f"two columns named {twice!r}", "a name of its own for each column")
    columns: list[list[str]] = [[] for _ in names]
    rest = itertools.islice(reader, rows)
    while block := list(itertools.islice(rest, _BLOCK)):
        whole = [cells for cells in block if cells]  # without empty lines
        wrong = next((len(cells) for cells in whole if len(cells) != len(names)), None)
        if wrong is not None:
            raise csv.Error(f"Expected {len(names)} columns, got {wrong} up to line {reader.line_num}")
        for column, cells in zip(columns, zip(*whole, strict=True), strict=False):
            shared = {cell: cell for cell in cells}  # equal cells are one object
            column.extend(shared[cell] for cell in cells)
    if not columns[0]:
        raise InputError("data", f"{path.name} with 0 rows", "rows below the header line")
    return {name: _cells(column) for name, column in zip(names, columns, strict=True)}


def _cells(column: list[str]) -> Array:
    """Stripped, composed characters in one form, None for the words that mean "missing"."""
    missing = set(MISSING)
    tidy = {text: unicodedata.normalize("NFC", without_control(text).strip()) for text in set(column)}
    values = np.empty(len(column), dtype=object)
    values[:] = [None if tidy[text] in missing else tidy[text] for text in column]
    return values


def _from_arrow(path: Path, rows: int | None) -> dict[str, Array]:
    try:
        from ...data.tables import read_table
    except ModuleNotFoundError as missing:
        raise InputError(
            "data", f"{path.name}, which needs the package {missing.name!r}", "a CSV file",
            f"Install it with: pip install {missing.name}.",
        ) from None  # fmt: skip
    return {name: column.texts() for name, column in read_table(path, rows=rows).items() if column.kind != "unread"}
