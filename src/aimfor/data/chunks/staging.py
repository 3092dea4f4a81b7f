"""CSV files, which have no row groups, as Parquet beside the run; and in blocks, for those who read them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import InputError
from ..tables import csv_source, unread

#: Rows of a row group that is written here.
GROUP_ROWS = 1 << 16


def stage(texts: list[Path], root: Path, encoding: str, folder: Path) -> list[Path]:
    """CSV to Parquet, cells as text; a file appears under its name only when it is complete.

    ``root/year=2024/a.csv`` becomes ``folder/year=2024/a.csv.parquet``: messages name it, and partitions stay columns.
    """
    made = []
    for path in texts:
        inside = path.relative_to(root) if root.is_dir() else Path(path.name)
        done = folder / inside.with_name(f"{inside.name}.parquet")
        made.append(done)
        # A copy that is older than the file is of other rows: a run that was started with them will say so.
        if not done.exists() or done.stat().st_mtime_ns < path.stat().st_mtime_ns:
            done.parent.mkdir(parents=True, exist_ok=True)
            _write(path, encoding, done)
    return made


def _write(path: Path, encoding: str, done: Path) -> None:
    part, writer = done.with_suffix(".part"), None
    try:
        for table in _grouped(csv_blocks(path, encoding)):
            writer = writer or pq.ParquetWriter(part, table.schema, compression="zstd", compression_level=1)
            writer.write_table(table, row_group_size=GROUP_ROWS)
        if writer is None:
            raise InputError("data", f"{path} with 0 rows", "at least one row in every file", "Remove the file.")
        writer.close()
        part.rename(done)
    finally:
        part.unlink(missing_ok=True)


def csv_blocks(path: Path, encoding: str) -> Iterator[Any]:
    """The rows as Arrow tables of some 16 MB. Raises `InputError` that names the file when it cannot be read."""
    from pyarrow import csv

    try:
        with csv_source(path, encoding) as (stream, options), csv.open_csv(stream, **options) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except pa.ArrowException as error:
        raise unread(path, error) from None


def _grouped(blocks: Iterator[Any]) -> Iterator[Any]:
    """Blocks joined and cut to whole row groups; the last may be smaller."""
    waiting: list[Any] = []
    for block in blocks:
        waiting.append(block)
        rows = sum(one.num_rows for one in waiting)
        if rows >= GROUP_ROWS:
            joined = pa.concat_tables(waiting)
            whole = rows - rows % GROUP_ROWS
            yield joined.slice(0, whole)
            waiting = [joined.slice(whole)]
    rest = pa.concat_tables(waiting) if waiting else None
    if rest is not None and rest.num_rows:
        yield rest
