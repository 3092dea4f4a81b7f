"""In which order to test thresholds: decided by rows that take no part in the tests.

On the learning rows every candidate has a *power*, how clearly a test of the calibration's size would accept it if
the learning rows told the truth, and an objective. The steps that a path may have are those that no other step beats
in both, with the learning rows as they are and blurred (`rehearsal`); which of them it has is chosen by rehearsal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import Array, Counts, Levels
from ..constraints.expressions import Constraint, Expression
from ..constraints.parts import Part, all_parts
from .binomial import normal_quantile
from .grid import learning_grid
from .power import parts_power
from .price import least_goal
from .rehearsal import BLURS, blurred, chosen_steps, rehearse
from .rows import Rows
from .sweep import evenly, objective_value, spaced, sweep

#: Steps among which a rehearsal chooses, and how far below zero their power may fall: further on no test has a chance.
MOST_STEPS = 128
LEAST_POWER = -4.0
#: Timid steps offered before those.
TIMID = 12


@dataclass(frozen=True, eq=False)
class Survey:
    """Thresholds over the whole range, for questions about other bounds: ``cuts (steps, k)`` and the learning rows'
    counts there, scaled to the calibration's size, with misplaced rows."""

    cuts: Array
    counts: Counts


@dataclass(frozen=True, eq=False)
class Path:
    """Thresholds in the order in which they will be tested.

    Attributes:
        cuts: ``(steps, k)``: one column, or one for each label of the attribute with thresholds of its own.
        power: ``(steps,)``, in standard deviations of a test of the calibration's size, as the learning rows have it.
        goal: ``(steps,)``, rising: the objective on the learning rows, negated where it is minimised.
        counts: Of the learning rows at each step, scaled to the calibration's size.
        sequences: Steps of each start, in the order of their tests.
        survey: Thresholds over the whole range.
    """

    cuts: Array
    power: Array
    goal: Array
    counts: Counts
    sequences: tuple[tuple[int, ...], ...]
    survey: Survey


@dataclass(frozen=True)
class Aim:
    """What a path is for: the problem, how many rows will test it, at which error, from how many starts."""

    sign: float
    objective: Expression
    constraints: tuple[Constraint, ...]
    rows: int
    alpha: float
    starts: int = 1

    def parts(self, levels: Levels) -> list[Part]:
        return all_parts(self.constraints, levels)


def learned_path(aim: Aim, batch: Rows, codes: Array, levels: Levels, per_group: str | None) -> Path | None:
    """The path that these learning rows propose, or None where no threshold comes near the constraints on them."""
    scale = aim.rows / max(len(batch), 1)
    raw = learning_grid(batch, codes, levels, per_group)
    parts, critical = aim.parts(levels), normal_quantile(1.0 - aim.alpha / aim.starts)
    if per_group is None and raw.place.shape[0] > 2 * MOST_STEPS:
        power = parts_power(parts, raw.with_misplaced_rows().counts(scale=scale))
        raw = raw.kept(_telling(power, critical))
    goal = objective_value(aim.objective, raw.counts(), aim.sign)
    nothing = float(goal[np.isfinite(goal)].min())
    # Not in the corner beside a constant answer, where the variance vanishes and with it what the decision is for.
    goal = np.where(goal >= least_goal(aim.objective, aim.sign, parts, raw.counts()), goal, -math.inf)
    grid, fronts = raw.with_misplaced_rows(), []
    over = spaced((0, len(goal) - 1), MOST_STEPS)
    survey = Survey(grid.cuts[over], grid.kept(over).counts(scale=scale))
    for blur in BLURS:
        power = parts_power(parts, grid.counts(blurred(grid, blur), scale))
        fronts.append(_front(power, goal))
    kept = np.unique(np.concatenate(fronts))
    if not len(kept):
        return None
    kept = kept[goal[kept].argsort(kind="stable")]
    kept = np.concatenate((_timid(goal, float(goal[kept[0]])), kept[spaced((0, len(kept) - 1), MOST_STEPS)]))
    raw, grid = raw.kept(kept), grid.kept(kept)
    power = parts_power(parts, grid.counts(scale=scale))
    passed, goals = rehearse(grid, parts, aim.objective, aim.sign, aim.rows, critical)
    sequences = chosen_steps(passed, goals, nothing, aim.starts) or ((int(power.argmax()),),)
    return Path(raw.cuts, power, goal[kept], raw.counts(scale=scale), sequences, survey)


def _telling(power: Array, critical: float) -> Array:
    """Places of neighbouring thresholds, half evenly and half where tests of this size start to fail.

    The second half is spaced evenly in ``asinh(power − critical)``, summed along the thresholds.
    """
    everywhere = spaced((0, len(power) - 1), MOST_STEPS)
    scale = np.arcsinh(np.clip(power, LEAST_POWER, 1e3) - critical)
    length = np.concatenate(([0.0], np.abs(np.diff(scale)).cumsum()))
    wanted = evenly(0.0, float(length[-1]), MOST_STEPS)
    return np.unique(np.concatenate((everywhere, np.minimum(np.searchsorted(length, wanted), len(power) - 1))))


def _timid(goal: Array, first: float) -> Array:
    """Places of a few steps with less objective than the first: what is left where the learning rows mislead."""
    below = goal.argsort(kind="stable")
    below = below[(goal[below] < first) & np.isfinite(goal[below])]
    if not len(below):
        return below
    wanted = evenly(float(goal[below[0]]), first, TIMID + 2)[1:-1]
    return np.asarray(below[np.unique(np.minimum(np.searchsorted(goal[below], wanted), len(below) - 1))])


def _front(power: Array, goal: Array) -> Array:
    """Places of the steps that no other beats in power and goal."""
    # Among candidates of equal power (no learning row lies between them) the timid ones come first.
    order = np.lexsort((goal, -power))
    best = np.maximum.accumulate(goal[order])
    fresh = np.concatenate(([True], best[1:] > best[:-1]))
    possible = (power[order] >= LEAST_POWER) & np.isfinite(goal[order])
    return order[fresh & possible]


def counts_at(cuts: Array, batch: Rows, codes: Array, levels: Levels, per_group: str | None) -> Counts:
    """Counts of these rows at every row of cuts ``(steps, k)``: ``(steps, *sizes, 4)``."""
    total = None
    labels: Sequence[float | None] = [None] if per_group is None else list(levels.of(per_group))
    for column, label in enumerate(labels):
        own = None if label is None else batch.groups[str(per_group)] == label
        own_cuts, place = np.unique(cuts[:, column], return_inverse=True)
        table = sweep(batch, codes, levels, own_cuts, own).table[place]
        total = table if total is None else total + table
    assert total is not None
    return Counts(levels, total)
