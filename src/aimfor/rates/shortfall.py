"""What is missing where nothing can be guaranteed: how many more rows, and which bounds could be promised today."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .binomial import normal_quantile
from .certificate import bounds
from .counts import Counts
from .expressions import Constraint
from .parts import parts_of
from .path import part_power

#: The chance of success that a forecast of rows aims at.
POWER = 0.9
#: More rows than this many times those at hand are not forecast.
MOST_TIMES = 1000.0


@dataclass(frozen=True)
class Shortfall:
    """More calibration rows that would probably do (None: no number would), today's bounds, and both in words."""

    more: int | None
    today: tuple[str, ...]
    sentence: str


def shortfall(constraints: Sequence[Constraint], start: Counts, learned: Counts, rows: int, alpha: float) -> Shortfall:
    """From the counts at the first threshold of the path, on the calibration rows and as the learning rows had them.

    The first threshold does not depend on the calibration rows, so bounds on its rates are valid as they stand.
    """
    today = tuple(_today(constraint, start, alpha / len(constraints)) for constraint in constraints)
    pooled = Counts(start.levels, (start.table + learned.table) / 2.0)
    parts = [part for constraint in constraints for part in parts_of(constraint, start.levels)]
    power = min(float(part_power(part, pooled, 1.0)) for part in parts)
    wanted = normal_quantile(1.0 - alpha) + normal_quantile(POWER)
    times = (wanted / power) ** 2 if power > 0 else math.inf
    more = max(math.ceil((times - 1.0) * rows), math.ceil(0.1 * rows)) if times <= MOST_TIMES else None
    if more is None:
        rows_needed = "No threshold is clearly inside the bounds, so more rows like these would hardly help."
    else:
        rows_needed = f"About {_round(more)} more labelled rows like the {rows} at hand would be needed."
    return Shortfall(more, today, f"{rows_needed} Today one could guarantee {' and '.join(today)}.")


def _today(constraint: Constraint, counts: Counts, alpha: float) -> str:
    """The bound that these counts support, rounded to the safe side."""
    low, high = bounds(constraint.left, constraint.sense, counts, alpha)
    safe = math.floor(low * 1e4) / 1e4 if constraint.sense == ">=" else math.ceil(high * 1e4) / 1e4
    return f"{constraint.left!r} {constraint.sense} {safe:.4g}"


def _round(rows: int) -> int:
    """Two digits: a forecast has no more."""
    unit: int = 10 ** max(len(str(rows)) - 2, 0)
    return math.ceil(rows / unit) * unit
