"""What is missing where nothing can be guaranteed: how many more rows, and which bounds these rows do support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..constraints.counts import Counts
from ..constraints.expressions import Constraint, Gap, Rate, Worst
from ..constraints.parts import Part, all_parts, parts_of
from .binomial import normal_quantile
from .exact import Claim
from .grid import MISPLACED
from .path import Path, Survey
from .power import parts_power

#: The chance of success that a forecast of rows aims at.
POWER = 0.9
#: More rows than this many times those at hand are not forecast.
MOST_TIMES = 1000.0
#: Rungs between a bound that means nothing and the one asked for; rungs this far beyond doubt are skipped.
RUNGS = 96
CLEAR = 6.0


@dataclass(frozen=True)
class Shortfall:
    """More calibration rows that would probably do (None: no number would), today's bounds, and both in words.

    ``step`` is the step of the path's survey at which today's bounds hold; None where there are none.
    """

    more: int | None
    today: tuple[str, ...]
    step: int | None
    sentence: str


def shortfall(
    constraints: Sequence[Constraint],
    path: Path,
    counts: Counts,
    surveyed: Counts,
    rows: int,
    alpha: float,
    share: float = 1.0,
    clustered: bool = False,
) -> Shortfall:
    """From the path that was to be tested, and the calibration rows' counts at its steps and at its survey's.

    ``share`` is what part of the labelled rows calibrates: the answer is in labelled rows. Of clusters nothing is said
    about easier bounds, which are tested by rows.
    """
    times = _times(all_parts(constraints, counts.levels), path, counts, alpha)
    given = rows / share
    more = None if times is None else math.ceil(max(times - 1.0, 0.1) * given - 1e-9)
    if more is None:
        needed = "No threshold is clearly inside the bounds, so more rows like these would hardly help."
    else:
        needed = f"About {rounded(more)} more labelled rows like the {round(given)} at hand would be needed."
    if clustered:
        return Shortfall(None, (), None, "Label more clusters; further rows of the same ones count for less.")
    eased, step = supported(constraints, path.survey, surveyed, alpha)
    today = tuple(map(repr, eased))
    possible = f"Today one could guarantee {' and '.join(today)}." if today else "No easier bound holds today either."
    return Shortfall(more, today, step, f"{needed} {possible}")


def _times(parts: Sequence[Part], path: Path, counts: Counts, alpha: float) -> float | None:
    """How many times the rows at hand would do nine times in ten, if both samples together told the truth."""
    pooled = (counts.table + path.counts.table) / 2.0
    misplaced = MISPLACED * np.array([0.0, 1.0, 1.0, 0.0])
    wanted = normal_quantile(1.0 - alpha) + normal_quantile(POWER)
    times = 1.0
    while times <= MOST_TIMES:
        if float(parts_power(parts, Counts(counts.levels, times * pooled + misplaced)).max()) >= wanted:
            return times
        times *= 1.1
    return None


def supported(
    constraints: Sequence[Constraint], survey: Survey, counts: Counts, alpha: float
) -> tuple[tuple[Constraint, ...], int | None]:
    """The hardest bounds that these rows support, and the step of the survey at which they hold.

    A ladder of claims, from bounds that mean nothing to those asked for, each at the step that the learning rows find
    clearest, is tested at ``alpha`` per rung up to the first failure: fixed-sequence testing again. The answer is wrong
    with probability at most ``alpha``, apart from the error of the question that was answered with no threshold.
    Bounds that the learning rows keep clearly somewhere, each by itself, stay as they are.
    """
    levels, critical = counts.levels, normal_quantile(1.0 - alpha)
    alone = [float(parts_power(parts_of(one, levels), survey.counts).max()) for one in constraints]
    hard = [power < critical + normal_quantile(POWER) for power in alone]
    easy = [
        _easy(one, survey.counts) if blamed or not any(hard) else one.bound
        for one, blamed in zip(constraints, hard, strict=True)
    ]
    held: tuple[tuple[Constraint, ...], int | None] = ((), None)
    for rung in range(RUNGS):
        eased = tuple(_eased(one, low, rung / RUNGS) for one, low in zip(constraints, easy, strict=True))
        parts = all_parts(eased, levels)
        power = parts_power(parts, survey.counts)
        if float(power.max()) > critical + CLEAR:  # a rung as good as sure: the ladder starts higher
            continue
        step = int(power.argmax())
        at = Counts(levels, counts.table[step])
        if not all(Claim(part).passes(at, alpha) for part in parts):
            break
        held = (eased, step)
    return held


def _easy(constraint: Constraint, learned: Counts) -> float:
    """A bound that means nothing: 0 or 1 for a share, else what the worst step has on the learning rows."""
    left, floor = constraint.left, constraint.sense == ">="
    if isinstance(left, Gap | Worst) or (isinstance(left, Rate) and not left.is_count):
        return 0.0 if floor else 1.0
    margins = np.min([part.margin(learned) for part in parts_of(constraint, learned.levels)], 0)
    finite = margins[np.isfinite(margins)]
    least = min(float(finite.min()), 0.0) if len(finite) else 0.0
    return constraint.bound + (least if floor else -least)


def _eased(constraint: Constraint, easy: float, share: float) -> Constraint:
    """The bound this share of the way from the easy one, rounded to the safe side of what will be printed."""
    bound = easy + share * (constraint.bound - easy)
    digits = 10.0 ** (3 - max(math.ceil(math.log10(max(abs(constraint.bound), 1e-6))), 0))
    rounded = (math.floor(bound * digits) if constraint.sense == ">=" else math.ceil(bound * digits)) / digits
    return replace(constraint, bound=rounded)


def rounded(rows: int) -> int:
    """Two digits: a forecast has no more."""
    unit: int = 10 ** max(len(str(rows)) - 2, 0)
    return math.ceil(rows / unit) * unit
