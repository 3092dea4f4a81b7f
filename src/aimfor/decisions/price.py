"""What a promise costs: the objective kept with it, without it, and for the constant answers "nobody", "everybody".

Where nothing can be guaranteed, what is missing: how many more rows, and which bounds these rows do support.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..constraints.counts import FN, FP, TN, TP, Array, Counts
from ..constraints.expressions import Constraint, Expression, Gap, Rate, Worst
from ..constraints.inequalities import Inequality, all_inequalities, inequalities_of, rows_of
from .binomial import normal_quantile, tail_deviate
from .exact import supported
from .sweep import MISPLACED, objective_value

if TYPE_CHECKING:
    from .path import Path, Survey

#: A decision for fewer rows than this share of the positives is nearly "nobody"; likewise of the negatives left out.
NEARLY = 0.1
#: More labels than this many times those at hand are not forecast.
MOST_TIMES = 1000.0


@dataclass(frozen=True)
class Price:
    """The objective on the calibration rows, as the user states it.

    Attributes:
        kept: At the guaranteed threshold.
        without: At the best threshold that keeps the bounds on these rows, with no guarantee.
        constant: Of the better constant answer, or None where neither is measured.
        nearly: "nobody" or "everybody" where the decision is nearly that, else "".
        labels: About how many more labelled rows halve the distance between ``kept`` and ``without``.
    """

    kept: float
    without: float
    constant: float | None
    nearly: str
    labels: int | None

    def sentence(self, objective: str) -> str:
        words = f"{objective} is {self.kept:.4g} with the promise and {self.without:.4g} without it"
        if self.kept == self.without:
            return words + "."
        if self.labels is None:
            return words + "; more labels would hardly bring them closer."
        return words + f"; about {self.labels} more labelled rows would halve the difference."

    def warning(self, objective: str, share: float) -> str:
        """Said first where a decision is nearly constant."""
        if not self.nearly:
            return ""
        beside = "" if self.constant is None else f"{self.constant:.4g} for {self.nearly}, "
        return (
            f"Nearly {self.nearly}: {share:.1%} of the rows are decided positive. {objective} is {self.kept:.4g}, "
            f"{beside}{self.without:.4g} without the promise. "
        )


def constant_counts(counts: Counts) -> Counts:
    """Two tables, ``(2, *sizes, 4)``: the same rows with nobody decided positive, and with everybody."""
    table = counts.table.reshape(-1, *counts.table.shape[-len(counts.levels.sizes) - 1 :])[0]
    positive, negative = table[..., TP] + table[..., FN], table[..., FP] + table[..., TN]
    none = np.zeros_like(positive)
    nobody, everybody = (none, none, positive, negative), (positive, negative, none, none)
    return Counts(counts.levels, np.stack([np.stack(cells, -1) for cells in (nobody, everybody)]))


def kept_bounds(inequalities: Sequence[Inequality], counts: Counts) -> Array:
    """Whether every bound is kept, by the counts as they are; ``(*lead,)``."""
    return np.asarray(np.all([inequality.margin(counts) >= 0.0 for inequality in inequalities], 0))


def least_goal(objective: Expression, sign: float, inequalities: Sequence[Inequality], counts: Counts) -> float:
    """Half way from the best constant answer that keeps the bounds to the best threshold that does; −inf without one.

    A constant answer keeps a gap or a ceiling with no variance at all, so that a sequence of tests in search of power
    would start beside it. That needs rates of exactly 0 or 1: the precision of everybody is as uncertain as any other,
    and that of nobody has no value.
    """
    constant = constant_counts(counts)
    rates = np.stack([rate.ratio(constant) for inequality in inequalities for _, rate in inequality.terms])
    certain = ((rates == 0.0) | (rates == 1.0)).all(0)
    safe = objective_value(objective, constant, sign)[kept_bounds(inequalities, constant) & certain]
    safe = safe[np.isfinite(safe)]
    goal = objective_value(objective, counts, sign)[kept_bounds(inequalities, counts)]
    if not len(safe) or not goal.size:
        return -math.inf
    return 0.5 * (float(safe.max()) + max(float(goal.max()), float(safe.max())))


def nearly_constant(at: Counts) -> tuple[str, float]:
    """Which constant answer a decision nearly is, or "", and the share of rows that it decides positive."""
    tp, fp, fn, tn = at.cells().tolist()
    share = (tp + fp) / max(tp + fp + fn + tn, 1.0)
    if tp + fp <= NEARLY * (tp + fn):
        return "nobody", share
    return ("everybody" if fn + tn <= NEARLY * (fp + tn) else ""), share


def halving(
    inequalities: Sequence[Inequality], counts: Counts, goal: Array, kept: float, without: float, critical: float
) -> float | None:
    """How many times the rows at hand it takes until a threshold half way to ``without`` is accepted on average."""
    good = goal >= 0.5 * (kept + without)
    times = 1.1  # the rows at hand were not enough
    while times <= MOST_TIMES and bool(good.any()):
        if bool((joint_power(inequalities, Counts(counts.levels, times * counts.table))[good] >= critical).any()):
            return times
        times *= 1.1
    return None


def joint_power(inequalities: Sequence[Inequality], counts: Counts) -> Array:
    """The least power of all parts: together they are accepted where it exceeds the critical z; ``(*lead,)``."""
    return np.asarray(np.min([single_power(inequality, counts) for inequality in inequalities], 0))


def single_power(inequality: Inequality, counts: Counts) -> Array:
    """The deviate of the exact test's p-value (one rate), or the margin over its deviation; counts may be fractions."""
    (coefficient, rate), *others = inequality.terms
    if not others and not rate.is_count:
        k, n = rate.successes(counts), rate.trials(counts)
        k = k if coefficient > 0 else n - k
        bound = -inequality.constant / coefficient if coefficient > 0 else 1.0 + inequality.constant / coefficient
        return tail_deviate(k, n, min(max(bound, 1e-9), 1.0 - 1e-9))
    margin, variance = inequality.margin(counts), np.zeros_like(counts.cells()[..., 0])
    for c, rate in inequality.terms:
        unit = rate.trials(counts) if rate.is_count else 1.0
        of_rows = Rate(rate.name, rate.numerator, rows_of(rate), rate.conditions)
        k, n = of_rows.successes(counts), of_rows.trials(counts)
        smooth = (k + 1.0) / (n + 2.0)  # no share of a sample is known without error
        variance = variance + (c * unit) ** 2 * smooth * (1.0 - smooth) / np.maximum(n, 1e-9)
    power = margin / np.sqrt(np.maximum(variance, 1e-18))
    return np.where(np.isnan(power), -math.inf, power)


#: The chance of success that a forecast of rows aims at.
POWER = 0.9
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
    times = _times(all_inequalities(constraints, counts.levels), path, counts, alpha)
    given = rows / share
    more = None if times is None else math.ceil(max(times - 1.0, 0.1) * given - 1e-9)
    if more is None:
        needed = "No threshold is clearly inside the bounds, so more rows like these would hardly help."
    else:
        needed = f"About {rounded(more)} more labelled rows like the {round(given)} at hand would be needed."
    if clustered:
        return Shortfall(None, (), None, "Label more clusters; further rows of the same ones count for less.")
    eased, step = hardest(constraints, path.survey, surveyed, alpha)
    today = tuple(map(repr, eased))
    possible = f"Today one could guarantee {' and '.join(today)}." if today else "No easier bound holds today either."
    return Shortfall(more, today, step, f"{needed} {possible}")


def _times(inequalities: Sequence[Inequality], path: Path, counts: Counts, alpha: float) -> float | None:
    """How many times the rows at hand would do nine times in ten, if both samples together told the truth."""
    pooled = (counts.table + path.counts.table) / 2.0
    misplaced = MISPLACED * np.array([0.0, 1.0, 1.0, 0.0])
    wanted = normal_quantile(1.0 - alpha) + normal_quantile(POWER)
    times = 1.0
    while times <= MOST_TIMES:
        if float(joint_power(inequalities, Counts(counts.levels, times * pooled + misplaced)).max()) >= wanted:
            return times
        times *= 1.1
    return None


def hardest(
    constraints: Sequence[Constraint], survey: Survey, counts: Counts, alpha: float
) -> tuple[tuple[Constraint, ...], int | None]:
    """The hardest bounds that these rows support, and the step of the survey at which they hold.

    A ladder of claims, from bounds that mean nothing to those asked for, each at the step that the learning rows find
    clearest, is tested at ``alpha`` per rung up to the first failure: fixed-sequence testing again. The answer is wrong
    with probability at most ``alpha``, apart from the error of the question that was answered with no threshold.
    Bounds that the learning rows keep clearly somewhere, each by itself, stay as they are.
    """
    levels, critical = counts.levels, normal_quantile(1.0 - alpha)
    powers = [
        float(joint_power(inequalities_of(constraint, levels), survey.counts).max()) for constraint in constraints
    ]
    hard = [power < critical + normal_quantile(POWER) for power in powers]
    easy = [
        _easy(constraint, survey.counts) if blamed or not any(hard) else constraint.bound
        for constraint, blamed in zip(constraints, hard, strict=True)
    ]
    held: tuple[tuple[Constraint, ...], int | None] = ((), None)
    for rung in range(RUNGS):
        eased = tuple(_eased(constraint, low, rung / RUNGS) for constraint, low in zip(constraints, easy, strict=True))
        inequalities = all_inequalities(eased, levels)
        power = joint_power(inequalities, survey.counts)
        if float(power.max()) > critical + CLEAR:  # a rung as good as sure: the ladder starts higher
            continue
        step = int(power.argmax())
        at = Counts(levels, counts.table[step])
        if not all(supported(inequality, at, alpha) for inequality in inequalities):
            break
        held = (eased, step)
    return held


def _easy(constraint: Constraint, learning: Counts) -> float:
    """A bound that means nothing: 0 or 1 for a share, else what the worst step has on the learning rows."""
    left, floor = constraint.left, constraint.sense == ">="
    if isinstance(left, Gap | Worst) or (isinstance(left, Rate) and not left.is_count):
        return 0.0 if floor else 1.0
    margins = np.min([inequality.margin(learning) for inequality in inequalities_of(constraint, learning.levels)], 0)
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
