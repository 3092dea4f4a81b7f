"""An objective without constraints, such as a cost: other rows choose the threshold, these rows bound what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..constraints.counts import Counts
from ..constraints.expressions import Constraint
from .asked import DecisionTask, coded
from .binomial import lower_bound
from .bounds import bounds, plain_value, sense_of
from .certificate import certify
from .decision import Decision, Guarantee
from .exact import clusters_at
from .path import counts_at
from .price import Price, constant_counts, nearly_constant
from .rows import Rows
from .sweep import learning_grid, objective_value


def best_alone(task: DecisionTask, learning: Sequence[tuple[Rows, Rows]]) -> Decision:
    """The threshold that is best on the learning rows, with a bound on its objective: that bound is the promise.

    With several pairs each has its share of the error, and the best bound is taken.
    """
    alpha = (1.0 - task.confidence) / len(learning)
    found = [_bounded(task, learn, calibrate, alpha) for learn, calibrate in learning]
    return max(found, key=lambda one: one[0])[1]


def _bounded(task: DecisionTask, learn: Rows, calibrate: Rows, alpha: float) -> tuple[float, Decision]:
    codes, learn_codes, levels = coded(task, learn, calibrate)
    grid = learning_grid(learn, learn_codes, levels, task.per_group)
    place = int(objective_value(task.objective, grid.counts(), task.sign).argmax())
    cuts = grid.cuts[place : place + 1]
    at = Counts(levels, counts_at(cuts, calibrate, codes, levels, task.per_group).table[0])
    clusters = None
    if calibrate.cluster is not None:
        clusters = clusters_at(task, cuts[0], calibrate, learn, codes, levels)
    low, high = bounds(task.objective, sense_of(task.direction), at, alpha, clusters or lower_bound)
    bound = _outwards(low if task.sign > 0 else high, task.sign)
    promise = Constraint(task.objective, sense_of(task.direction), bound)
    certificate = certify(task.objective, (promise,), at, 1.0 - alpha, direction=task.direction, accepted=True,
                          lower=clusters or lower_bound)  # fmt: skip
    value = plain_value(task.objective, at, sense_of(task.direction))
    nobody, everybody = (task.sign * objective_value(task.objective, constant_counts(at), task.sign)).tolist()
    nearly, share = nearly_constant(at)
    beside = {"nobody": nobody, "everybody": everybody}
    better = task.sign * max(task.sign * nobody, task.sign * everybody)
    price = Price(value, value, beside.get(nearly, better) if math.isfinite(better) else None, nearly, None)
    rows = f"{len(calibrate)} independent calibration rows" if clusters is None else (
        f"{len(clusters.tables)} independent clusters ({len(calibrate)} rows)")  # fmt: skip
    sentence = (
        f"{price.warning(repr(task.objective), share)}{promise!r}: guaranteed at {100 * task.confidence:g}% confidence "
        f"by {rows}, at the threshold that is best on {len(learn)} others. It is {value:.4g} on these rows, "
        f"{nobody:.4g} for nobody and {everybody:.4g} for everybody."
    )
    own = [float(cut) for cut in cuts[0]]
    guarantee = Guarantee(task.confidence, repr(promise), len(calibrate), len(learn), 1, sentence, price=price)
    by_label = {} if task.per_group is None else dict(zip(levels.of(task.per_group), own, strict=True))
    decision = Decision(float(np.mean(own)), task.per_group, by_label, True, "guarantee", certificate, guarantee)
    return task.sign * bound, decision


def _outwards(bound: float, sign: float) -> float:
    """Four digits, on the safe side."""
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - 3) if bound else 1.0
    return (math.floor(bound / unit) if sign > 0 else math.ceil(bound / unit)) * unit
