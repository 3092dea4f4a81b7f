"""In which order to test thresholds: decided by rows that take no part in the tests.

On the learning rows every candidate has a *power*, how clearly a test of the calibration's size would accept it if
the learning rows told the truth, and an objective. The steps that a path may have are those that no other step beats
in both, with the learning rows as they are and blurred (`blurred`); which of them it has is chosen by rehearsal.

The choice is a dress rehearsal. A sequence of many small steps stops early by bad luck at one of them; one of few
large steps stops short of the bound. One that starts boldly may accept nothing, one that starts timidly only adds
chances to fail. So populations that the learning rows may have come from are drawn (a Poisson bootstrap), from each a
calibration sample of the true size, and steps are added greedily while they raise the mean objective of what would be
accepted. Whatever comes out is a sequence that no calibration row has influenced, which is all the theorem asks for.

Learning rows may have trained the model, and then their scores are sharper than those of new rows. A part of the
populations is therefore blurred: rows are moved by a normal amount in the logit of their rank, which matters most at
the very top and bottom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logit, ndtr

from ..constraints.counts import Array, Counts, Levels
from ..constraints.expressions import Constraint, Expression
from ..constraints.inequalities import Inequality, all_inequalities
from .binomial import normal_quantile
from .price import joint_power, least_goal
from .rows import Rows
from .sweep import Column, Grid, evenly, learning_grid, objective_value, spaced, sweep

#: Steps among which a rehearsal chooses, and how far below zero their power may fall: further on no test has a chance.
MOST_STEPS = 128
LEAST_POWER = -4.0
#: Timid steps offered before those.
TIMID = 12


@dataclass(frozen=True, eq=False)
class Survey:
    """Thresholds ``(steps, k)`` over the whole range, for questions about other bounds, and the learning rows' counts
    there, scaled to the calibration's size, with misplaced rows."""

    thresholds: Array
    counts: Counts


@dataclass(frozen=True, eq=False)
class Path:
    """Thresholds in the order in which they will be tested.

    Attributes:
        thresholds: ``(steps, k)``: one column, or one for each label of the attribute with thresholds of its own.
        power: ``(steps,)``, in standard deviations of a test of the calibration's size, as the learning rows have it.
        goal: ``(steps,)``, rising: the objective on the learning rows, negated where it is minimised.
        counts: Of the learning rows at each step, scaled to the calibration's size.
        sequences: Steps of each start, in the order of their tests.
        survey: Thresholds over the whole range.
    """

    thresholds: Array
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

    def inequalities(self, levels: Levels) -> list[Inequality]:
        return all_inequalities(self.constraints, levels)


def learned_path(aim: Aim, batch: Rows, codes: Array, levels: Levels, per_group: str | None) -> Path | None:
    """The path that these learning rows propose, or None where no threshold comes near the constraints on them."""
    scale = aim.rows / max(len(batch), 1)
    raw = learning_grid(batch, codes, levels, per_group)
    inequalities, critical = aim.inequalities(levels), normal_quantile(1.0 - aim.alpha / aim.starts)
    if per_group is None and raw.index.shape[0] > 2 * MOST_STEPS:
        power = joint_power(inequalities, raw.with_misplaced_rows().counts(scale=scale))
        raw = raw.kept(_telling(power, critical))
    goal = objective_value(aim.objective, raw.counts(), aim.sign)
    nothing = float(goal[np.isfinite(goal)].min())
    # Not in the corner beside a constant answer, where the variance vanishes and with it what the decision is for.
    goal = np.where(goal >= least_goal(aim.objective, aim.sign, inequalities, raw.counts()), goal, -math.inf)
    grid, fronts = raw.with_misplaced_rows(), []
    over = spaced((0, len(goal) - 1), MOST_STEPS)
    survey = Survey(grid.thresholds[over], grid.kept(over).counts(scale=scale))
    for blur in BLURS:
        power = joint_power(inequalities, grid.counts(blurred(grid, blur), scale))
        fronts.append(_front(power, goal))
    kept = np.unique(np.concatenate(fronts))
    if not len(kept):
        return None
    kept = kept[goal[kept].argsort(kind="stable")]
    kept = np.concatenate((_timid(goal, float(goal[kept[0]])), kept[spaced((0, len(kept) - 1), MOST_STEPS)]))
    raw, grid = raw.kept(kept), grid.kept(kept)
    power = joint_power(inequalities, grid.counts(scale=scale))
    passed, goals = rehearse(grid, inequalities, aim.objective, aim.sign, aim.rows, critical)
    sequences = chosen_steps(passed, goals, nothing, aim.starts) or ((int(power.argmax()),),)
    return Path(raw.thresholds, power, goal[kept], raw.counts(scale=scale), sequences, survey)


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


def counts_at(thresholds: Array, batch: Rows, codes: Array, levels: Levels, per_group: str | None) -> Counts:
    """Counts of these rows at every row of thresholds ``(steps, k)``: ``(steps, *sizes, 4)``."""
    total = None
    labels: Sequence[float | None] = [None] if per_group is None else list(levels.of(per_group))
    for column, label in enumerate(labels):
        own = None if label is None else batch.groups[str(per_group)] == label
        different, index = np.unique(thresholds[:, column], return_inverse=True)
        table = sweep(batch, codes, levels, different, own).table[index]
        total = table if total is None else total + table
    assert total is not None
    return Counts(levels, total)


#: Standard deviations of the blur; each has the same share of the rehearsals.
BLURS = (0.0, 0.25, 0.5)
#: Rehearsals of each blur, steps of a sequence, and the relative gain that a further step has to bring.
REHEARSALS = 32
MOST_TESTS = 48
LEAST_GAIN = 2e-4


def rehearse(
    grid: Grid, inequalities: Sequence[Inequality], objective: Expression, sign: float, rows: int, critical: float
) -> tuple[Array, Array]:
    """Which steps pass in each rehearsal, and the objective's true value there, both ``(rehearsals, steps)``."""
    rng = np.random.default_rng(0)
    passed, goals = [], []
    for blur in BLURS:
        truths = []
        for column in grid.columns:
            shape = (REHEARSALS, *column.mass.shape)
            truths.append(_move(column, rng.poisson(column.mass, shape).astype(np.float64), blur))
        total = np.maximum(np.sum([truth.reshape(REHEARSALS, -1).sum(1) for truth in truths], 0), 1.0)
        scales = [(rows / total).reshape(-1, *[1] * (truth.ndim - 1)) for truth in truths]
        # Rounded, or the last bit of a mean would decide over all later draws, on one machine and not on another.
        means = [np.round(truth * scale, 9) for truth, scale in zip(truths, scales, strict=True)]
        drawn = [rng.poisson(mean).astype(np.float64) for mean in means]
        passed.append(joint_power(inequalities, grid.counts(drawn)) >= critical)
        goals.append(objective_value(objective, grid.counts(truths), sign))
    return np.concatenate(passed), np.concatenate(goals)


def blurred(grid: Grid, blur: float) -> list[Array]:
    """The learning rows of every column, blurred."""
    return [_move(column, column.mass, blur) for column in grid.columns]


def _move(column: Column, mass: Array, blur: float) -> Array:
    """Rows ``(*lead, bins, *sizes, 2)`` moved between the column's bins by a normal amount in the logit of the rank."""
    if blur == 0.0 or not column.mass.any():  # a group without learning rows stays empty
        return mass
    by_bin = column.mass.reshape(len(column.mass), -1).sum(1)
    below = by_bin.cumsum(0)
    share, middle = below[:-1] / below[-1], (below - 0.5 * by_bin) / below[-1]
    distance = (_logit(share)[None] - _logit(middle)[:, None]) / blur
    cumulative = ndtr(distance)
    ends = np.zeros((len(cumulative), 1))
    kernel = np.diff(np.concatenate((ends, cumulative, ends + 1.0), 1), axis=1)
    axis = mass.ndim - column.mass.ndim
    moved = np.tensordot(np.moveaxis(mass, axis, -1), kernel, 1)
    return np.ascontiguousarray(np.moveaxis(moved, -1, axis))


def _logit(share: Array) -> Array:
    return np.asarray(logit(np.clip(share, 1e-9, 1.0 - 1e-9)))


def chosen_steps(passed: Array, goals: Array, nothing: float, starts: int) -> tuple[tuple[int, ...], ...]:
    """Sequences of steps, ascending, that raise the mean objective of the best step accepted; none where none would.

    Args:
        passed: ``(rehearsals, steps)`` bool.
        goals: The same shape; what a step is worth where it is accepted.
        nothing: What it is worth to accept none.
        starts: Sequences; each one is chosen for what the earlier ones do not reach.
    """
    worth = np.maximum(np.where(np.isfinite(goals), goals, nothing), nothing)
    base = np.full((len(worth), 1), nothing)
    sequences = []
    for _ in range(starts):
        sequence, base = _greedy(passed, worth, base, nothing)
        if sequence:
            sequences.append((*_free(passed, sequence[0]), *sequence))
    return tuple(sequences)


def _free(passed: Array, first: int) -> tuple[int, ...]:
    """Steps before the first that cost nothing: none of them failed in a rehearsal in which the first passed.

    They gain nothing either, if the learning rows are right. If not, and the first fails, something is left.
    """
    lost = (~passed[:, :first] & passed[:, first : first + 1]).any(0)
    return tuple(np.flatnonzero(~lost).tolist())


def _greedy(passed: Array, worth: Array, base: Array, nothing: float) -> tuple[tuple[int, ...], Array]:
    """One sequence, step by step; and what each rehearsal has with it, ``(rehearsals, 1)``, where it had ``base``."""
    count, steps = passed.shape
    steps_at = np.arange(steps)
    # Worth of the last step that is accepted; column 0 stands for none.
    padded = np.concatenate((np.full_like(base, nothing), worth), 1)
    last, failed = np.zeros((count, 1), dtype=np.int64), np.full((count, 1), steps)
    before = np.zeros(steps, dtype=np.int64)
    sequence: list[int] = []
    mean = float(base.mean())
    while len(sequence) < MOST_TESTS:
        # A step behind the first failure is never tested; one before it moves the answer on, or ends it there.
        inserted = np.where(passed, np.maximum(last, steps_at + 1), before)
        inserted = np.where(steps_at > failed, last, inserted)
        values = np.maximum(np.take_along_axis(padded, inserted, 1), base)
        means = values.mean(0)
        best = int((means >= means.max() - 1e-12).argmax())  # the first of equals, whatever the rounding
        if float(means[best]) <= mean + LEAST_GAIN * max(mean - nothing, 1e-12):
            break
        mean = float(means[best])
        last = inserted[:, best : best + 1]
        failed = np.where(passed[:, best : best + 1], failed, np.minimum(failed, best))
        sequence = sorted([*sequence, best])
        before = np.array([0, *(step + 1 for step in sequence)])[np.searchsorted(sequence, steps_at)]
    return tuple(sequence), np.maximum(np.take_along_axis(padded, last, 1), base)
