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

import torch
from torch import Tensor

from .expressions import Expression
from .grid import Column, Grid
from .parts import Part
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
) -> tuple[Tensor, Tensor]:
    """Which steps pass in each rehearsal, and the objective's true value there, both ``(rehearsals, steps)``."""
    generator = torch.Generator().manual_seed(0)
    passed, goals = [], []
    for blur in BLURS:
        truths = []
        for column in grid.columns:
            shape = (REHEARSALS, *column.mass.shape)
            truths.append(_move(column, torch.poisson(column.mass.expand(shape), generator=generator), blur))
        total = sum(truth.flatten(1).sum(1) for truth in truths).clamp_min(1.0)  # type: ignore[union-attr]
        scales = [(rows / total).reshape(-1, *[1] * (truth.ndim - 1)) for truth in truths]
        drawn = [torch.poisson(truth * scale, generator=generator) for truth, scale in zip(truths, scales, strict=True)]
        passed.append(parts_power(parts, grid.counts(drawn)) >= critical)
        goals.append(objective_value(objective, grid.counts(truths), sign))
    return torch.cat(passed), torch.cat(goals)


def blurred(grid: Grid, blur: float) -> list[Tensor]:
    """The learning rows of every column, blurred."""
    return [_move(column, column.mass, blur) for column in grid.columns]


def _move(column: Column, mass: Tensor, blur: float) -> Tensor:
    """Rows ``(*lead, bins, *sizes, 2)`` moved between the column's bins by a normal amount in the logit of the rank."""
    if blur == 0.0:
        return mass
    by_bin = column.mass.flatten(1).sum(1)
    below = by_bin.cumsum(0)
    share, middle = below[:-1] / below[-1], (below - 0.5 * by_bin) / below[-1]
    distance = (share.logit(1e-9)[None] - middle.logit(1e-9)[:, None]) / blur
    cumulative = torch.special.ndtr(distance)
    ends = cumulative.new_zeros(cumulative.shape[0], 1)
    kernel = torch.cat((ends, cumulative, ends + 1.0), 1).diff(dim=1)
    axis = mass.ndim - column.mass.ndim
    moved: Tensor = torch.tensordot(mass.movedim(axis, -1), kernel, 1)
    return moved.movedim(-1, axis).contiguous()


def chosen_steps(passed: Tensor, goals: Tensor, nothing: float, starts: int) -> tuple[tuple[int, ...], ...]:
    """Sequences of steps, ascending, that raise the mean objective of the best step accepted; none where none would.

    Args:
        passed: ``(rehearsals, steps)`` bool.
        goals: The same shape; what a step is worth where it is accepted.
        nothing: What it is worth to accept none.
        starts: Sequences; each one is chosen for what the earlier ones do not reach.
    """
    worth = torch.where(goals.isfinite(), goals, nothing).clamp_min(nothing)
    base = torch.full_like(worth[:, :1], nothing)
    sequences = []
    for _ in range(starts):
        sequence, base = _greedy(passed, worth, base, nothing)
        if sequence:
            sequences.append((*_free(passed, sequence[0]), *sequence))
    return tuple(sequences)


def _free(passed: Tensor, first: int) -> tuple[int, ...]:
    """Steps before the first that cost nothing: none of them failed in a rehearsal in which the first passed.

    They gain nothing either, if the learning rows are right. If not, and the first fails, something is left.
    """
    lost = (~passed[:, :first] & passed[:, first : first + 1]).any(0)
    return tuple((~lost).nonzero()[:, 0].tolist())


def _greedy(passed: Tensor, worth: Tensor, base: Tensor, nothing: float) -> tuple[tuple[int, ...], Tensor]:
    """One sequence, step by step; and what each rehearsal has with it, ``(rehearsals, 1)``, where it had ``base``."""
    count, steps = passed.shape
    place = torch.arange(steps)
    # Worth of the last step that is accepted; column 0 stands for none.
    padded = torch.cat((torch.full_like(base, nothing), worth), 1)
    last, failed = torch.zeros(count, 1, dtype=torch.long), torch.full((count, 1), steps)
    before = torch.zeros(steps, dtype=torch.long)
    sequence: list[int] = []
    mean = float(base.mean())
    while len(sequence) < MOST_TESTS:
        # A step behind the first failure is never tested; one before it moves the answer on, or ends it there.
        inserted = torch.where(passed, torch.maximum(last, place + 1), before)
        inserted = torch.where(place > failed, last, inserted)
        values = torch.maximum(padded.gather(1, inserted), base)
        means = values.mean(0)
        best = int(means.argmax())
        if float(means[best]) <= mean + LEAST_GAIN * max(mean - nothing, 1e-12):
            break
        mean = float(means[best])
        last = inserted[:, best : best + 1]
        failed = torch.where(passed[:, best : best + 1], failed, failed.clamp_max(best))
        sequence = sorted([*sequence, best])
        before = torch.searchsorted(torch.tensor(sequence), place)
        before = torch.cat((before.new_zeros(1), torch.tensor(sequence) + 1))[before]
    return tuple(sequence), torch.maximum(padded.gather(1, last), base)
