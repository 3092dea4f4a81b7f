"""A gambler's test of a mean: sums of at least −d, drawn independently, have a mean of at most 0?

Whoever stakes ``0 <= λᵢ < 1/d`` of the capital on the i-th sum, λᵢ chosen before it is seen, keeps a capital
``Π (1 + λᵢ Xᵢ)`` that is never negative and, where the mean is at most 0, does not grow on average: it *ever* reaches
1/α with a probability of at most α, for any distribution and any number of sums (Ville).

How to stake is free, and decides over the power. The number m of sums is known, so the gambler wants to have 1/α at
the end and nothing more. For normal sums of variance σ² the best that can be done is the z-test, and the capital that
copies it is the price of an option which pays 1/α where the z-test rejects: with capital w, the target is reached with
probability p = α·w, and the stake that keeps the capital at this price is ``φ(Φ⁻¹(p)) / (p σ √(m − i))``. The formula
is the normal law's, the level everybody's. σ² starts from other clusters and follows those that were seen.

Rows that arrive day by day (`sequence_lower`): the gambler bets on the next success or failure by a mixture of all
constant strategies. Against a coin of share p the wealth after k successes in n rows is
``M(p) = B(k + ½, n − k + ½) / (B(½, ½) p^k (1 − p)^(n−k))``. If p is the true share, this is a martingale. The shares
against which it has not reached 1/α are a confidence sequence: true at all times at once, so that one may look every
day and stop at will.

References:
    Ville, Étude critique de la notion de collectif, 1939. Robbins, Statistical methods related to the law of the
    iterated logarithm, 1970. Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, 2024.
    Voráček, Orabona, STaR-Bets: sequential target-recalculating bets for tighter confidence intervals, 2025.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
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
#: Share of the capital that is to win within the sums at hand; the rest has so many times their number before it.
NOW, LATER = 0.8, 4.0


@dataclass(frozen=True, eq=False)
class Spread:
    """A guess of the mean square ``(h,)`` of the sums, and how many sums it counts for."""

    square: Array
    weight: float

    @classmethod
    def of(cls, others: Array, depth: Array) -> Spread:
        """From sums ``(h, k)`` of other clusters."""
        return cls((0.25 * depth) ** 2, PRIOR).after(others)

    def after(self, sums: Array) -> Spread:
        """With these sums ``(h, k)``."""
        weight = self.weight + sums.shape[1]
        return Spread((self.square * self.weight + (sums**2).sum(1)) / weight, weight)


def reaches(sums: Array, depth: Array, alpha: float, spread: Spread, ends: Sequence[int] = ()) -> Array:
    """Whether a gambler on each row of sums ``(h, m)``, none below ``−depth`` ``(h,)``, ever has 1/``alpha``.

    Who looks again and again, while sums arrive, names how many there were at each look: bets of one look are placed
    without those that came later.

    Example:
        >>> sums, depth = np.full((1, 40), 0.2), np.ones(1)
        >>> reaches(sums, depth, 0.05, Spread.of(sums[:, :0], depth))
        array([ True])
    """
    if not ends:
        path = capital(sums, depth[:, None], alpha, spread, np.zeros(len(sums)), sums.shape[1])
        return np.asarray(path.max(1, initial=0.0) >= -math.log(alpha))
    won, wealth = np.zeros(len(sums), dtype=bool), np.zeros(len(sums))
    for first, last in itertools.pairwise((0, *ends)):
        if last > first:
            path = two_purses(sums[:, first:last], depth[:, None], alpha, spread, wealth)
            won |= path.max(1) >= -math.log(alpha)
            wealth, spread = path[:, -1], spread.after(sums[:, first:last])
    return won


def two_purses(sums: Array, depth: Array, alpha: float, spread: Spread, log_start: Array) -> Array:
    """`capital` where nobody knows how many sums will follow these: one purse is for these, one for later ones."""
    number = sums.shape[1]
    now = capital(sums, depth, alpha, spread, log_start + math.log(NOW), number)
    later = capital(sums, depth, alpha, spread, log_start + math.log(1.0 - NOW), LATER * number)
    return np.asarray(np.logaddexp(now, later))


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
        inequality, most = sums[:, first:last], limit if limit.shape[1] == 1 else limit[:, first:last]
        path[:, first:last] = log_capital[:, None] + np.log1p(np.minimum(stake[:, None], most) * inequality).cumsum(1)
        log_capital, seen = path[:, last - 1], seen + (inequality**2).sum(1)
    return path


def log_wealth(successes: float, trials: float, share: float) -> float:
    """Logarithm of the mixture gambler's wealth against a coin of this share.

    Example:
        >>> round(log_wealth(0, 0, 0.3), 12), log_wealth(90, 100, 0.5) > 20
        (0.0, True)
    """
    k, rest = successes, trials - successes
    mixed = math.lgamma(k + 0.5) + math.lgamma(rest + 0.5) - math.lgamma(trials + 1.0) - math.log(math.pi)
    fair = (k * math.log(share) if k else 0.0) + (rest * math.log1p(-share) if rest else 0.0)
    return mixed - fair


def sequence_lower(successes: float, trials: float, alpha: float) -> float:
    """Lower end of the confidence sequence: the true share is below it, at any time ever, with probability <= alpha.

    Example:
        >>> round(sequence_lower(95, 100, 0.05), 4)
        0.8442
    """
    if trials <= 0 or successes <= 0:
        return 0.0
    low, high = 0.0, successes / trials
    if high == 1.0:
        high = 1.0 - 1e-15
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle <= 0.0 or log_wealth(successes, trials, middle) >= -math.log(alpha):
            low = middle
        else:
            high = middle
    return low
