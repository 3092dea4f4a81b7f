"""CSV, Parquet and Arrow files to columns. Cells of a CSV stay text: what they mean is decided once, elsewhere."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...fitting.columns.cells import Column, from_arrow
from ...fitting.columns.frames import named

#: Reading, encoding and training together hold about this many copies of the text.
_COPIES = 3
_PARQUET, _ARROW = (".parquet", ".pq"), (".feather", ".arrow", ".ipc")


def available_memory() -> int:
    """Bytes of memory that can be had now (Linux: MemAvailable; elsewhere a cautious 4 GB)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 * 1024**3


def check_size(path: Path, size: int) -> None:
    """Refuses a table that would not fit, before reading it, with the memory it would need."""
    need, have = _COPIES * size, available_memory()
    if need > have:
        raise InputError(
            "data",
            f"{path.name} of {_gigabytes(size)}, which needs about {_gigabytes(need)} of memory",
            f"a table that fits into the {_gigabytes(have)} available",
            f"Read it as a stream with --memory {have >> 21}MB, or only some rows with --rows 100000.",
        )


def memory_needed(path: Path) -> int:
    """Bytes that reading, encoding and training on all rows at once would take, about."""
    if path.suffix.lower() not in _PARQUET:
        return _COPIES * _text_size(path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        meta = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError("data", f"{path.name}, which cannot be read ({_first_line(error)})", "Parquet") from None
    return _COPIES * int(sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)))


def _gigabytes(size: float) -> str:
    return f"{size / 1024**3:.1f} GB" if size >= 1024**3 else f"{size / 1024**2:.0f} MB"


def read_table(path: Path, *, encoding: str = "utf8", rows: int | None = None) -> dict[str, Column]:
    """Columns of a CSV (also ``.gz``, also with ``;``, tab or ``|``), Parquet or Arrow (feather) file.

    Raises:
        InputError: Not readable, no rows, duplicate column names, not in the stated encoding, too large.
    """
    import pyarrow as pa

    try:
        if path.suffix.lower() in _PARQUET:
            table = _read_parquet(path, rows)
        elif path.suffix.lower() in _ARROW:
            table = _read_arrow(path, rows)
        else:
            table = _read_csv(path, encoding, rows)
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError, LookupError, EOFError, gzip.BadGzipFile) as error:
        raise InputError("data", f"{path.name}, which cannot be read ({_first_line(error)})", *_cure(error)) from None
    if table.num_rows == 0:
        raise InputError("data", f"{path.name} with 0 rows", "rows below the header line")
    return named([(name, from_arrow(name, table.column(i))) for i, name in enumerate(table.column_names)])


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _cure(error: Exception) -> tuple[str, str]:
    text = str(error).lower()
    if "utf8" in text or "utf-8" in text or isinstance(error, UnicodeError):
        return "text in UTF-8", "Name the encoding with --encoding latin-1 (or cp1252, utf-16), or convert the file."
    if "empty csv" in text:
        return "a header line and rows", "The file is empty."
    return "a CSV, Parquet or Arrow file", "Check that every line has as many fields as the header."


def _read_parquet(path: Path, rows: int | None) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if rows is None:
            meta = file.metadata
            check_size(path, sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)))
            return file.read()
        return _first_rows(file.iter_batches(batch_size=min(rows, 65536)), rows, file.schema_arrow)


def _first_rows(batches: Iterable[Any], rows: int, schema: Any) -> Any:
    """A table of so many rows, from as few batches as hold them."""
    import pyarrow as pa

    kept, seen = [], 0
    for batch in batches:
        kept.append(batch.slice(0, rows - seen))
        seen += kept[-1].num_rows
        if seen >= rows:
            break
    return pa.Table.from_batches(kept, schema=schema)


def _read_arrow(path: Path, rows: int | None) -> Any:
    from pyarrow import feather

    if rows is None:
        check_size(path, path.stat().st_size)
    table = feather.read_table(path)
    return table if rows is None else table.slice(0, rows)


def csv_options(path: Path, encoding: str) -> dict[str, Any]:
    """How Arrow is to read the file: every cell as text, for what a column is must not depend on the file at hand."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        start = file.read(1 << 20)
    encoding = _encoding(start, encoding)
    delimiter, names = _header(start.decode(encoding, "replace").removeprefix("\ufeff"))
    return {
        "read_options": arrow_csv.ReadOptions(encoding=encoding, block_size=1 << 24),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(column_types={name: pa.string() for name in names}, null_values=[]),
    }


def _read_csv(path: Path, encoding: str, rows: int | None) -> Any:
    from pyarrow import csv as arrow_csv

    options = csv_options(path, encoding)
    if rows is None:
        check_size(path, _text_size(path))
        return arrow_csv.read_csv(str(path), **options)
    with arrow_csv.open_csv(str(path), **options) as reader:
        return _first_rows(reader, rows, reader.schema)


def _encoding(start: bytes, stated: str) -> str:
    """UTF-16 is told by its first bytes, or by a zero in every other one; else it is what was stated."""
    if stated.lower().replace("-", "") != "utf8":
        return stated
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if start[:400].count(0) > 100:
        return "utf-16-le" if start[1] == 0 else "utf-16-be"
    return "utf8"


def _header(text: str) -> tuple[str, list[str]]:
    """The mark that splits the header line most often (outside of quotes), and the names between the marks."""
    line = text.split("\n", 1)[0]
    outside = re.sub(r'"[^"]*"', "", line)
    delimiter = max(",;\t|", key=outside.count)
    return delimiter, next(csv.reader(io.StringIO(text), delimiter=delimiter), [])


def _text_size(path: Path) -> int:
    size = path.stat().st_size
    if path.suffix.lower() == ".gz" and size >= 4:
        with path.open("rb") as file:
            file.seek(-4, 2)
            return max(size, int.from_bytes(file.read(4), "little"))  # the length a gzip file states, modulo 4 GB
    return size
