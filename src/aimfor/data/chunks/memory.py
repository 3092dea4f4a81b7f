"""What fits into ``--memory``: how many rows are held out, and how many columns and members are learned from."""

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
