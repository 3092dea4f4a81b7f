"""A dress rehearsal on the learning rows: which steps should a sequence of tests have?

A sequence of many small steps stops early by bad luck at one of them; one of few large steps stops short of the bound.
One that starts boldly may accept nothing, one that starts timidly only adds chances to fail. So the
calibration is rehearsed: populations that the learning rows may have come from are drawn (a Poisson bootstrap), from
each a calibration sample of the true size, and steps are added greedily while they raise the mean objective of what
would be accepted. Whatever comes out is a sequence that no calibration row has influenced, which is all the theorem
asks for.

Learning rows may have trained the model, and then their scores are sharper than those of new rows. A part of the
populations is therefore blurred: rows are moved by a normal amount in the logit of their rank, which matters most at
the very top and bottom.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logit, ndtr

from ..constraints.counts import Array
from ..constraints.expressions import Expression
from ..constraints.parts import Part
from .grid import Column, Grid
from .power import parts_power
from .sweep import objective_value

#: Standard deviations of the blur; each has the same share of the rehearsals.
BLURS = (0.0, 0.25, 0.5)
#: Rehearsals of each blur, steps of a sequence, and the relative gain that a further step has to bring.
REHEARSALS = 32
MOST_TESTS = 48
LEAST_GAIN = 2e-4


def rehearse(
    grid: Grid, parts: Sequence[Part], objective: Expression, sign: float, rows: int, critical: float
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
        passed.append(parts_power(parts, grid.counts(drawn)) >= critical)
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
    place = np.arange(steps)
    # Worth of the last step that is accepted; column 0 stands for none.
    padded = np.concatenate((np.full_like(base, nothing), worth), 1)
    last, failed = np.zeros((count, 1), dtype=np.int64), np.full((count, 1), steps)
    before = np.zeros(steps, dtype=np.int64)
    sequence: list[int] = []
    mean = float(base.mean())
    while len(sequence) < MOST_TESTS:
        # A step behind the first failure is never tested; one before it moves the answer on, or ends it there.
        inserted = np.where(passed, np.maximum(last, place + 1), before)
        inserted = np.where(place > failed, last, inserted)
        values = np.maximum(np.take_along_axis(padded, inserted, 1), base)
        means = values.mean(0)
        best = int((means >= means.max() - 1e-12).argmax())  # the first of equals, whatever the rounding
        if float(means[best]) <= mean + LEAST_GAIN * max(mean - nothing, 1e-12):
            break
        mean = float(means[best])
        last = inserted[:, best : best + 1]
        failed = np.where(passed[:, best : best + 1], failed, np.minimum(failed, best))
        sequence = sorted([*sequence, best])
        before = np.array([0, *(step + 1 for step in sequence)])[np.searchsorted(sequence, place)]
    return tuple(sequence), np.maximum(np.take_along_axis(padded, last, 1), base)
