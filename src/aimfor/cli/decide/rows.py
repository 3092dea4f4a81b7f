"""A file of scores and labels as arrays, with group labels as numbers and the words they stand for.

Files of scores as columns of text: CSV by the standard library, Parquet and Arrow where pyarrow is installed.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
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


def in_words(text: str, groups: Mapping[str, Sequence[str]]) -> str:
    """A printed rate with its groups by the file's own words: ``recall[sex=0]`` is ``recall[sex=female]``."""

    def named(found: re.Match[str]) -> str:
        labels = groups.get(found[1], ())
        return f"{found[1]}={labels[int(found[2])]}" if int(found[2]) < len(labels) else found[0]

    return re.sub(r"\[[^][]*\]", lambda part: re.sub(r"([^][,=]+)=(\d+)(?=[],])", named, part[0]), text)


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
    known = np.array([cell is not None for cell in column_of(columns, "target", target)], dtype=bool)
    table = ScoredTable(path, columns, names[0], target)
    if not known.all():
        table.columns = {name: column[known] for name, column in columns.items()}
        table.notes.append(f"{int((~known).sum())} rows of {path.name} have no label and were left out")
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
    found = [label for label in dict.fromkeys(column) if label is not None]
    spelled = {None: None, **dict(zip(found, tidy_labels(found), strict=True))}
    return np.array([spelled[label] for label in column], dtype=object)


def vocabulary(calibration: ScoredTable, positive: str | None) -> Vocabulary:
    """Which label is the positive class, by the rules of the other commands."""
    found = labels_of(calibration.columns[calibration.target])
    labels = fit_labels(
        found, binary=True, positive=positive, otherwise="give each its scores: --score-of CLASS=COLUMN"
    )
    calibration.notes.extend(labels.notes)
    return Vocabulary(labels)


def learn_group(words: Vocabulary, attribute: str, tables: list[ScoredTable]) -> None:
    """Adds a group column's labels; the first table is the calibration's, which has to hold all of them."""
    if attribute in words.groups:
        return
    found = [table.words(attribute) for table in tables]
    words.groups[attribute] = sorted({label for labels in found for label in labels})
    lost = sorted(set(words.groups[attribute]) - set(found[0]))
    if lost:
        raise InputError(
            attribute,
            f"{lost[0]!r} in {tables[1].path.name} only",
            "every group among the calibration rows",
            "Nothing can be promised to a group that was never measured.",
        )


def arrays(table: ScoredTable, words: Vocabulary) -> tuple[Array, Array, dict[str, Array]]:
    """Scores ``(n,)`` float64, targets ``(n,)`` bool, and group codes."""
    scores = numbers(table.columns[table.score], table.score)
    targets = words.classes.encode(labels_of(table.columns[table.target]))
    groups = {
        name: np.array([labels.index(label) for label in table.words(name)]) for name, labels in words.groups.items()
    }
    return scores, targets, groups


def refuse_overlap(calibration: ScoredTable, learn: ScoredTable) -> None:
    """Rows that order the tests must not be tested on: the same file, or the same rows in another file, is refused.

    Equal rows can be chance where scores are coarse. They are taken for an overlap where either file alone has no
    repeated row, or where more than half of the learning rows are there again.
    """
    if calibration.path.resolve() == learn.path.resolve():
        raise InputError("learn", str(learn.path), "a file of other rows", "Leave --learn out to split these rows.")
    shared = [name for name in calibration.columns if name in learn.columns]
    here, there = (list(zip(*(table.columns[name] for name in shared), strict=True)) for table in (calibration, learn))
    known = set(here)
    again = sum(row in known for row in there)
    distinct = len(known) == len(here) and len(set(there)) == len(there)
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
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
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
            one = {cell: cell for cell in cells}  # equal cells are one object
            column.extend(one[cell] for cell in cells)
    if not columns[0]:
        raise InputError("data", f"{path.name} with 0 rows", "rows below the header line")
    return {name: _cells(column) for name, column in zip(names, columns, strict=True)}


def _cells(column: list[str]) -> Array:
    """Stripped, composed characters in one form, None for the words that mean "missing"."""
    missing = set(MISSING)
    tidy = {text: unicodedata.normalize("NFC", without_control(text).strip()) for text in set(column)}
    known = {text: None if word in missing else word for text, word in tidy.items()}
    values = np.empty(len(column), dtype=object)
    values[:] = [known[text] for text in column]
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
