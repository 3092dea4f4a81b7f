"""The one gate for tables of text: bytes unpacked, bounded and in UTF-8, with the header's names and the mark between.

Whoever reads a CSV goes through `opened`: a name that ends in ``.gz`` is unpacked, an archive is named as one, and
what is really read is counted, because the size that a packed file states may be anything.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError

#: Columns of a table at most, a hundred times what people have.
MOST_COLUMNS = 20_000
#: What to do about text that is not in UTF-8.
OTHER_ENCODING = (
    "text in UTF-8",
    "Name the encoding with --encoding latin-1 (or cp1252, utf-16), or convert the file.",
)
_START = 1 << 20


@dataclass(frozen=True)
class TextTable:
    """A table of text, before any row is read.

    Attributes:
        stream: Its bytes from the header on, in UTF-8 without a mark of the byte order.
        delimiter: What stands between cells.
        names: The cells of the header.
    """

    stream: io.BufferedReader
    delimiter: str
    names: list[str]


@contextlib.contextmanager
def opened(path: Path, encoding: str = "utf8", copies: int = 1) -> Iterator[TextTable]:
    """Opens a table of text for reading once.

    Args:
        path: The file.
        encoding: As the user says; UTF-16 is told by its first bytes.
        copies: Bytes of memory that the reader takes for each byte of text.

    Raises:
        InputError: An archive, damage, another encoding, too many columns, or more text than memory; also while the
            rows are read.
    """
    with told(path), contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if file.read(4) == b"PK\x03\x04":
            remedy = "Unpack it, or save a spreadsheet as CSV."
            raise InputError("data", f"{path.name}, which is a zip archive", "a CSV, Parquet or Arrow file", remedy)
        file.seek(0)
        source: Any = stack.enter_context(gzip.GzipFile(fileobj=file)) if path.suffix.lower() == ".gz" else file
        start = source.read(_START)
        source.seek(0)
        encoding = _encoding(start, encoding)
        delimiter, names = _header(path, start, encoding)
        check_columns(path, len(names))
        yield TextTable(io.BufferedReader(_Counted(path, source, encoding, copies)), delimiter, names)


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turns what damage and strange bytes make Python raise into one sentence about the file."""
    try:
        yield
    except (UnicodeError, LookupError) as error:
        raise unreadable(path, error, *OTHER_ENCODING) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise unreadable(path, error, "a whole file", "Copy or write it again.") from None
    except csv.Error as error:
        raise unreadable(path, error) from None


def unreadable(
    path: Path,
    error: Exception,
    expected: str = "a CSV, Parquet or Arrow file",
    cure: str = "Check that every line has as many fields as the header.",
) -> InputError:
    """The one sentence about a file that cannot be read."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return InputError("data", f"{path.name}, which cannot be read ({lines[0][:200]})", expected, cure)


def check_columns(path: Path, count: int) -> None:
    """Refuses a table that is wider than anything a person can look at, before its rows are read."""
    if count > MOST_COLUMNS:
        cure = "Keep the columns that matter, or turn the table if its rows are columns."
        raise InputError("data", f"{path.name} with {count} columns", f"at most {MOST_COLUMNS}", cure)


def available_memory() -> int:
    """Bytes of memory that can be had now (Linux: MemAvailable; elsewhere a cautious 4 GB)."""
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 4 * 1024**3


def gigabytes(size: float) -> str:
    return f"{size / 1024**3:.1f} GB" if size >= 1024**3 else f"{size / 1024**2:.0f} MB"


class _Counted(io.RawIOBase):
    """The text in UTF-8; more of it than there is memory for ends in one sentence."""

    def __init__(self, path: Path, source: Any, encoding: str, copies: int) -> None:
        self._path, self._copies, self._read, self._left = path, copies, 0, b""
        self._limit = available_memory() // copies
        self._source = source if encoding == "utf8" else codecs.EncodedFile(source, "utf8", encoding)

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        first = self._read == 0
        if not self._left:
            with told(self._path):
                self._left = self._source.read(min(max(len(room), 1 << 16), _START))
            if first:
                self._left = self._left.removeprefix(codecs.BOM_UTF8)
        taken, self._left = self._left[: len(room)], self._left[len(room) :]
        room[: len(taken)] = taken
        self._read += len(taken)
        if self._read > self._limit:
            need = f"{gigabytes(self._limit)} of text and more, each byte of which takes {self._copies} of memory"
            cure = "Read only some rows with --rows 100000, or a table larger than memory with train --memory."
            raise InputError("data", f"{self._path.name} of {need}", "a table that fits into memory", cure)
        return len(taken)


def _encoding(start: bytes, stated: str) -> str:
    """UTF-16 is told by its first bytes, or by a zero in every other one; else it is what was stated."""
    codecs.lookup(stated)
    if stated.lower().replace("-", "") != "utf8":
        return stated
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and b"\0" in start:  # else two bytes of damage
        return "utf-16"
    if start[:400].count(0) > 100:
        return "utf-16-le" if start[1] == 0 else "utf-16-be"
    return "utf8"


def _header(path: Path, start: bytes, encoding: str) -> tuple[str, list[str]]:
    """The mark that splits the header line most often (outside of quotes), and the names between the marks."""
    text = codecs.getincrementaldecoder(encoding)().decode(start).removeprefix("\ufeff")
    if not text.strip():
        raise unreadable(path, csv.Error("Empty CSV file"), "a header line and rows", "The file is empty.")
    outside = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", text, maxsplit=1)[0])
    delimiter = max(",;\t|", key=outside.count)
    return delimiter, next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
