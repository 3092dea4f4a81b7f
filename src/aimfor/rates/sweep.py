"""Counts at many thresholds at once, by one search: what every choice of a threshold starts from.

One rule everywhere: an example is predicted positive where ``score > threshold``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..engine import Batch
from ..errors import InputError
from .counts import FN, FP, TN, TP, Counts, Levels
from .expressions import Expression, Sum, Worst
from .prices import objective_members

#: Candidate thresholds in a sweep.
MOST_CANDIDATES = 4096
#: Combinations of thresholds when groups have their own.
MOST_COMBINATIONS = 20_000


def candidates(scores: Tensor, targets: Tensor, most: int = MOST_CANDIDATES) -> Tensor:
    """Cuts halfway between neighbouring scores and beyond both ends, ascending float64.

    When there are many, half are spaced evenly by rank among the positives and half among all examples: a rare class
    sits in a small corner of the scores, and that is where its thresholds have to be told apart.
    """
    distinct = scores.double().unique()
    if distinct.numel() == 0:
        return torch.zeros(1, dtype=torch.float64)
    cuts = torch.cat((distinct[:1] - 1.0, 0.5 * (distinct[1:] + distinct[:-1]), distinct[-1:] + 1.0))
    if cuts.numel() <= most:
        return cuts
    places = spaced((0, cuts.numel() - 1), most // 2)
    positive = scores.double()[targets].sort().values
    if positive.numel():
        chosen = positive[spaced((0, positive.numel() - 1), most // 2)]
        places = torch.cat((places, torch.searchsorted(distinct, chosen))).unique()
    return cuts[places]


def histogram(batch: Batch, codes: Tensor, levels: Levels, thresholds: Tensor, mask: Tensor | None = None) -> Tensor:
    """Examples between neighbouring thresholds (ascending), ``(t + 1, *sizes, 2)``; the last axis is the class."""
    scores, targets = batch.scores.double().contiguous(), batch.targets.long()
    if mask is not None:
        scores, codes, targets = scores[mask], codes[mask], targets[mask]
    passed_cuts = torch.searchsorted(thresholds, scores)  # how many cuts lie strictly below the score
    size = 2 * levels.combinations
    flat = passed_cuts * size + codes * 2 + targets
    mass = torch.bincount(flat, minlength=(thresholds.numel() + 1) * size).double()
    return mass.reshape(-1, *levels.sizes, 2)


def tables(mass: Tensor, levels: Levels) -> Tensor:
    """The four cells at each threshold, ``(*lead, t, *sizes, 4)``, from ``(*lead, t + 1, *sizes, 2)`` between them."""
    axis = mass.ndim - len(levels.sizes) - 2
    above = mass.flip(axis).cumsum(axis).flip(axis)
    passed, total = above.narrow(axis, 1, above.shape[axis] - 1), above.narrow(axis, 0, 1)
    missed = total - passed
    cells = [passed[..., 1], passed[..., 0], missed[..., 1], missed[..., 0]]
    assert (TP, FP, FN, TN) == (0, 1, 2, 3)
    return torch.stack(cells, -1)


def sweep(batch: Batch, codes: Tensor, levels: Levels, thresholds: Tensor, mask: Tensor | None = None) -> Counts:
    """Counts at each threshold (ascending), ``(t, *sizes, 4)``; only of the masked examples where a mask is given."""
    return Counts(levels, tables(histogram(batch, codes, levels, thresholds, mask), levels))


def objective_value(objective: Expression, counts: Counts, sign: float) -> Tensor:
    """``sign · objective`` for each leading entry; −inf where it cannot be measured."""
    if isinstance(objective, Sum):
        goal = sign * objective.value(counts)
    else:
        assert isinstance(objective, Worst)
        values: Tensor = torch.stack([sign * rate.value(counts) for rate in objective_members(objective, counts)])
        goal = torch.where(values.isnan(), torch.full_like(values, math.inf), values).amin(0)
    return torch.where(goal.isnan(), torch.full_like(goal, -math.inf), goal)


def points_each(labels: int) -> int:
    """Thresholds to try for each of so many labels, in all combinations: at least four."""
    points = max(4, int(MOST_COMBINATIONS ** (1.0 / labels)))
    if points**labels > 64 * MOST_COMBINATIONS:
        raise InputError("per_group", f"{labels} labels", "at most 10 labels with thresholds of their own")
    return points


def spaced(span: tuple[int, int], points: int) -> Tensor:
    """At most so many whole numbers from the first to the last, evenly spaced."""
    low, high = span
    places: Tensor = torch.linspace(low, high, min(points, high - low + 1), dtype=torch.float64).round().long()
    return places[torch.cat((places.new_ones(1, dtype=torch.bool), places[1:] != places[:-1]))]


def outer_sum(tables: Sequence[Tensor]) -> Tensor:
    """Sums over all combinations of one row of each table, flattened; later tables vary fastest."""
    total = tables[0]
    for table in tables[1:]:
        total = (total[:, None] + table[None]).flatten(0, 1)
    return total
