"""Bounds that the left side of a constraint can reach; others are refused as they are written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..checks import number
from ..errors import InputError

if TYPE_CHECKING:
    from .expressions import LinearSum, Rate


def bound_of(rate: Rate, sense: str, bound: Any) -> float:
    name = f"bound of {rate!r} {sense}"
    if not rate.is_count and isinstance(bound, int | float) and 1.0 < bound <= 100.0:
        remedy = f"Write {bound / 100:g}, or {bound:g}% in words."
        raise InputError(name, f"{bound:g}", "a share between 0 and 1", remedy)
    return number(name, bound, at_least=0) if rate.is_count else number(name, bound, at_least=0, at_most=1)


def check_reachable(left: LinearSum, sense: str, bound: float) -> None:
    """Refuses what no values of the rates in [0, 1] can satisfy."""
    if any(rate.is_count for _, rate in left.terms):
        return
    highest = sum(c for c, _ in left.terms if c > 0)
    lowest = sum(c for c, _ in left.terms if c < 0)
    if (sense == ">=" and bound > highest) or (sense == "<=" and bound < lowest):
        raise InputError(
            "constraint",
            f"{left!r} {sense} {bound:g}",
            f"a bound that the left side can reach; it lies in [{lowest:g}, {highest:g}]",
        )
