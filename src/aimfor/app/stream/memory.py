"""What fits into ``--memory``: how many row groups are mixed, how many rows are held out, and how many a column is
learned from."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from .table import DiskTable

#: What Python, torch and Arrow take before the first row is read.
BASE = 450 << 20
#: Rows that are held out for each of validation and test, at most.
HELD_OUT = 200_000
#: Training rows the encoder is fitted on; below it the encoder is the one a table in memory gets.
SAMPLE = 100_000
#: Rows that are mixed, where memory allows, and units in any case.
MIXED_ROWS, MIXED_UNITS = 1 << 20, 16
_FEWEST = 1_000


#: Row groups that may be read at the same time. More readers are used where there is room, and change nothing else:
#: what is held out and mixed must not depend on them.
_READING = 2


@dataclass(frozen=True)
class Plan:
    """At most: rows held out for validation and as many for test, rows to learn from, units in a window, readers."""

    held: int
    sample: int
    window: int
    readers: int


def plan(table: DiskTable, width: int, memory: int) -> Plan:
    """The plan for units encoded in ``width`` columns. Raises `InputError` for a limit too small for one of them."""
    rows = max(unit.rows for unit in table.units)
    row = max(unit.size / unit.rows for unit in table.units)
    encoded = rows * (4 * width + 8)
    # A unit being read is there as pages, columns and matrix; two windows are held while the next one is read.
    reading = int(2 * rows * row + 2 * encoded)
    room = memory - BASE - _READING * reading
    # Held-out rows and the sample are there as Arrow columns, once more while they are put in order, and as numbers.
    held, sample = 2 * (2 * row + 12 * width + 8), 3 * row + 12 * width
    need = BASE + _READING * reading + 2 * max(3 * encoded, int(2 * _FEWEST * max(held, sample)))
    if memory < need:
        came = f"{memory >> 20} MB for row groups of up to {rows:,} rows"
        remedy = "Write the files with smaller row groups (65,536 rows), or give more memory."
        raise InputError("--memory", came, f"at least {-(-need >> 20)} MB", remedy)
    window = int(min(room // 2 // (3 * encoded), max(MIXED_UNITS, MIXED_ROWS // rows)))
    readers = _READING + (room // 2 - 3 * encoded * window) // reading
    return Plan(min(HELD_OUT, int(room / 4 / held)), min(SAMPLE, int(room / 4 / sample)), window, readers)
