"""Tests of one inequality ``Σ cⱼ rⱼ + constant >= 0`` on counts, each wrong with probability at most α.

=================================================  =================================================================
the inequality bounds                              test
=================================================  =================================================================
one rate, or one share in disguise                 binomial, exact
a mean of several values of the same rows (costs)  Hoeffding–Bentkus
two rates of disjoint rows (a gap, recall − fpr)   exact unconditional test of a weighted sum (`accepts`)
anything else                                      exact bounds on each rate at its share of α
=================================================  =================================================================

Rates whose denominator moves with the threshold are tested given that denominator, which keeps the level.

Fixed-sequence testing: steps of a path are tested in their order, each sequence up to its first failure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..constraints.counts import Array, Counts, Levels, encode
from ..constraints.expressions import ALL_CELLS, Rate, Terms
from ..constraints.inequalities import Inequality, all_inequalities, disjoint, rows_of
from .binomial import accepts, critical_z, log_tail, lower_bound
from .clusters import Clusters, design_effect, in_clusters
from .rows import Rows
from .task import FEWEST_ROWS, DecisionTask

if TYPE_CHECKING:
    from .path import Path


@dataclass(frozen=True)
class Share:
    """A claim ``share >= bound`` about ``successes`` of ``trials``."""

    successes: float
    trials: float
    bound: float


def tail_probability(share: Share) -> float:
    """P(so many successes or more) where the share is just at its bound: the exact p-value of the claim."""
    k, n, b = round(share.successes), round(share.trials), share.bound
    if b <= 0.0:
        return 0.0
    if k <= 0 or n <= 0 or b >= 1.0:
        return 1.0
    if k <= n * b:  # tails are summed from above their mean
        return 1.0 - math.exp(log_tail(n - k + 1, n, 1.0 - b))
    return min(1.0, math.exp(log_tail(k, n, b)))


def divergence(share: float, bound: float) -> float:
    """Kullback–Leibler divergence of two coins."""
    total = share * math.log(share / bound) if share > 0 else 0.0
    return total + ((1.0 - share) * math.log((1.0 - share) / (1.0 - bound)) if share < 1 else 0.0)


def share_passes(share: Share, alpha: float) -> bool:
    """Whether the exact p-value is at most ``alpha``; Chernoff's bound settles the clear cases without a sum."""
    k, n, b = round(share.successes), round(share.trials), share.bound
    if 0.0 < b < 1.0 and n > 0 and k > n * b and n * divergence(k / n, b) >= -math.log(alpha):
        return True
    if b > 0.0 and k <= n * b:
        return False
    return tail_probability(share) <= alpha


def mean_passes(total: float, trials: float, bound: float, alpha: float) -> bool:
    """``mean >= bound`` for values in [0, 1] with this total: the Hoeffding–Bentkus test.

    The p-value is the smaller of ``exp(−n·KL(mean, bound))`` and ``e·P(Binomial(n, bound) >= floor(total))``.

    References:
        Bates, Angelopoulos, Lei, Malik, Jordan, Distribution-free, risk-controlling prediction sets, 2021.
    """
    if bound <= 0.0:
        return True
    if bound >= 1.0 or trials <= 0 or total / trials <= bound:
        return False
    if trials * divergence(total / trials, bound) >= -math.log(alpha):
        return True
    return math.e * tail_probability(Share(math.floor(total + 1e-9), trials, bound)) <= alpha


def supported(inequality: Inequality, counts: Counts, alpha: float) -> bool:
    """Whether these counts (of one threshold) support the inequality at level ``alpha``."""
    terms = tuple(
        (c * float(rate.trials(counts)), Rate(rate.name, rate.numerator, ALL_CELLS, rate.conditions))
        if rate.is_count  # a bound on a count is one on the share of the rows at hand
        else (c, rate)
        for c, rate in inequality.terms
    )
    if any(float(rate.trials(counts)) <= 0 for _, rate in terms):
        return False
    if len({(rows_of(rate), rate.conditions) for _, rate in terms}) == 1:
        return _mean_claim(terms, inequality.constant, counts, alpha)
    if len(terms) == 2 and disjoint(terms[0][1], terms[1][1]):
        return _contrast_claim(terms, inequality.constant, counts, alpha)
    return _union_claim(terms, inequality.constant, counts, alpha)


def _mean_claim(terms: Terms, constant: float, counts: Counts, alpha: float) -> bool:
    """All rates have the same rows: each row has one value, depending on its cell."""
    rate = terms[0][1]
    cells = counts.cells(rate.conditions)
    values = {cell: sum(c * (cell in term.numerator) for c, term in terms) for cell in rows_of(rate)}
    low, high = min(values.values()), max(values.values())
    if high == low:
        return low + constant >= 0
    trials = sum(float(cells[cell]) for cell in values)
    total = sum((value - low) / (high - low) * float(cells[cell]) for cell, value in values.items())
    bound = (-constant - low) / (high - low)
    if len(set(values.values())) == 2:
        return share_passes(Share(total, trials, _clean(bound)), alpha)
    return mean_passes(total, trials, bound, alpha)


def _clean(bound: float) -> float:
    """Arithmetic on bounds leaves 0.8999999999999999 where 0.9 was meant; a claim is never loosened by more."""
    return round(bound, 12)


def _contrast_claim(terms: Terms, constant: float, counts: Counts, alpha: float) -> bool:
    sides, bound = [], -constant
    for c, rate in terms:
        k, n = float(rate.successes(counts)), float(rate.trials(counts))
        if c < 0:  # the complement has a positive weight
            k, bound = n - k, bound - c
        sides.append((k, n, abs(c)))
    (k1, n1, a1), (k2, n2, a2) = sides
    bound = _clean(bound)
    if bound <= 0.0:
        return True
    if a1 * k1 / n1 + a2 * k2 / n2 <= bound:
        return False
    z = critical_z(round(n1), round(n2), (a1, a2), bound, alpha)
    return math.isfinite(z) and accepts(k1, n1, k2, n2, (a1, a2), bound, z)


def _union_claim(terms: Terms, constant: float, counts: Counts, alpha: float) -> bool:
    total = constant
    for c, rate in terms:
        k, n = float(rate.successes(counts)), float(rate.trials(counts))
        good = lower_bound(k if c > 0 else n - k, n, alpha / len(terms))
        total += c * (good if c > 0 else 1.0 - good)
    return total >= 0


#: A bet that wins 1/α asks for about 2.0 deviations where an exact test asks for 1.64: rows are worth so much less.
BETTING = 0.65


def accepted_steps(
    task: DecisionTask,
    path: Path,
    counts: Counts,
    alpha: float,
    clusters_of: Callable[[Array], Clusters] | None = None,
) -> tuple[int, ...]:
    """Steps that some start's sequence of tests reaches and accepts; by tests that count clusters where there are."""
    inequalities = all_inequalities(task.constraints, counts.levels)

    def passes(step: int, level: float) -> bool:
        if clusters_of is not None:
            clusters = clusters_of(path.thresholds[step])
            return all(clusters.passes(inequality, level) for inequality in inequalities)
        at = Counts(counts.levels, counts.table[step])
        return all(supported(inequality, at, level) for inequality in inequalities)

    accepted: set[int] = set()
    handed_on = 0.0
    for sequence in path.sequences:
        level = alpha / len(path.sequences) + handed_on
        handed_on = level
        for step in sequence:
            if not passes(step, level):
                handed_on = 0.0
                break
            accepted.add(step)
    return tuple(sorted(accepted))


def clusters_at(
    task: DecisionTask, thresholds: Array, calibrate: Rows, learn: Rows, codes: Array, levels: Levels
) -> Clusters:
    """The calibration's clusters decided at these thresholds, beside those of the learning rows."""
    others = None
    if learn.cluster is not None:
        seen, _ = encode(learn.groups, len(learn), levels)
        none = np.zeros((0, *levels.sizes, 4))
        others = in_clusters(learn, _above(task, thresholds, learn, levels), seen, levels, none).tables
    return in_clusters(calibrate, _above(task, thresholds, calibrate, levels), codes, levels, others)


def _above(task: DecisionTask, thresholds: Array, rows: Rows, levels: Levels) -> Array:
    if task.per_group is None:
        return np.asarray(rows.scores > thresholds[0])
    return np.asarray(rows.scores > thresholds[np.searchsorted(levels.of(task.per_group), rows.groups[task.per_group])])


def worth_in_rows(task: DecisionTask, calibrate: Rows, learn: Rows, codes: Array, levels: Levels) -> int:
    """Independent rows that the calibration's clusters are worth: a forecast, which orders the tests and no more."""
    if learn.cluster is None:  # half way from independent rows to copies
        assert calibrate.cluster is not None
        effect = (len(calibrate) / (int(calibrate.cluster.max()) + 1)) ** 0.5
    else:
        thresholds = [float(threshold) for threshold in np.quantile(learn.scores, (0.5, 0.75, 0.9))]
        effect = design_effect(learn, all_inequalities(task.constraints, levels), codes, levels, thresholds)
    return max(int(BETTING * len(calibrate) / max(effect, 1.0)), FEWEST_ROWS)
