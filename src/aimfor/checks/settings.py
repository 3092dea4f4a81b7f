"""Hyperparameters: numbers in their bounds, choices from a closed list."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from ..errors import InputError


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite real number inside the given bounds, as a float."""
    parts = []
    if above is not None:
        parts.append(f"> {above:g}")
    if at_least is not None:
        parts.append(f">= {at_least:g}")
    if below is not None:
        parts.append(f"< {below:g}")
    if at_most is not None:
        parts.append(f"<= {at_most:g}")
    expected = "a finite number" + (" " + " and ".join(parts) if parts else "")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(name, f"{value!r} of type {type(value).__name__}", expected)
    inside = (
        math.isfinite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    )
    if not inside:
        raise InputError(name, repr(value), expected)
    return float(value)


def integer(name: str, value: Any, *, at_least: int | None = None) -> int:
    """A whole number, optionally bounded below."""
    expected = "a whole number" + (f" >= {at_least}" if at_least is not None else "")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, f"{value!r} of type {type(value).__name__}", expected)
    if at_least is not None and value < at_least:
        raise InputError(name, repr(value), expected)
    return value


def one_of(name: str, value: Any, options: Collection[Any]) -> Any:
    """One of a closed list of choices."""
    if value not in options:
        raise InputError(name, repr(value), "one of " + ", ".join(map(repr, options)))
    return value
