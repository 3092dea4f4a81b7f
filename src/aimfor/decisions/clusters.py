"""Rows that come in clusters (patients, customers, documents): tests and bounds that count clusters.

New rows come as new clusters, so what is promised are ratios of expected cluster sums: precision is E[Σ tp] / E[Σ pp]
over clusters. Nothing at all can be said about such a ratio for any distribution of clusters: one so rare that it is
never seen can have so many rows that it decides alone. So a cluster with more than M rows that count (flagged ones, for
precision) counts as M of them, each with the weight M/n; M is the least number that leaves 95 % of the rows of *other*
clusters their full weight, and the promise names it. Other clusters are the learning rows', or else a tenth of these.

A claim about rates of the same rows says that a sum of one value per row, of at least −d, has a mean above 0 over
clusters; clusters without such rows have nothing to say. The sum is at least −d·M: that is a bet (`betting`).

A claim ``c₁r₁ + c₂r₂ + k >= 0`` about two sets of rows (gaps, costs of both errors) is false only if for some s both
``c₁r₁ <= s`` and ``c₂r₂ <= −k − s``. For all s between u and v together the sums ``a(c₁h₁ − v·n₁) + b(c₂h₂ + (k+u)n₂)``
of hits h among n rows then have a mean of at most 0, a and b positive and free. The claim is accepted where the bets
against *all* such intervals are won; the true s lies in one of them, so that no share of α is lost. Claims about more
sets of rows take a bound each, at their share of α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import Array, Counts, Levels
from ..constraints.expressions import ALL_CELLS, Rate, Terms
from ..constraints.inequalities import Inequality, rows_of
from .betting import Spread, reaches
from .rows import Rows

#: Rows of other clusters that keep their full weight, and the share of clusters that are "others" where there are none.
WITHIN, OTHERS = 0.95, 0.1
#: Points of the grid on which a bound is sought, twice; intervals at first, pieces of one that fails, and how often.
GRID, INTERVALS, PIECES, SPLITS = 64, 16, 4, 3


@dataclass(frozen=True, eq=False)
class Clusters:
    """Tables of counts ``(m, *sizes, 4)``, one for each cluster in a random order; and those of other clusters."""

    levels: Levels
    tables: Array
    others: Array
    #: Of clusters that arrive file by file, and are looked at after each: how many there were each time.
    ends: tuple[int, ...] = ()

    def largest(self, rate: Rate) -> float:
        """M: as how many rows that count a cluster counts at most."""
        size = np.sort(self._counted(self.others, rate))
        if not len(size) or size[-1] <= 0:
            return 1.0
        # Σ min(n, M) rises in straight lines between the sizes.
        within = np.cumsum(size) + size * np.arange(len(size) - 1, -1, -1)
        return float(np.ceil(np.interp(WITHIN * size.sum(), within, size)))

    def _counted(self, tables: Array, rate: Rate) -> Array:
        return np.asarray(Counts(self.levels, tables).cells(rate.conditions)[:, list(rows_of(rate))].sum(1))

    def cells(self, rate: Rate, others: bool = False) -> Array:
        """``(m, 4)``, weighted."""
        tables = self.others if others else self.tables
        cells = Counts(self.levels, tables).cells(rate.conditions)
        weight = self.largest(rate) / np.maximum(self._counted(tables, rate), 1e-9)
        return np.asarray(cells * np.minimum(weight, 1.0)[:, None])

    def passes(self, inequality: Inequality, alpha: float) -> bool:
        """Whether these clusters support the inequality at level ``alpha``."""
        terms = tuple(self._as_share(c, rate) for c, rate in inequality.terms)
        if any(float(self._counted(self.tables, rate).sum()) <= 0 for _, rate in terms):
            return False
        if len({(rows_of(rate), rate.conditions) for _, rate in terms}) == 1:
            return self._mean_passes(terms, inequality.constant, alpha)
        if len(terms) == 2:
            return _Contrast(self, terms, inequality.constant).passes(alpha)
        total = inequality.constant
        for c, rate in terms:
            low, high = self.bounds(rate, alpha / len(terms))
            total += c * (low if c > 0 else high)
        return total >= 0

    def bounds(self, rate: Rate, alpha: float) -> tuple[float, float]:
        """Bounds on one rate, each wrong with probability at most ``alpha``; of a count, for as many rows."""
        _, share = self._as_share(1.0, rate)
        unit = float(self._counted(self.tables, share).sum()) if rate.is_count else 1.0
        low, high = (self._lower(share, sign, alpha) for sign in (1.0, -1.0))
        return unit * low, unit * (1.0 - high)

    def _lower(self, rate: Rate, sign: float, alpha: float) -> float:
        """The share up to which all are beaten, on a grid of shares and once more within the step where it ends."""
        low, width = 0.0, 1.0
        hits, trials = self.hits_trials(rate)
        other_hits, other_trials = self.hits_trials(rate, others=True)
        counted = (self._counted(self.tables, rate) > 0).cumsum()
        ends = [int(counted[last - 1]) if last else 0 for last in self.ends]
        if sign < 0:
            hits, other_hits = trials - hits, other_trials - other_hits
        if not trials.any():
            return 0.0
        for _ in range(2):
            shares = low + width * np.arange(1, GRID + 1) / GRID
            depth = shares * self.largest(rate)
            others = other_hits - shares[:, None] * other_trials
            won = reaches(hits - shares[:, None] * trials, depth, alpha, Spread.of(others, depth), ends)
            low, width = low + width * (len(won) if won.all() else int(won.argmin())) / GRID, width / GRID
        return min(low, 1.0)

    def hits_trials(self, rate: Rate, others: bool = False) -> tuple[Array, Array]:
        """Of every cluster with rows that count, weighted."""
        cells = self.cells(rate, others)
        hits, trials = cells[:, list(rate.numerator)].sum(1), cells[:, list(rows_of(rate))].sum(1)
        return hits[trials > 0], trials[trials > 0]

    def _as_share(self, coefficient: float, rate: Rate) -> tuple[float, Rate]:
        """Counts as shares of the rows at hand."""
        if not rate.is_count:
            return coefficient, rate
        rows = float(self._counted(self.tables, rate).sum())
        return coefficient * rows, Rate(rate.name, rate.numerator, ALL_CELLS, rate.conditions)

    def _mean_passes(self, terms: Terms, constant: float, alpha: float) -> bool:
        rate = terms[0][1]
        values = np.zeros(4)
        for cell in rows_of(rate):
            values[cell] = sum(c * (cell in term.numerator) for c, term in terms) + constant
        depth = -float(min(values[list(rows_of(rate))])) * self.largest(rate)
        if depth <= 0.0:
            return True
        sums, others = (self.cells(rate, is_other)[self._counted(tables, rate) > 0] @ values
                        for is_other, tables in ((False, self.tables), (True, self.others)))  # fmt: skip
        deep = np.array([depth])
        return bool(reaches(sums[None], deep, alpha, Spread.of(others[None], deep))[0])


class _Contrast:
    """Bets on two rates of different rows."""

    def __init__(self, clusters: Clusters, terms: Terms, constant: float) -> None:
        self.constant = constant
        self.low, self.high, self.most, self.sides = [], [], [], []
        for c, rate in terms:
            pairs = []
            for others in (False, True):
                cells = clusters.cells(rate, others)
                pairs.append((c * cells[:, list(rate.numerator)].sum(1), cells[:, list(rows_of(rate))].sum(1)))
            # In units of the rate: the mean number of rows is that of other clusters.
            unit = 1.0 / max(float(pairs[1][1].mean()) if len(pairs[1][1]) else 0.0, 1e-3)
            self.low.append(min(c, 0.0))
            self.high.append(max(c, 0.0))
            self.most.append(unit * clusters.largest(rate))
            self.sides.append([(unit * hits, unit * trials) for hits, trials in pairs])

    def passes(self, alpha: float) -> bool:
        """Whether every value of s is beaten, interval by interval; those that are not are cut into pieces."""
        hits, trials = self.sides[0][0]
        guess = np.array([hits.sum() / trials.sum()])
        if not self._beaten(guess, guess, alpha)[0]:
            return False
        ends = np.linspace(self.low[0], self.high[0], INTERVALS + 1)
        first, last = ends[:-1], ends[1:]
        for _ in range(SPLITS + 1):
            open_ = ~self._beaten(first, last, alpha)
            if not open_.any():
                return True
            steps = np.linspace(0.0, 1.0, PIECES + 1)
            ends = first[open_, None] + (last - first)[open_, None] * steps
            first, last = ends[:, :-1].reshape(-1), ends[:, 1:].reshape(-1)
        return False

    def _beaten(self, first: Array, last: Array, alpha: float) -> Array:
        """For each interval of s; what no rate can be is beaten as it is."""
        bounds = np.stack((last, -(self.constant + first)))  # c₁r₁ and c₂r₂ are at most so much
        deep = np.maximum(bounds - np.array(self.low)[:, None], 0.0) * np.array(self.most)[:, None]
        sums, others = (
            np.stack([side[index][0] - bound[:, None] * side[index][1]
                      for side, bound in zip(self.sides, bounds, strict=True)])
            for index in (0, 1)
        )  # fmt: skip
        # By the best weights of two normal means, as far as other clusters know them: mean over variance, and one
        # standard error more, lest a side be left out by chance.
        mean, square = others.mean(2), (others**2).mean(2) + (0.25 * deep) ** 2 / others.shape[2]
        best = np.maximum(mean + np.sqrt(square / others.shape[2]), 0.0) / np.maximum(square, 1e-12)
        best = best / np.maximum(best.max(0), 1e-300)
        total, beside = (np.einsum("si,sim->im", best, table) for table in (sums, others))
        depth = (best * deep).sum(0)
        counts = (self.sides[0][0][1] > 0) | (self.sides[1][0][1] > 0)
        met = (self.sides[0][1][1] > 0) | (self.sides[1][1][1] > 0)
        won = reaches(total[:, counts], depth, alpha, Spread.of(beside[:, met], depth))
        return np.asarray(won | (bounds[1] < self.low[1]))


def cluster_tables(rows: Rows, predicted: Array, codes: Array, levels: Levels) -> Array:
    """Counts of decisions by cluster, ``(m, *sizes, 4)``."""
    assert rows.cluster is not None
    number = int(rows.cluster.max()) + 1
    cell = 3 - 2 * predicted.astype(np.int64) - rows.targets.astype(np.int64)
    flat = (rows.cluster * levels.combinations + codes) * 4 + cell
    counted = np.bincount(flat, minlength=number * levels.combinations * 4).astype(np.float64)
    return counted.reshape(number, *levels.sizes, 4)


def shuffled(tables: Array) -> Array:
    """Clusters in an order that their rows do not decide."""
    return tables[np.random.default_rng(0).permutation(len(tables)).argsort()]


def in_clusters(rows: Rows, predicted: Array, codes: Array, levels: Levels, others: Array | None = None) -> Clusters:
    """Counts of decisions by cluster; without others a part of them serves as such."""
    tables = shuffled(cluster_tables(rows, predicted, codes, levels))
    if others is None:
        aside = set_aside(len(tables))
        others, tables = tables[:aside], tables[aside:]
    return Clusters(levels, tables, others)


def set_aside(clusters: int) -> int:
    """How many of so many clusters serve as "others"."""
    return max(round(OTHERS * clusters), 1)


def design_effect(
    rows: Rows, inequalities: Sequence[Inequality], codes: Array, levels: Levels, thresholds: Sequence[float]
) -> float:
    """How many rows of a cluster are worth one independent row: the variance of cluster sums over that of rows."""
    effects = [1.0]
    for threshold in thresholds:
        tables = in_clusters(rows, rows.scores > threshold, codes, levels, np.zeros((0, *levels.sizes, 4))).tables
        for inequality in inequalities:
            for _, rate in inequality.terms:
                cells = Counts(levels, tables).cells(rate.conditions)
                trials = cells[:, list(rows_of(rate))].sum(1)
                if trials.sum() > 0 and not rate.is_count:
                    hits = cells[:, list(rate.numerator)].sum(1)
                    share = hits.sum() / trials.sum()
                    if 0.0 < share < 1.0:
                        residual = hits - share * trials
                        effects.append(float((residual**2).sum() / (share * (1.0 - share) * trials.sum())))
    return float(np.median(effects[1:])) if len(effects) > 1 else 1.0
