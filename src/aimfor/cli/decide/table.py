"""Files of scores as columns of text: CSV by the standard library, Parquet and Arrow where pyarrow is installed."""

from __future__ import annotations

import csv
import io
import itertools
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from ...constraints.counts import Array
from ...delimited import opened
from ...errors import InputError
from ...spelling import MISSING, without_control

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
