"""In which order to test thresholds: decided by rows that take no part in the tests.

On the learning rows every candidate has a *power*, how clearly a test of the calibration's size would accept it if
the learning rows told the truth, and an objective. The steps that a path may have are those that no other step beats
in both, with the learning rows as they are and blurred (`rehearsal`); which of them it has is chosen by rehearsal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch
from .binomial import normal_quantile
from .counts import Counts, Levels
from .expressions import Constraint, Expression
from .grid import learning_grid
from .parts import Part, all_parts
from .power import parts_power
from .price import least_goal
from .rehearsal import BLURS, blurred, chosen_steps, rehearse
from .sweep import objective_value, spaced, sweep

#: Steps among which a rehearsal chooses, and how far below zero their power may fall: further on no test has a chance.
MOST_STEPS = 128
LEAST_POWER = -4.0
#: Timid steps offered before those.
TIMID = 12


@dataclass(frozen=True, eq=False)
class Survey:
    """Thresholds over the whole range, for questions about other bounds: ``cuts (steps, k)`` and the learning rows'
    counts there, scaled to the calibration's size, with misplaced rows."""

    cuts: Tensor
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

    cuts: Tensor
    power: Tensor
    goal: Tensor
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


def learned_path(aim: Aim, batch: Batch, codes: Tensor, levels: Levels, per_group: str | None) -> Path | None:
    """The path that these learning rows propose, or None where no threshold comes near the constraints on them."""
    scale = aim.rows / max(batch.scores.numel(), 1)
    raw = learning_grid(batch, codes, levels, per_group)
    parts, critical = aim.parts(levels), normal_quantile(1.0 - aim.alpha / aim.starts)
    if per_group is None and raw.place.shape[0] > 2 * MOST_STEPS:
        power = parts_power(parts, raw.with_misplaced_rows().counts(scale=scale))
        raw = raw.kept(_telling(power, critical))
    goal = objective_value(aim.objective, raw.counts(), aim.sign)
    nothing = float(goal[goal.isfinite()].min())
    # Not in the corner beside a constant answer, where the variance vanishes and with it what the decision is for.
    goal = torch.where(goal >= least_goal(aim.objective, aim.sign, parts, raw.counts()), goal, -math.inf)
    grid, fronts = raw.with_misplaced_rows(), []
    over = spaced((0, goal.numel() - 1), MOST_STEPS)
    survey = Survey(grid.cuts[over], grid.kept(over).counts(scale=scale))
    for blur in BLURS:
        power = parts_power(parts, grid.counts(blurred(grid, blur), scale))
        fronts.append(_front(power, goal))
    kept = torch.cat(fronts).unique()
    if not kept.numel():
        return None
    kept = kept[goal[kept].argsort(stable=True)]
    kept = torch.cat((_timid(goal, float(goal[kept[0]])), kept[spaced((0, kept.numel() - 1), MOST_STEPS)]))
    raw, grid = raw.kept(kept), grid.kept(kept)
    power = parts_power(parts, grid.counts(scale=scale))
    passed, goals = rehearse(grid, parts, aim.objective, aim.sign, aim.rows, critical)
    sequences = chosen_steps(passed, goals, nothing, aim.starts) or ((int(power.argmax()),),)
    return Path(raw.cuts, power, goal[kept], raw.counts(scale=scale), sequences, survey)


def _telling(power: Tensor, critical: float) -> Tensor:
    """Places of neighbouring thresholds, half evenly and half where tests of this size start to fail.

    The second half is spaced evenly in ``asinh(power − critical)``, summed along the thresholds.
    """
    everywhere = spaced((0, power.numel() - 1), MOST_STEPS)
    scale = (power.clamp(LEAST_POWER, 1e3) - critical).asinh()
    length = torch.cat((scale.new_zeros(1), scale.diff().abs().cumsum(0)))
    wanted = torch.linspace(0.0, float(length[-1]), MOST_STEPS, dtype=length.dtype)
    places: Tensor = torch.cat((everywhere, torch.searchsorted(length, wanted).clamp_max(power.numel() - 1))).unique()
    return places


def _timid(goal: Tensor, first: float) -> Tensor:
    """Places of a few steps with less objective than the first: what is left where the learning rows mislead."""
    below = goal.argsort(stable=True)
    below = below[(goal[below] < first) & goal[below].isfinite()]
    wanted = (
        torch.linspace(float(goal[below[0]]), first, TIMID + 2, dtype=goal.dtype)[1:-1] if below.numel() else goal[:0]
    )
    return below[torch.searchsorted(goal[below], wanted).clamp_max(max(below.numel() - 1, 0)).unique()]


def _front(power: Tensor, goal: Tensor) -> Tensor:
    """Places of the steps that no other beats in power and goal."""
    # Among candidates of equal power (no learning row lies between them) the timid ones come first.
    order = goal.argsort(stable=True)
    order = order[power[order].argsort(descending=True, stable=True)]
    best = goal[order].cummax(0).values
    fresh = torch.cat((best.new_ones(1, dtype=torch.bool), best[1:] > best[:-1]))
    possible = (power[order] >= LEAST_POWER) & goal[order].isfinite()
    return order[fresh & possible]


def counts_at(cuts: Tensor, batch: Batch, codes: Tensor, levels: Levels, per_group: str | None) -> Counts:
    """Counts of these rows at every row of cuts ``(steps, k)``: ``(steps, *sizes, 4)``."""
    total = None
    labels: Sequence[float | None] = [None] if per_group is None else list(levels.of(per_group))
    for column, label in enumerate(labels):
        own = None if label is None else batch.groups[str(per_group)].double() == label
        own_cuts, place = cuts[:, column].unique(return_inverse=True)
        table = sweep(batch, codes, levels, own_cuts, own).table[place]
        total = table if total is None else total + table
    assert total is not None
    return Counts(levels, total)
