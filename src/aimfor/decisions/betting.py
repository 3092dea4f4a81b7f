"""A gambler's test of a mean: sums of at least −d, drawn independently, have a mean of at most 0?

Whoever stakes ``0 <= λᵢ < 1/d`` of the capital on the i-th sum, λᵢ chosen before it is seen, keeps a capital
``Π (1 + λᵢ Xᵢ)`` that is never negative and, where the mean is at most 0, does not grow on average: it *ever* reaches
1/α with a probability of at most α, for any distribution and any number of sums (Ville).

How to stake is free, and decides over the power. The number m of sums is known, so the gambler wants to have 1/α at
the end and nothing more. For normal sums of variance σ² the best that can be done is the z-test, and the capital that
copies it is the price of an option which pays 1/α where the z-test rejects: with capital w, the target is reached with
probability p = α·w, and the stake that keeps the capital at this price is ``φ(Φ⁻¹(p)) / (p σ √(m − i))``. The formula
is the normal law's, the level everybody's. σ² starts from other clusters and follows those that were seen.

References:
    Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, 2024. Voráček, Orabona, STaR-Bets:
    sequential target-recalculating bets for tighter confidence intervals, 2025.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..constraints.counts import Array

#: A bet never risks more than this share of what it may.
BOLDEST = 0.99
#: The price aims a little beyond the target, which a gambler in steps would else only come near.
BEYOND = 1.1
#: Sums that the first guess of the spread (a quarter of the depth) counts for.
PRIOR = 2.0
#: The stake is chosen anew at most so many times.
MOST_BETS = 256


@dataclass(frozen=True, eq=False)
class Spread:
    """A guess of the mean square ``(h,)`` of the sums, and how many sums it counts for."""

    square: Array
    weight: float

    @classmethod
    def of(cls, others: Array, depth: Array) -> Spread:
        """From sums ``(h, k)`` of other clusters."""
        weight = PRIOR + others.shape[1]
        return cls(((others**2).sum(1) + PRIOR * (0.25 * depth) ** 2) / weight, weight)


def reaches(sums: Array, depth: Array, alpha: float, spread: Spread) -> Array:
    """Whether a gambler on each row of sums ``(h, m)``, none below ``−depth`` ``(h,)``, ever has 1/``alpha``.

    Example:
        >>> sums, depth = np.full((1, 40), 0.2), np.ones(1)
        >>> reaches(sums, depth, 0.05, Spread.of(sums[:, :0], depth))
        array([ True])
    """
    path = capital(sums, depth[:, None], alpha, spread, np.zeros(len(sums)), sums.shape[1])
    return np.asarray(path.max(1, initial=0.0) >= -math.log(alpha))


def capital(sums: Array, depth: Array, alpha: float, spread: Spread, log_start: Array, horizon: float) -> Array:
    """Logarithm ``(h, m)`` of what gamblers who start with ``exp(log_start)`` have after each sum.

    Args:
        sums: ``(h, m)``.
        depth: No sum falls below ``−depth``, ``(h, m)`` or ``(h, 1)``.
        alpha: They want to have 1/``alpha`` after the horizon.
        spread: Of the sums.
        log_start: ``(h,)``.
        horizon: Sums that they expect in all, at least m.
    """
    log_capital, path = log_start, np.empty(sums.shape)
    seen, limit = spread.square * spread.weight, BOLDEST / np.maximum(depth, 1e-300)
    edges = np.unique(np.linspace(0, sums.shape[1], MOST_BETS + 1).round().astype(np.int64)).tolist()
    for first, last in itertools.pairwise(edges):
        price = np.clip(alpha / BEYOND * np.exp(log_capital), 1e-200, 1.0 - 1e-12)
        left = np.sqrt((horizon - first) * seen / (spread.weight + first))
        stake = np.exp(-0.5 * ndtri(price) ** 2) / (math.sqrt(2.0 * math.pi) * price * np.maximum(left, 1e-300))
        part, most = sums[:, first:last], limit if limit.shape[1] == 1 else limit[:, first:last]
        path[:, first:last] = log_capital[:, None] + np.log1p(np.minimum(stake[:, None], most) * part).cumsum(1)
        log_capital, seen = path[:, last - 1], seen + (part**2).sum(1)
    return path
