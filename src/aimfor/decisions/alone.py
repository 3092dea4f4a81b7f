"""An objective without constraints, such as a cost: other rows choose the threshold, these rows bound what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..constraints.counts import Counts, empty_levels, encode
from ..constraints.expressions import Constraint
from .asked import Wish, check_rows
from .binomial import lower_bound
from .bounds import bounds, plain_value, sense_of
from .certificate import certify
from .decision import Decision, Guarantee
from .grid import learning_grid
from .path import counts_at
from .price import Price, constant_counts, nearly_constant
from .rows import Rows
from .sequence import clusters_at
from .sweep import objective_value


def best_alone(wish: Wish, learning: Sequence[tuple[Rows, Rows]]) -> Decision:
    """The threshold that is best on the learning rows, with a bound on its objective: that bound is the promise.

    With several pairs each has its share of the error, and the best bound is taken.
    """
    alpha = (1.0 - wish.confidence) / len(learning)
    found = [_bounded(wish, learn, calibrate, alpha) for learn, calibrate in learning]
    return max(found, key=lambda one: one[0])[1]


def _bounded(wish: Wish, learn: Rows, calibrate: Rows, alpha: float) -> tuple[float, Decision]:
    names = tuple(sorted({*wish.attributes, *([wish.per_group] if wish.per_group else [])}))
    codes, levels = encode(calibrate.groups, len(calibrate), empty_levels(names))
    learn_codes, seen = encode(learn.groups, len(learn), levels)
    check_rows(wish, calibrate, learn, levels, seen)
    grid = learning_grid(learn, learn_codes, levels, wish.per_group)
    place = int(objective_value(wish.objective, grid.counts(), wish.sign).argmax())
    cuts = grid.cuts[place : place + 1]
    at = Counts(levels, counts_at(cuts, calibrate, codes, levels, wish.per_group).table[0])
    clusters = None
    if calibrate.cluster is not None:
        clusters = clusters_at(wish, cuts[0], calibrate, learn, codes, levels)
    low, high = bounds(wish.objective, sense_of(wish.direction), at, alpha, clusters or lower_bound)
    bound = _outwards(low if wish.sign > 0 else high, wish.sign)
    promise = Constraint(wish.objective, sense_of(wish.direction), bound)
    certificate = certify(wish.objective, (promise,), at, 1.0 - alpha, direction=wish.direction, accepted=True,
                          lower=clusters or lower_bound)  # fmt: skip
    value = plain_value(wish.objective, at, sense_of(wish.direction))
    nobody, everybody = (wish.sign * objective_value(wish.objective, constant_counts(at), wish.sign)).tolist()
    nearly, share = nearly_constant(at)
    beside = {"nobody": nobody, "everybody": everybody}
    better = wish.sign * max(wish.sign * nobody, wish.sign * everybody)
    price = Price(value, value, beside.get(nearly, better) if math.isfinite(better) else None, nearly, None)
    rows = f"{len(calibrate)} independent calibration rows" if clusters is None else (
        f"{len(clusters.tables)} independent clusters ({len(calibrate)} rows)")  # fmt: skip
    sentence = (
        f"{price.warning(repr(wish.objective), share)}{promise!r}: guaranteed at {100 * wish.confidence:g}% confidence "
        f"by {rows}, at the threshold that is best on {len(learn)} others. It is {value:.4g} on these rows, "
        f"{nobody:.4g} for nobody and {everybody:.4g} for everybody."
    )
    own = [float(cut) for cut in cuts[0]]
    guarantee = Guarantee(wish.confidence, repr(promise), len(calibrate), len(learn), 1, sentence, price=price)
    by_label = {} if wish.per_group is None else dict(zip(levels.of(wish.per_group), own, strict=True))
    decision = Decision(float(np.mean(own)), wish.per_group, by_label, True, "guarantee", certificate, guarantee)
    return wish.sign * bound, decision


def _outwards(bound: float, sign: float) -> float:
    """Four digits, on the safe side."""
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - 3) if bound else 1.0
    return (math.floor(bound / unit) if sign > 0 else math.ceil(bound / unit)) * unit
