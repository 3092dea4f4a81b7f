"""The sweep over thresholds that most exact metrics share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..engine import Batch
from ..ordering import ordered

#: A value this little below a floor meets it, or a best one equals it: sums of weights end in rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Curve:
    """Weighted counts when predicting positive at ``score >= thresholds[i]``, thresholds descending and distinct.

    All float64 of shape ``(t,)``; ``positives`` and ``negatives`` are the totals.
    """

    tp: Tensor
    fp: Tensor
    thresholds: Tensor
    positives: Tensor
    negatives: Tensor


def threshold_curve(batch: Batch) -> Curve:
    """Cumulated true and false positives at each distinct score, highest first (layout "binary")."""
    weights = batch.effective_weights()
    positive = batch.targets.double()
    mass = torch.ones_like(positive) if weights is None else weights.double()
    thresholds, order = ordered(batch.scores.detach(), descending=True)
    weighted = mass[order]
    hit = weighted * positive[order]
    sums = torch.stack((hit, weighted - hit)).cumsum(1)
    if thresholds.numel() > 1:
        last = torch.cat((thresholds[1:] != thresholds[:-1], thresholds.new_ones(1, dtype=torch.bool)))
        sums, thresholds = sums[:, last], thresholds[last]
    totals = sums[:, -1] if thresholds.numel() else sums.new_zeros(2)
    return Curve(sums[0], sums[1], thresholds, totals[0], totals[1])


def roc_points(curve: Curve) -> tuple[Tensor, Tensor]:
    """False and true positive rates from (0, 0) on, ``(t + 1,)`` each; both classes must be there."""
    zero = curve.tp.new_zeros(1)
    return torch.cat((zero, curve.fp)) / curve.negatives, torch.cat((zero, curve.tp)) / curve.positives


def just_below(thresholds: Tensor, position: int, beyond: float = 0.0) -> Tensor:
    """A value t with ``score > t`` for the scores down to ``thresholds[place]`` and no others, in thresholds' dtype.

    It lies halfway to the next threshold, or ``beyond`` below the last.
    """
    chosen = thresholds[position]
    if position + 1 == thresholds.numel():
        return torch.minimum(chosen - beyond, torch.nextafter(chosen, torch.full_like(chosen, -torch.inf)))
    following = thresholds[position + 1]
    middle = (0.5 * chosen.double() + 0.5 * following.double()).to(chosen.dtype)
    return middle if middle < chosen else following  # neighbouring floats have nothing between them


class BestThreshold(NamedTuple):
    """Where to decide: positive where ``score > threshold``.

    Attributes:
        threshold: A scalar in the scores' dtype, or ``(c,)``, one for each class or label.
        value: The metric there, a float64 scalar.
    """

    threshold: Tensor
    value: Tensor


def counted(batch: Batch) -> Batch:
    """Only the entries that count: the scores of the others must not shape a threshold."""
    weights = batch.effective_weights()
    if weights is None:
        return batch
    kept = weights > 0
    return Batch(batch.scores[kept], batch.targets[kept], weights[kept])


def best_on_curve(of_counts: Callable[..., Tensor], batch: Batch) -> BestThreshold | None:
    """The best threshold of a function of (tp, fp, fn, tn) for one row of scores; None where it is undefined.

    One sort; every threshold is looked at, "nothing" and "everything" included. Of equals it is the one in the middle,
    the least likely to be chance.
    """
    curve = threshold_curve(counted(batch))
    tp, fp = (torch.cat((counts.new_zeros(1), counts)) for counts in (curve.tp, curve.fp))
    values = of_counts(tp, fp, curve.positives - tp, curve.negatives - fp)
    best = values.nan_to_num(-torch.inf).max()
    if not best > -torch.inf or (not curve.positives > 0 and best == 0):
        return None
    positions = (values >= best - ROUNDING).nonzero().reshape(-1)
    position = int(positions[len(positions) // 2])
    thresholds = curve.thresholds
    threshold = just_below(thresholds, position - 1, beyond=0.5) if position else thresholds[0] + 0.5
    return BestThreshold(threshold, values[position])


def nan_like(batch: Batch) -> Tensor:
    """The value of an undefined metric."""
    return torch.full((), float("nan"), dtype=torch.float64, device=batch.scores.device)
