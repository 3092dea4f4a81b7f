"""CSV and Parquet to named columns: numbers as float64 with NaN for missing, text as str or None."""

from __future__ import annotations

import gzip
import io
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

Column = NDArray[Any]

#: Reading, encoding and training together hold about this many copies of the text.
_COPIES = 3
_MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "n/a", "-nan", "<NA>"]


def available_memory() -> int:
    """Bytes of memory that can be had now (Linux: MemAvailable; elsewhere a cautious 4 GB)."""
    try:
        with open("/proc/meminfo") as file:
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
            "Read only the first rows with --rows 100000 (or more), or use a machine with more memory.",
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1024**3:.1f} GB" if size >= 1024**3 else f"{size / 1024**2:.0f} MB"


def read_table(path: Path, *, encoding: str = "utf8", rows: int | None = None) -> dict[str, Column]:
    """Columns of a CSV (also ``.gz``, also with ``;``, tab or ``|``) or Parquet file.

    Raises:
        InputError: Not readable, no rows, duplicate column names, not in the stated encoding, too large.
    """
    import pyarrow as pa

    try:
        table = (
            _read_parquet(path, rows) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path, encoding, rows)
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError, LookupError, EOFError, gzip.BadGzipFile) as error:
        raise InputError("data", f"{path.name}, which cannot be read ({_first_line(error)})", *_cure(error)) from None
    repeated = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if repeated:
        raise InputError(
            "data",
            f"{path.name} with the column name {repeated[0]!r} more than once",
            "column names that differ",
            "Rename one of them in the header line.",
        )
    if table.num_rows == 0:
        raise InputError("data", f"{path.name} with 0 rows", "at least a few dozen rows below the header line")
    return {name: _column(name, table.column(name)) for name in table.column_names}


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _cure(error: Exception) -> tuple[str, str]:
    text = str(error).lower()
    if "utf8" in text or "utf-8" in text or isinstance(error, UnicodeDecodeError):
        return "text in UTF-8", "Name the encoding with --encoding latin-1 (or cp1252, utf-16), or convert the file."
    if "empty csv" in text:
        return "a header line and rows", "The file is empty."
    return "a CSV or Parquet file", "Check that every line has as many fields as the header."


def _read_parquet(path: Path, rows: int | None) -> Any:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    if rows is None:
        meta = file.metadata
        check_size(path, sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)))
        return file.read()
    import pyarrow as pa

    batches, seen = [], 0
    for batch in file.iter_batches(batch_size=min(rows, 65536)):
        batches.append(batch.slice(0, rows - seen))
        seen += batches[-1].num_rows
        if seen >= rows:
            break
    return pa.Table.from_batches(batches, schema=file.schema_arrow)


def _read_csv(path: Path, encoding: str, rows: int | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        header = file.readline()
    if rows is None:
        check_size(path, _text_size(path))
        source: Any = str(path)
    else:
        with opener(path, "rb") as file:
            source = io.BytesIO(b"".join(islice(file, rows + 1)))
    table = csv.read_csv(
        source,
        read_options=csv.ReadOptions(encoding=encoding, block_size=1 << 24),
        parse_options=csv.ParseOptions(
            delimiter=_delimiter(header.decode(encoding, "replace")), newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(null_values=_MISSING, strings_can_be_null=True),
    )
    for column in table.schema:
        if pa.types.is_binary(column.type):  # what Arrow makes of text that it cannot decode
            raise pa.ArrowInvalid(f"column {column.name!r} is not {encoding.upper().replace('UTF8', 'UTF-8')}")
    return table


def _delimiter(header: str) -> str:
    """The mark that splits the header line most often."""
    return max(",;\t|", key=header.count)


def _text_size(path: Path) -> int:
    size = path.stat().st_size
    if path.suffix.lower() == ".gz" and size >= 4:
        with path.open("rb") as file:
            file.seek(-4, 2)
            return max(size, int.from_bytes(file.read(4), "little"))  # the length a gzip file states, modulo 4 GB
    return size


def _column(name: str, column: Any) -> Column:
    """One Arrow column as float64 (numbers, dates as days, booleans as 0 and 1) or as objects (text)."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind) and not pa.types.is_time(kind):
        seconds = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        return _floats(seconds) / 86400.0
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return _floats(column)
    try:
        values = column.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            "data", f"the column {name!r} of type {kind}", "columns of numbers, text, dates or booleans", "Drop it."
        ) from None
    return np.array([None if value is None else value.strip() for value in values], dtype=object)


def _floats(column: Any) -> Column:
    import pyarrow as pa

    return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def is_text(column: Column) -> bool:
    return column.dtype == object


def as_labels(column: Column) -> Column:
    """Values as text, ``1.0`` as ``1``; None where missing."""
    if is_text(column):
        return column
    whole = column == np.floor(column)
    return np.array(
        [
            None if value != value else str(int(value)) if integral else repr(float(value))
            for value, integral in zip(column, whole, strict=True)
        ],
        dtype=object,
    )
