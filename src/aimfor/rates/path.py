"""In which order to test thresholds: decided by rows that take no part in the tests.

On the learning rows every candidate has a *power*, how clearly a test of the calibration's size would accept it if
the learning rows told the truth, and an objective. The path starts at the most power and gives it up only for a
better objective: the Pareto front of the two, from safe to bold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..engine import Batch
from .counts import Counts, Levels
from .expressions import Constraint, Expression, Rate, rows_of
from .parts import Part, parts_of
from .sweep import candidates, objective_value, outer_sum, spaced, sweep

#: Steps of a path, and how far below zero its power may fall: further on no test has a chance.
MOST_STEPS = 256
LEAST_POWER = -4.0
#: Combinations of thresholds when groups have their own.
MOST_COMBINATIONS = 20_000


@dataclass(frozen=True, eq=False)
class Path:
    """Thresholds in the order in which they will be tested.

    Attributes:
        cuts: ``(steps, k)``: one column, or one for each label of the attribute with thresholds of its own.
        power: ``(steps,)``, falling; in standard deviations of a test of the calibration's size.
        goal: ``(steps,)``, rising: the objective on the learning rows, negated where it is minimised.
        counts: Of the learning rows at each step, scaled to the calibration's size.
    """

    cuts: Tensor
    power: Tensor
    goal: Tensor
    counts: Counts


def learned_path(
    sign: float,
    objective: Expression,
    constraints: Sequence[Constraint],
    batch: Batch,
    codes: Tensor,
    levels: Levels,
    rows: int,
    per_group: str | None,
    critical: float,
) -> Path:
    """The path that these learning rows propose for a calibration of ``rows`` rows; ``critical``: z of one test."""
    cuts, tables = _grid(batch, codes, levels, per_group)
    counts = Counts(levels, tables * (rows / max(batch.scores.numel(), 1)))
    shrink = rows / max(batch.scores.numel(), 1)
    parts = [part for constraint in constraints for part in parts_of(constraint, levels)]
    goal = objective_value(objective, counts, sign)
    power = torch.full_like(goal, math.inf)
    for part in parts:
        power = torch.minimum(power, part_power(part, counts, shrink))
    kept = _front(power, goal, critical)
    return Path(cuts[kept], power[kept], goal[kept], Counts(levels, counts.table[kept]))


def part_power(part: Part, counts: Counts, pseudo: float) -> Tensor:
    """Signed root of twice the log-likelihood ratio against the bound (one rate), or margin over its deviation.

    ``pseudo`` examples that lie on the bound are added, so that two lucky rows at the top are not taken for power.
    """
    (coefficient, rate), *others = part.terms
    if not others and not rate.is_count:
        k, n = rate.successes(counts), rate.trials(counts)
        k = k if coefficient > 0 else n - k
        bound = -part.constant / coefficient if coefficient > 0 else 1.0 + part.constant / coefficient
        bound = min(max(bound, 1e-9), 1.0 - 1e-9)
        share = (k + pseudo * bound) / (n + pseudo)
        distance = torch.special.xlogy(share, share / bound)
        distance = distance + torch.special.xlogy(1.0 - share, (1.0 - share) / (1.0 - bound))
        size: Tensor = (2.0 * (n + pseudo) * distance.clamp_min(0.0)).sqrt()
        return torch.sign(share - bound) * size
    margin, variance = part.margin(counts), torch.zeros_like(counts.cells()[..., 0])
    for c, one in part.terms:
        unit = one.trials(counts) if one.is_count else 1.0
        of_rows = Rate(one.name, one.numerator, rows_of(one), one.conditions)
        k, n = of_rows.successes(counts), of_rows.trials(counts)
        smooth = (k + pseudo / 2.0) / (n + pseudo)
        variance = variance + (c * unit) ** 2 * smooth * (1.0 - smooth) / n.clamp_min(1e-9)
    power = margin / variance.clamp_min(1e-18).sqrt()
    return torch.where(power.isnan(), torch.full_like(power, -math.inf), power)


def _grid(batch: Batch, codes: Tensor, levels: Levels, per_group: str | None) -> tuple[Tensor, Tensor]:
    """All candidates as rows of cuts, and the learning rows' counts at each."""
    if per_group is None:
        thresholds = candidates(batch.scores, batch.targets)
        return thresholds[:, None], sweep(batch, codes, levels, thresholds).table
    labels = levels.of(per_group)
    points = max(4, int(MOST_COMBINATIONS ** (1.0 / len(labels))))
    columns, tables = [], []
    for label in labels:
        own = batch.groups[per_group].double() == label
        cuts = candidates(batch.scores[own], batch.targets[own], 4 * points)
        cuts = cuts[spaced((0, cuts.numel() - 1), points)]
        columns.append(cuts)
        tables.append(sweep(batch, codes, levels, cuts, own).table)
    return torch.cartesian_prod(*columns).reshape(-1, len(labels)), outer_sum(tables)


def _front(power: Tensor, goal: Tensor, critical: float) -> Tensor:
    """Positions of the Pareto front, most power first, thinned where steps are many.

    Steps are spaced evenly in ``asinh(power − critical)``: fine around the place where tests start to fail.
    """
    # Among candidates of equal power (no learning row lies between them) the timid ones come first.
    order = goal.argsort(stable=True)
    order = order[power[order].argsort(descending=True, stable=True)]
    best = goal[order].cummax(0).values
    fresh = torch.cat((best.new_ones(1, dtype=torch.bool), best[1:] > best[:-1]))
    possible = (power[order] >= LEAST_POWER) & goal[order].isfinite()
    kept = order[fresh & possible]
    if kept.numel() <= MOST_STEPS:
        return kept
    scale = -(power[kept] - critical).asinh()
    wanted = torch.linspace(float(scale[0]), float(scale[-1]), MOST_STEPS, dtype=scale.dtype)
    return kept[torch.searchsorted(scale, wanted).clamp_max(kept.numel() - 1).unique()]


def path_counts(path: Path, batch: Batch, codes: Tensor, levels: Levels, per_group: str | None) -> Counts:
    """Counts of these rows at every step of the path, ``(steps, *sizes, 4)``."""
    total = None
    labels: Sequence[float | None] = [None] if per_group is None else list(levels.of(per_group))
    for column, label in enumerate(labels):
        own = None if label is None else batch.groups[str(per_group)].double() == label
        cuts, place = path.cuts[:, column].unique(return_inverse=True)
        table = sweep(batch, codes, levels, cuts, own).table[place]
        total = table if total is None else total + table
    assert total is not None
    return Counts(levels, total)
