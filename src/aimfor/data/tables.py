"""CSV, Parquet and Arrow files to columns. Cells of a CSV stay text: what they mean is decided once, elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..delimited import OTHER_ENCODING, available_memory, check_columns, gigabytes, opened, unreadable
from ..errors import InputError
from .columns.cells import Column, columns_of

#: Reading, encoding and training together hold about this many copies of the text.
_COPIES = 3
_PARQUET, _ARROW = (".parquet", ".pq"), (".feather", ".arrow", ".ipc")


def check_size(path: Path, size: int) -> None:
    """Refuses a table that would not fit, before reading it, with the memory it would need."""
    need, have = _COPIES * size, available_memory()
    if need > have:
        raise InputError(
            "data",
            f"{path.name} of {gigabytes(size)}, which needs about {gigabytes(need)} of memory",
            f"a table that fits into the {gigabytes(have)} available",
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
        raise InputError("data", f"{path.name}, which cannot be read ({error})", "Parquet") from None
    return _COPIES * int(sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)))


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
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise unread(path, error) from None
    if table.num_rows == 0:
        raise InputError("data", f"{path.name} with 0 rows", "rows below the header line")
    return columns_of(table)


def unread(path: Path, error: Exception) -> InputError:
    """What Arrow says of a file, with what to do about it."""
    if "utf8" in str(error).lower():
        return unreadable(path, error, *OTHER_ENCODING)
    if "empty csv" in str(error).lower():
        return unreadable(path, error, "a header line and rows", "The file is empty.")
    return unreadable(path, error)


def _read_parquet(path: Path, rows: int | None) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        check_columns(path, file.metadata.num_columns)
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
    check_columns(path, table.num_columns)
    return table if rows is None else table.slice(0, rows)


@contextlib.contextmanager
def csv_source(path: Path, encoding: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The bytes of a CSV and how Arrow is to read them: every cell as text, for what a column is must not depend on
    the file at hand."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with opened(path, encoding, _COPIES) as text, pa.PythonFile(text.stream, mode="r") as stream:
        strings = {name: pa.string() for name in text.names}
        yield (
            stream,
            {
                "read_options": arrow_csv.ReadOptions(block_size=1 << 24),
                "parse_options": arrow_csv.ParseOptions(delimiter=text.delimiter, newlines_in_values=True),
                "convert_options": arrow_csv.ConvertOptions(column_types=strings, null_values=[]),
            },
        )


def _read_csv(path: Path, encoding: str, rows: int | None) -> Any:
    from pyarrow import csv as arrow_csv

    if rows is None:
        check_size(path, _text_size(path))
    with csv_source(path, encoding) as (stream, options):
        if rows is None:
            return arrow_csv.read_csv(stream, **options)
        with arrow_csv.open_csv(stream, **options) as reader:
            return _first_rows(reader, rows, reader.schema)


def _text_size(path: Path) -> int:
    size = path.stat().st_size
    if path.suffix.lower() == ".gz" and size >= 4:
        with path.open("rb") as file:
            file.seek(-4, 2)
            return max(size, int.from_bytes(file.read(4), "little"))  # the length a gzip file states, modulo 4 GB
    return size
