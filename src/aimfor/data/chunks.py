"""A table on disk as units that are read one at a time: row groups of Parquet files, through `pyarrow.dataset`.

CSV files have no row groups, so they are written as Parquet first, beside the run; or read in blocks, once.
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

from ..errors import InputError
from .columns.cells import Column, columns_of
from .pictures import SUFFIXES
from .tables import csv_source, unread

_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv", ".txt", ".gz")
#: What a damaged file makes Arrow raise.
_DAMAGE = (OSError, pa.ArrowException)
#: Rows of a row group that is written here.
GROUP_ROWS = 1 << 16


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
        return columns_of(self.arrow(number))

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
        except _DAMAGE as error:
            raise unreadable(unit.name, error) from None


def is_stream(data: str) -> bool:
    """Whether the data is a folder of tables, which is always read as a stream."""
    path = Path(data)
    if not path.is_dir() or next(_files(path, SUFFIXES), None) is not None:  # a folder of images may hold lists as well
        return False
    return next(_files(path, _PARQUET + _CSV), None) is not None


def _files(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Tables in a folder and the folders in it; what begins with a dot or an underscore is not data."""
    if path.is_file():
        return iter([path])
    files = (file for file in sorted(path.rglob("*")) if file.suffix.lower() in endings and file.is_file())
    return (
        file
        for file in files
        if file.stem.lower() not in ("readme", "license", "licence")
        and not any(name.startswith((".", "_")) for name in file.relative_to(path).parts)
    )


def tables_in(data: str) -> tuple[list[Path], bool]:
    """The files of a table, and whether they are Parquet. Raises `InputError` for none, and for two kinds."""
    path = Path(data)
    if not path.exists():
        raise InputError("data", f"{data}, which does not exist", "a file or a folder")
    if path.is_file():
        return [path], path.suffix.lower() in _PARQUET
    parquet, texts = list(_files(path, _PARQUET)), list(_files(path, _CSV))
    if parquet and texts:
        came = f"{parquet[0].name} and {texts[0].name} in one folder"
        raise InputError("data", came, "files of one kind", "Move the others elsewhere, or write them as Parquet.")
    if not parquet and not texts:
        raise InputError("data", f"{data} without any table", "Parquet or CSV files")
    return parquet or texts, bool(parquet)


def open_table(data: str, encoding: str = "utf8", staged: Path | None = None) -> DiskTable:
    """A Parquet file, a folder of them (also partitioned as ``key=value``), or CSV files.

    Args:
        data: File or folder.
        encoding: Of CSV files.
        staged: Where CSV files are written as Parquet; what is there from an earlier start is used again.

    Raises:
        InputError: Nothing to read, a damaged file, or files of different columns or types.
    """
    root, (files, parquet) = Path(data), tables_in(data)
    if not parquet:
        if staged is None:
            raise InputError("data", f"{data}, which is CSV", "Parquet files here")
        root, files = staged, stage(files, root, encoding, staged)
    try:
        partitioning, base = ("hive", str(root)) if root.is_dir() else (None, None)
        names = [str(file) for file in files]
        dataset = ds.dataset(names, format="parquet", partitioning=partitioning, partition_base_dir=base)
        fragments = sorted(dataset.get_fragments(), key=lambda fragment: fragment.path)
    except _DAMAGE as error:
        raise _which(files, error) from None
    units: list[Unit] = []
    for fragment in fragments:
        units += _units(fragment, fragments[0])
    if not units:
        raise InputError("data", f"{data} with 0 rows", "at least a few hundred rows")
    return DiskTable(Path(data).name.split(".")[0], units, dataset.schema)


def partitions(file: Path, root: Path) -> dict[str, str]:
    """The ``key=value`` folders between the root and the file."""
    inside = file.relative_to(root).parts[:-1] if root.is_dir() else ()
    return {key: value for key, mark, value in (name.partition("=") for name in inside) if mark}


def _units(fragment: Any, first: Any) -> list[Unit]:
    try:
        _same_columns(fragment, first)
        return [
            Unit(f"{fragment.path}, row group {group.row_groups[0].id}", group.row_groups[0].num_rows,
                 group.row_groups[0].total_byte_size, group)
            for group in fragment.split_by_row_group()
            if group.row_groups[0].num_rows
        ]  # fmt: skip
    except _DAMAGE as error:
        raise unreadable(fragment.path, error) from None


def _same_columns(fragment: Any, first: Any) -> None:
    ours, theirs = ({field.name: field.type for field in each.physical_schema} for each in (fragment, first))
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
        except _DAMAGE as damage:
            return unreadable(str(file), damage)
    return unreadable(str(files[0].parent), error)


def unreadable(name: str, error: Exception) -> InputError:
    text = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
    return InputError("data", f"{name}, which cannot be read ({text})", "a whole Parquet file", "Write it again.")


def stage(texts: list[Path], root: Path, encoding: str, folder: Path) -> list[Path]:
    """CSV to Parquet, cells as text; a file appears under its name only when it is complete.

    ``root/year=2024/a.csv`` becomes ``folder/year=2024/a.csv.parquet``: messages name it, and partitions stay columns.
    """
    staged = []
    for path in texts:
        inside = path.relative_to(root) if root.is_dir() else Path(path.name)
        done = folder / inside.with_name(f"{inside.name}.parquet")
        staged.append(done)
        # A copy that is older than the file is of other rows: a run that was started with them will say so.
        if not done.exists() or done.stat().st_mtime_ns < path.stat().st_mtime_ns:
            done.parent.mkdir(parents=True, exist_ok=True)
            _write(path, encoding, done)
    return staged


def _write(path: Path, encoding: str, done: Path) -> None:
    partial, writer = done.with_suffix(".part"), None
    try:
        for table in _grouped(csv_blocks(path, encoding)):
            writer = writer or pq.ParquetWriter(partial, table.schema, compression="zstd", compression_level=1)
            writer.write_table(table, row_group_size=GROUP_ROWS)
        if writer is None:
            raise InputError("data", f"{path} with 0 rows", "at least one row in every file", "Remove the file.")
        writer.close()
        partial.rename(done)
    finally:
        partial.unlink(missing_ok=True)


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
        rows = sum(block.num_rows for block in waiting)
        if rows >= GROUP_ROWS:
            joined = pa.concat_tables(waiting)
            whole = rows - rows % GROUP_ROWS
            yield joined.slice(0, whole)
            waiting = [joined.slice(whole)]
    rest = pa.concat_tables(waiting) if waiting else None
    if rest is not None and rest.num_rows:
        yield rest


def row_hashes(columns: dict[str, Column]) -> NDArray[np.uint64]:
    """64 bits that depend on a row's cells alone, ``(n,)``: not on its place, its file or the machine."""
    total = np.zeros(len(next(iter(columns.values()))), np.uint64)
    high = np.empty_like(total)
    for column in columns.values():
        total += _cell_bits(column)
        total *= np.uint64(0x9E3779B97F4A7C15)
        total ^= np.right_shift(total, np.uint64(29), out=high)
    return total


def _cell_bits(column: Column) -> NDArray[np.uint64]:
    if column.kind != "text":
        return np.asarray(np.ascontiguousarray(column.values).view(np.uint64))
    codes, texts = column.distinct()
    digests = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts]
    return np.array([*digests, 1], np.uint64)[codes]


#: What Python, torch and Arrow take before the first row is read.
BASE = 450 << 20
#: Rows that are held out for each of validation and test, at most.
HELD_OUT = 200_000
#: Training rows the encoder is fitted on; below it the encoder is the one a table in memory gets.
SAMPLE = 100_000
#: Bytes of a row and column while a member learns in memory: its design, as float64, and a solver's copies of that.
_LEARNING = 400
_FEWEST = 1_000


@dataclass(frozen=True)
class Plan:
    """At most: rows held out for validation and as many for test; rows that columns and members are learned from."""

    held: int
    sample: int
    members: int


def plan(table: DiskTable, width: int, memory: int) -> Plan:
    """The plan for units encoded in ``width`` columns. Raises `InputError` for a limit too small for one of them."""
    rows = max(unit.rows for unit in table.units)
    row = max(unit.size / unit.rows for unit in table.units)
    # A unit being read is there as pages, columns and matrix, and the next one before it is gone.
    reading = 2 * int(2 * rows * row + 2 * rows * (4 * width + 8))
    room = memory - BASE - reading
    # Held-out rows and the sample are there as Arrow columns, once more while they are put in order, and as numbers.
    held, sample = 2 * (2 * row + 12 * width + 8), 3 * row + 12 * width
    need = BASE + reading + int(4 * _FEWEST * max(held, sample))
    if memory < need:
        came = f"{memory >> 20} MB for row groups of up to {rows:,} rows"
        remedy = f"Give more memory, or write the files with smaller row groups ({max(1, rows // 4):,} rows)."
        raise InputError("--memory", came, f"at least {-(-need >> 20)} MB", remedy)
    members = int(room / 2 / (_LEARNING * width))
    return Plan(min(HELD_OUT, int(room / 4 / held)), min(SAMPLE, int(room / 4 / sample)), min(SAMPLE, members))
