"""Confidence bounds on the true value of an expression, from a table of counts.

Every rate is a binomial share (precision: given the predicted positives), so its bounds are Clopper–Pearson's, exact
for independent examples that took no part in training or in the choice of the threshold. A weighted sum of two rates
of disjoint examples, such as a difference between groups, has an exact bound of its own (`binomial`); any other sum of
K rates takes each at 1/K of the error (union bound). The largest of several gaps is bounded by the largest bound, which
costs nothing extra: only the pair that attains it has to be covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..constraints.counts import Counts
from ..constraints.expressions import Expression, Gap, LinearSum, Rate, Sum, Worst, as_linear
from ..constraints.parts import disjoint, rates_by_group
from .binomial import contrast_lower, lower_bound, wilson_bound
from .clusters import Clusters

#: A lower confidence bound from (successes, trials, alpha); or clusters, which bound a rate themselves.
Lower = Callable[[float, float, float], float] | Clusters


def plain_value(left: Expression, counts: Counts, sense: str = ">=") -> float:
    """Value of any expression as a float; a gap or a worst group over the groups that can be measured."""
    if isinstance(left, Sum):
        return float(left.value(counts))
    assert isinstance(left, (Gap, Worst))
    values = [float(rate.value(counts)) for rate in rates_by_group(left, counts.levels)]
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return math.nan
    if isinstance(left, Gap):
        return max(values) - min(values)
    return min(values) if sense == ">=" else max(values)


def sense_of(direction: str) -> str:
    """How an objective would be bounded: from below where it is maximised, from above where it is minimised."""
    return ">=" if direction == "maximize" else "<="


def bounds(
    left: Expression, sense: str, counts: Counts, alpha: float, lower: Lower = lower_bound
) -> tuple[float, float]:
    """Confidence bounds on the true left side, each wrong with probability at most ``alpha``."""
    if isinstance(left, Sum):
        return _sum_bounds(left, counts, alpha, lower)
    assert isinstance(left, (Gap, Worst))
    members = rates_by_group(left, counts.levels)
    if not members:
        return 0.0, 1.0
    # The bound that a verdict "met" rests on only has to cover the one pair or group that attains the extreme;
    # the other side has to hold for all of them at once.
    if isinstance(left, Gap):
        missed = [_rate_bounds(rate, counts, alpha / (2 * len(members)), lower) for rate in members]
        low = max(a[0] - b[1] for a in missed for b in missed)
        if not _has_contrast(lower):
            met = [_rate_bounds(rate, counts, alpha / 2, lower) for rate in members]
            return max(low, 0.0), max((a[1] - b[0] for a in met for b in met if a is not b), default=0.0)
        return max(low, 0.0), _gap_upper([b - a for a in members for b in members if a is not b], counts, alpha, lower)
    one = [_rate_bounds(rate, counts, alpha, lower) for rate in members]
    all_ = [_rate_bounds(rate, counts, alpha / len(members), lower) for rate in members]
    if sense == ">=":
        return min(b[0] for b in one), min(b[1] for b in all_)
    return max(b[0] for b in all_), max(b[1] for b in one)


def _gap_upper(negated: Sequence[LinearSum], counts: Counts, alpha: float, lower: Lower) -> float:
    """Upper bound on the largest difference, from its negatives; pairs that cannot be the largest are passed over."""
    rough = {id(pair): -_contrast(pair, counts, alpha / 2, wilson_bound) for pair in negated}
    highest = 0.0
    for pair in sorted(negated, key=lambda one: -rough[id(one)]):
        if highest == 0.0 or rough[id(pair)] > highest:
            highest = max(highest, -_contrast(pair, counts, alpha, lower))
    return highest


def _sum_bounds(left: Sum, counts: Counts, alpha: float, lower: Lower) -> tuple[float, float]:
    """Each end wrong with probability at most ``alpha``."""
    if _has_contrast(lower) and len(left.terms) == 2 and disjoint(*(rate for _, rate in left.terms)):
        low, negated = (_contrast(side, counts, alpha, lower) for side in (as_linear(left), -left))
        return low, -negated
    low = high = left.constant
    for coefficient, rate in left.terms:
        ends = [coefficient * end for end in _rate_bounds(rate, counts, alpha / len(left.terms), lower)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _has_contrast(lower: Lower) -> bool:
    """Whether a bound of this kind exists for two rates together; others are for one rate at a time."""
    return lower in (lower_bound, wilson_bound)


def _contrast(left: LinearSum, counts: Counts, alpha: float, lower: Lower) -> float:
    """Lower bound on a weighted sum of two rates of disjoint examples; a negative weight turns a rate over."""
    sides, constant = [], left.constant
    for coefficient, rate in left.terms:
        k, n = float(rate.successes(counts)), float(rate.trials(counts))
        weight = coefficient * (n if rate.is_count else 1.0)
        if weight < 0:
            k, constant = n - k, constant + weight
        sides.append((k, n, abs(weight)))
    (k1, n1, a1), (k2, n2, a2) = sides
    return constant + contrast_lower(k1, n1, k2, n2, (a1, a2), alpha, exact=lower is lower_bound)


def _rate_bounds(rate: Rate, counts: Counts, alpha: float, lower: Lower) -> tuple[float, float]:
    if isinstance(lower, Clusters):
        return lower.bounds(rate, alpha)
    successes, trials = float(rate.successes(counts)), float(rate.trials(counts))
    unit = trials if rate.is_count else 1.0
    return unit * lower(successes, trials, alpha), unit * (1.0 - lower(trials - successes, trials, alpha))


def rates_of(left: Expression, counts: Counts) -> list[Rate]:
    return [rate for _, rate in left.terms] if isinstance(left, Sum) else rates_by_group(left, counts.levels)  # type: ignore[arg-type]
