"""Files of scores as columns of text: CSV by the standard library, Parquet and Arrow where pyarrow is installed."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...constraints.counts import Array
from ...errors import InputError
from ...spelling import MISSING

_ARROW = (".parquet", ".pq", ".feather", ".arrow", ".ipc")
#: More bytes than this are not read by `aimfor decide`, unpacked ones included.
MOST_BYTES = 4 << 30


def read_columns(path: Path, encoding: str = "utf8", rows: int | None = None) -> dict[str, Array]:
    """Every column as text, ``(n,)`` objects; None where there is no value.

    Raises:
        InputError: Not readable, no rows, lines that do not fit the header, duplicate names, another encoding.
    """
    if path.suffix.lower() in _ARROW:
        return _from_arrow(path, rows)
    try:
        with _opened(path) as file:
            text = _Text(file, encoding)
            with text.lines:
                return _columns(path, text, rows)
    except (UnicodeError, LookupError) as error:
        raise InputError(
            "data", f"{path.name}, which cannot be read ({_first_line(error)})", "text in UTF-8",
            "Name the encoding with --encoding latin-1 (or cp1252, utf-16), or convert the file.",
        ) from None  # fmt: skip
    except (EOFError, gzip.BadGzipFile, csv.Error, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        raise InputError(
            "data", f"{path.name}, which cannot be read ({_first_line(error)})", "a CSV, Parquet or Arrow file",
            "Check that every line has as many fields as the header.",
        ) from None  # fmt: skip


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


class _Text:
    """Lines of a file, told where UTF-16 is by its first bytes, and stopped before memory is full."""

    def __init__(self, file: Any, encoding: str) -> None:
        start = file.read(1 << 16)
        self.encoding = _encoding(start, encoding)
        self.start = start.decode(self.encoding, "replace").removeprefix("\ufeff")
        if not self.start.strip():
            raise csv.Error("Empty CSV file")
        file.seek(0)
        codec = "utf-8-sig" if self.encoding == "utf8" else self.encoding
        self.lines = io.TextIOWrapper(file, encoding=codec, newline="")

    def __iter__(self) -> Iterator[str]:
        read = 0
        for line in self.lines:
            read += len(line)
            if read > MOST_BYTES:
                raise csv.Error(f"more than {MOST_BYTES >> 30} GB of text; read fewer rows with --rows")
            yield line


def _columns(path: Path, text: _Text, rows: int | None) -> dict[str, Array]:
    header = re.sub(r'"[^"]*"', "", text.start.split("\n", 1)[0])
    reader = csv.reader(text, delimiter=max(",;\t|", key=header.count))
    names = [name.strip() for name in next(reader)]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InputError("data", f"two columns named {twice!r}", "a name of its own for each column")
    kept = []
    for cells in itertools.islice(reader, rows):
        if len(cells) != len(names):
            if not cells:  # an empty line
                continue
            came = f"Expected {len(names)} columns, got {len(cells)} in line {reader.line_num}"
            raise csv.Error(came)
        kept.append(cells)
    if not kept:
        raise InputError("data", f"{path.name} with 0 rows", "rows below the header line")
    return {name: _cells(column) for name, column in zip(names, zip(*kept, strict=True), strict=True)}


def _cells(column: tuple[str, ...]) -> Array:
    """Stripped, composed characters in one form, None for the words that mean "missing"."""
    missing = set(MISSING)
    tidy = {text: unicodedata.normalize("NFC", text.strip()) for text in set(column)}
    known = {text: None if word in missing else word for text, word in tidy.items()}
    values = np.empty(len(column), dtype=object)
    values[:] = [known[text] for text in column]
    return values


def _encoding(start: bytes, stated: str) -> str:
    """UTF-16 is told by its first bytes, or by a zero in every other one; else it is what was stated."""
    if stated.lower().replace("-", "") != "utf8":
        return stated
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if start[:400].count(0) > 100:
        return "utf-16-le" if start[1] == 0 else "utf-16-be"
    return "utf8"


def _from_arrow(path: Path, rows: int | None) -> dict[str, Array]:
    try:
        from ..data.tables import read_table
    except ModuleNotFoundError as missing:
        raise InputError(
            "data", f"{path.name}, which needs the package {missing.name!r}", "a CSV file",
            "Install it with: pip install 'aimfor[train]'.",
        ) from None  # fmt: skip
    return {name: column.texts() for name, column in read_table(path, rows=rows).items() if column.kind != "unread"}


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
