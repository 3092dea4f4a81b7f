"""A table on disk as units that are read one at a time: row groups of Parquet files, through `pyarrow.dataset`.

CSV files have no row groups, so they are written as Parquet first, beside the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...errors import InputError, nearest
from ...fitting.columns.cells import Column, from_arrow
from ...fitting.columns.frames import named
from ..data.tables import csv_options

#: Rows of a row group that is written here.
GROUP_ROWS = 1 << 16
_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv", ".txt", ".gz")
#: What Python, torch and Arrow take before the first row is read.
_BASE = 450 << 20


@dataclass(frozen=True)
class Unit:
    """One row group: what is read at once."""

    name: str
    rows: int
    size: int
    fragment: Any = field(repr=False, compare=False)


@dataclass
class DiskTable:
    """Units of one schema."""

    name: str
    units: list[Unit]
    schema: Any

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    def read(self, number: int) -> dict[str, Column]:
        """All columns of a unit. Raises `InputError` that names the file when it cannot be read."""
        return columns_of_batch(self.arrow(number))

    def arrow(self, number: int) -> Any:
        unit = self.units[number]
        try:
            group, keys = unit.fragment.row_groups[0].id, ds.get_partition_keys(unit.fragment.partition_expression)
            # Not by the fragment itself, which takes twice as long for the same bytes.
            with pq.ParquetFile(unit.fragment.path, metadata=unit.fragment.metadata, pre_buffer=False) as file:
                table = file.read_row_group(group, use_threads=False)
            for name, value in keys.items():
                table = table.append_column(name, pa.repeat(pa.scalar(value, self.schema.field(name).type), unit.rows))
            return table
        except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise unreadable(unit.name, error) from None


def columns_of_batch(table: Any) -> dict[str, Column]:
    return named([(name, from_arrow(name, table.column(i))) for i, name in enumerate(table.column_names)])


def is_stream(data: str) -> bool:
    """Whether the data is a folder of tables, which is always read as a stream."""
    path = Path(data)
    return path.is_dir() and next(_files(path, _PARQUET + _CSV), None) is not None


def _files(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return (one for one in found if one.suffix.lower() in endings and not one.name.startswith((".", "_")))


def open_table(data: str, encoding: str = "utf8", staged: Path | None = None) -> DiskTable:
    """A Parquet file, a folder of them (also partitioned as ``key=value``), or CSV files.

    Args:
        data: File or folder.
        encoding: Of CSV files.
        staged: Where CSV files are written as Parquet; what is there from an earlier start is used again.

    Raises:
        InputError: Nothing to read, a damaged file, or files of different columns or types.
    """
    path = Path(data)
    if not path.exists():
        raise InputError("data", f"{data}, which does not exist", "a file or a folder")
    files = list(_files(path, _PARQUET))
    if not files:
        texts = list(_files(path, _CSV))
        if not texts:
            raise InputError("data", f"{data} without any table", "Parquet or CSV files")
        if staged is None:
            raise InputError("data", f"{data}, which is CSV", "Parquet files here")
        _stage(texts, encoding, staged)
        path, files = staged, sorted(staged.glob("*.parquet"))
    try:
        dataset = ds.dataset(path, format="parquet", partitioning="hive" if path.is_dir() else None)
        fragments = sorted(dataset.get_fragments(), key=lambda one: one.path)
    except (OSError, pa.ArrowInvalid) as error:
        raise _which(files, error) from None
    units: list[Unit] = []
    for fragment in fragments:
        units += _units(fragment, fragments[0])
    if not units:
        raise InputError("data", f"{data} with 0 rows", "at least a few hundred rows")
    return DiskTable(Path(data).name.split(".")[0], units, dataset.schema)


def _units(fragment: Any, first: Any) -> list[Unit]:
    try:
        _same_columns(fragment, first)
        return [
            Unit(f"{fragment.path}, row group {group.row_groups[0].id}", group.row_groups[0].num_rows,
                 group.row_groups[0].total_byte_size, group)
            for group in fragment.split_by_row_group()
            if group.row_groups[0].num_rows
        ]  # fmt: skip
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(fragment.path, error) from None


def _same_columns(fragment: Any, first: Any) -> None:
    ours, theirs = ({field.name: field.type for field in one.physical_schema} for one in (fragment, first))
    if ours == theirs:
        return
    for name in [*theirs, *ours]:
        if ours.get(name) != theirs.get(name):
            came = f"{fragment.path}, where the column {name!r} is {ours.get(name, 'missing')}"
            expected = f"{theirs.get(name, 'no such column')} as in {first.path}"
            raise InputError("data", came, expected, "Write all files with the same columns and types.")


def _which(files: list[Path], error: Exception) -> InputError:
    """The file that cannot be opened, among many."""
    for file in files:
        try:
            pq.read_schema(file)
        except (OSError, pa.ArrowInvalid) as found:
            return unreadable(str(file), found)
    return unreadable(str(files[0].parent), error)


def unreadable(name: str, error: Exception) -> InputError:
    text = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
    return InputError("data", f"{name}, which cannot be read ({text})", "a whole Parquet file", "Write it again.")


def _stage(texts: list[Path], encoding: str, folder: Path) -> None:
    """CSV to Parquet, cells as text; a file appears under its name only when it is complete."""
    from pyarrow import csv

    folder.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(texts):
        done = folder / f"{number:05d}.parquet"
        if done.exists():
            continue
        part = done.with_suffix(".part")
        try:
            with (
                csv.open_csv(str(path), **csv_options(path, encoding)) as reader,
                _writer(part, reader.schema) as writer,
            ):
                for batch in reader:
                    writer.write_batch(batch, row_group_size=GROUP_ROWS)
        except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError, LookupError) as error:
            part.unlink(missing_ok=True)
            raise InputError(
                "data", f"{path}, which cannot be read ({str(error).splitlines()[0][:160]})", "a CSV file"
            ) from None
        part.rename(done)


def _writer(path: Path, schema: Any) -> Any:
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)


def window_of(table: DiskTable, width: int, memory: int, workers: int) -> int:
    """How many units may be held at once, encoded in ``width`` columns. Raises `InputError` for a limit too small."""
    largest = max(unit.size for unit in table.units)
    encoded = max(unit.rows for unit in table.units) * (4 * width + 8)
    # A unit being read is there as pages, columns and matrix; two windows are held while the next one is read.
    reading = (2 * largest + 2 * encoded) * max(1, workers)
    room = (memory - _BASE - reading) // (3 * encoded)
    if room < 1:
        need = _BASE + reading + 3 * encoded
        came = f"{memory >> 20} MB for row groups of up to {max(unit.rows for unit in table.units):,} rows"
        remedy = "Write the files with smaller row groups (65,536 rows), or give more memory."
        raise InputError("--memory", came, f"at least {-(-need >> 20)} MB", remedy)
    return int(min(room, 16))


def target_of(columns: dict[str, Column], target: str | None) -> Column:
    """Takes the target column out. Raises `InputError` when there is none."""
    if target is None:
        raise InputError("target", "nothing", "the name of the column to predict", f"--target {list(columns)[-1]!r}?")
    if target not in columns:
        raise InputError("target", repr(target), "a column of the table", nearest(target, columns))
    return columns.pop(target)


def row_hashes(columns: dict[str, Column]) -> NDArray[np.uint64]:
    """64 bits that depend on a row's cells alone, ``(n,)``: not on its place, its file or the machine."""
    total = np.zeros(len(next(iter(columns.values()))), np.uint64)
    for column in columns.values():
        total += _cell_bits(column)
        total *= np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _cell_bits(column: Column) -> NDArray[np.uint64]:
    if column.kind != "text":
        return np.asarray(np.ascontiguousarray(column.values).view(np.uint64))
    codes, texts = column.distinct()
    digests = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts]
    return np.array([*digests, 1], np.uint64)[codes]
