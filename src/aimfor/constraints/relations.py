"""What examples a rate is measured on, and whether two rates can share one."""

from __future__ import annotations

from .expressions import ALL_CELLS, Rate


def rows_of(rate: Rate) -> tuple[int, ...]:
    """Cells of the examples that a rate is measured on; all of them for a count."""
    return tuple(sorted(rate.denominator or ALL_CELLS))


def disjoint(one: Rate, other: Rate) -> bool:
    """Whether no example can be in both denominators."""
    apart = any(a == b and x != y for a, x in one.conditions for b, y in other.conditions)
    return apart or not set(rows_of(one)) & set(rows_of(other))
