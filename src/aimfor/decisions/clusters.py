"""Rows that come in clusters (patients, customers, documents): bounds that count clusters, valid for any number.

New rows come as new clusters, so what is promised are ratios of expected cluster sums: precision is E[Σ tp] / E[Σ pp]
over clusters. A claim ``Σ cⱼ rⱼ + k >= 0`` about rates of the same rows says that the sum X of one value per row has a
mean of at least 0 over clusters. With at most M rows that count in a cluster and values of at least −d, X is never
below −d·M. A gambler who bets ``0 <= λ < 1/(d·M)`` on X then keeps a capital ``Π (1 + λᵢ Xᵢ)`` that is never negative,
and grows no faster than a fair game where the mean is not above 0, whatever the distribution: it ever reaches 1/α with
a probability of at most α (Ville). λᵢ follows from the clusters before it, ``√(2 log(1/α) / (m σ²))``, the best for m
clusters of variance σ². Rates of different rows (gaps) take a bound each, at their share of α. M is twice the largest
number among other (learning) clusters, or the largest one here, and no more than the largest cluster has rows: the
promise is for clusters within it, and names it.

References:
    Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import Array, Counts, Levels
from ..constraints.expressions import ALL_CELLS, Rate, Terms
from ..constraints.parts import Part
from ..constraints.relations import rows_of
from .rows import Rows

#: A bet never risks more than this share of what it may.
BOLDEST = 0.9
#: Clusters that the first guess of the variance counts for.
PRIOR = 4.0
#: Halvings of the search for a bound.
HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Clusters:
    """Tables of counts ``(m, *sizes, 4)``, one for each cluster in a random order; and those of other clusters."""

    levels: Levels
    tables: Array
    others: Array | None = None

    def largest(self, rate: Rate) -> float:
        """The most rows of a cluster that a rate is measured on: twice that of other clusters, or that of these."""
        here, whole = self._most(self.tables, rate)
        if self.others is None or not len(self.others):
            return here
        there, other = self._most(self.others, rate)
        return min(max(here, 2.0 * there), max(whole, other))

    def _most(self, tables: Array, rate: Rate) -> tuple[float, float]:
        """The most rows of a cluster that count, and the most rows of a cluster."""
        counted = Counts(self.levels, tables).cells(rate.conditions)[:, list(rows_of(rate))].sum(1)
        return float(counted.max()), float(tables.reshape(len(tables), -1).sum(1).max())

    def cells(self, rate: Rate) -> Array:
        """``(m, 4)``."""
        return Counts(self.levels, self.tables).cells(rate.conditions)

    def passes(self, part: Part, alpha: float) -> bool:
        """Whether these clusters support the inequality at level ``alpha``."""
        terms = tuple(self._as_share(c, rate) for c, rate in part.terms)
        if any(float(self.cells(rate)[:, list(rows_of(rate))].sum()) <= 0 for _, rate in terms):
            return False
        if len({(rows_of(rate), rate.conditions) for _, rate in terms}) == 1:
            return self._mean_passes(terms, part.constant, alpha)
        total = part.constant
        for c, rate in terms:
            low, high = self.bounds(rate, alpha / len(terms))
            total += c * (low if c > 0 else high)
        return total >= 0

    def bounds(self, rate: Rate, alpha: float) -> tuple[float, float]:
        """Bounds on one rate, each wrong with probability at most ``alpha``; of a count, for as many rows."""
        _, share = self._as_share(1.0, rate)
        cells = self.cells(share)
        hits = cells[:, list(share.numerator)].sum(1)
        trials = cells[:, list(rows_of(share))].sum(1)
        unit = float(trials.sum()) if rate.is_count else 1.0
        most = self.largest(share)
        low, high = (_lower(one, trials, most, alpha) for one in (hits, trials - hits))
        return unit * low, unit * (1.0 - high)

    def _as_share(self, coefficient: float, rate: Rate) -> tuple[float, Rate]:
        """Counts as shares of the rows at hand."""
        if not rate.is_count:
            return coefficient, rate
        rows = float(self.cells(rate).sum())
        return coefficient * rows, Rate(rate.name, rate.numerator, ALL_CELLS, rate.conditions)

    def _mean_passes(self, terms: Terms, constant: float, alpha: float) -> bool:
        rate = terms[0][1]
        values = {cell: sum(c * (cell in one.numerator) for c, one in terms) + constant for cell in rows_of(rate)}
        cells, worst = self.cells(rate), min(values.values())
        if worst >= 0.0:
            return True
        sums = sum((value * cells[:, cell] for cell, value in values.items()), np.zeros(len(cells)))
        return reaches(sums, -worst * self.largest(rate), alpha)


def _lower(hits: Array, trials: Array, most: float, alpha: float) -> float:
    """The largest share that is beaten, by bisection: capital falls as the share rises."""
    low, high = 0.0, float(hits.sum() / trials.sum()) if trials.sum() > 0 else 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        beaten = middle > 0 and reaches(hits - middle * trials, middle * most, alpha)
        low, high = (middle, high) if beaten else (low, middle)
    return low


def reaches(sums: Array, depth: float, alpha: float) -> bool:
    """Whether a gambler on sums of at least ``−depth`` would ever have 1/``alpha`` times the start."""
    if depth <= 0.0 or not len(sums) or sums.sum() <= 0.0:
        return False
    seen = np.concatenate(([0.0], np.cumsum(sums * sums)[:-1]))
    # Before the first cluster the guess is a spread as wide as one cluster may be deep.
    variance = (seen + PRIOR * (0.25 * depth) ** 2) / (np.arange(len(sums)) + PRIOR)
    stake = np.minimum(np.sqrt(2.0 * math.log(1.0 / alpha) / (len(sums) * variance)), BOLDEST / depth)
    return bool(np.cumsum(np.log1p(stake * sums)).max() >= -math.log(alpha))


def in_clusters(rows: Rows, predicted: Array, codes: Array, levels: Levels, others: Array | None = None) -> Clusters:
    """Counts of decisions by cluster, clusters in an order that their rows do not decide."""
    assert rows.cluster is not None
    number = int(rows.cluster.max()) + 1
    order = np.random.default_rng(0).permutation(number)
    cell = 3 - 2 * predicted.astype(np.int64) - rows.targets.astype(np.int64)
    flat = (order[rows.cluster] * levels.combinations + codes) * 4 + cell
    counted = np.bincount(flat, minlength=number * levels.combinations * 4).astype(np.float64)
    return Clusters(levels, counted.reshape(number, *levels.sizes, 4), others)


def design_effect(rows: Rows, parts: Sequence[Part], codes: Array, levels: Levels, cuts: Sequence[float]) -> float:
    """How many rows of a cluster are worth one independent row: the variance of cluster sums over that of rows."""
    found = [1.0]
    for cut in cuts:
        clusters = in_clusters(rows, rows.scores > cut, codes, levels)
        for part in parts:
            for _, rate in part.terms:
                cells = clusters.cells(rate)
                trials = cells[:, list(rows_of(rate))].sum(1)
                if trials.sum() > 0 and not rate.is_count:
                    hits = cells[:, list(rate.numerator)].sum(1)
                    share = hits.sum() / trials.sum()
                    if 0.0 < share < 1.0:
                        residual = hits - share * trials
                        found.append(float((residual**2).sum() / (share * (1.0 - share) * trials.sum())))
    return float(np.median(found[1:])) if len(found) > 1 else 1.0
