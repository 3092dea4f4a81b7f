"""Exact binomial confidence bounds (Clopper and Pearson) in plain float64 arithmetic, and Wilson's approximation.

And an exact test for a weighted sum of two independent shares, such as the difference of two groups' rates.

With successes k₁ of n₁ and k₂ of n₂ and weights a₁, a₂ > 0, the claim is ``a₁q₁ + a₂q₂ >= κ``. It is accepted where
``a₁p₁ + a₂p₂ − √(a₁²(p₁ − L₁)² + a₂²(p₂ − L₂)²) >= κ``, with p the observed shares and L Wilson's lower bounds at a
common z (the distances to two score bounds, added in quadrature as Newcombe does). That region grows with either
count, so the error is largest on the line ``a₁q₁ + a₂q₂ = κ``; it is summed exactly there, at points spaced evenly in
angle, and z is the smallest number that keeps it at α: an exact unconditional test. It needs z near 1.7 at α = 0.05,
with errors in quadrature; a union of two exact bounds at α/2 needs 1.96, with errors added.

References:
    Newcombe, Interval estimation for the difference between independent proportions, 1998.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import betaincinv, gammaln, xlogy

from ..constraints.counts import Array
from .sweep import evenly


def log_tail(successes: int, trials: int, rate: float) -> float:
    """``log P(X >= successes)`` for X ~ Binomial(trials, rate).

    Summed from the first term on: above the mean the terms fall geometrically after a few standard deviations.
    """
    k, n = successes, trials
    odds = rate / (1.0 - rate)
    log_first = (
        math.lgamma(n + 1.0)
        - math.lgamma(k + 1.0)
        - math.lgamma(n - k + 1.0)
        + k * math.log(rate)
        + (n - k) * math.log1p(-rate)
    )
    total = term = 1.0
    for j in range(k, n):
        term *= (n - j) / (j + 1.0) * odds
        total += term
        if term < 1e-17 * total:
            break
    return log_first + math.log(total)


def lower_bound(successes: float, trials: float, alpha: float) -> float:
    """One-sided bound: the true rate lies below it with probability at most ``alpha``; 0 without trials.

    It is the rate at which so many successes or more have probability ``alpha``, a quantile of a beta distribution.

    Args:
        successes: Whole number, at most ``trials``.
        trials: Whole number.
        alpha: In (0, 0.5).

    Example:
        >>> round(lower_bound(95, 100, 0.05), 6)
        0.897747

    References:
        Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial, 1934.
    """
    k, n = round(successes), round(trials)
    if n <= 0 or k <= 0:
        return 0.0
    return float(betaincinv(k, n - k + 1, alpha))


def upper_bound(successes: float, trials: float, alpha: float) -> float:
    """One-sided bound: the true rate lies above it with probability at most ``alpha``; 1 without trials."""
    return 1.0 - lower_bound(trials - successes, trials, alpha)


def wilson_lower(successes: Array, trials: Array, z: float) -> Array:
    """Wilson's score bound in closed form, elementwise: close to `lower_bound`, for sweeps; 0 without trials."""
    return np.where(trials > 0, wilson(successes, np.maximum(trials, 1.0), z), 0.0)


def wilson_bound(successes: float, trials: float, alpha: float) -> float:
    """`wilson_lower` of two numbers, with the arguments of `lower_bound`."""
    return float(wilson(successes, trials, normal_quantile(1.0 - alpha))) if trials > 0 else 0.0


def wilson(k: Any, n: Any, z: float) -> Any:
    """Wilson's lower bound of numbers or arrays, n > 0."""
    spread = (k * (n - k) / n + z * z / 4.0) ** 0.5
    return (k + z * z / 2.0 - z * spread) / (n + z * z)


def tail_deviate(successes: Array, trials: Array, rate: float) -> Array:
    """The z whose upper normal tail is P(X >= successes) for X ~ Binomial(trials, rate), elementwise: for forecasts.

    Peizer and Pratt's approximation: within 0.01 of the exact deviate from a few expected successes and failures on,
    within 0.04 where all trials succeed; counts need not be whole. −9 without a success.

    References:
        Peizer, Pratt, A normal approximation for binomial, F, beta, and other common, related tail probabilities, 1968.
    """
    n = np.maximum(trials, 1e-9)
    hit = np.maximum(successes - 0.5, 1e-9)
    miss = np.maximum(n - successes + 0.5, 1e-9)
    likelihood = hit * np.log(hit / (n * rate)) + miss * np.log(miss / (n * (1.0 - rate)))
    size = np.sqrt(2.0 / (1.0 + 1.0 / (6.0 * n)) * np.maximum(likelihood, 0.0))
    distance = successes - 1.0 / 3.0 - (n + 1.0 / 3.0) * rate
    beyond, deviation = np.abs(hit - n * rate), np.sqrt(n * rate * (1.0 - rate))
    # Both vanish where as many succeed as expected; their ratio does not.
    limit = 1.0 / (deviation * np.sqrt(1.0 + 1.0 / (6.0 * n)))
    z = distance * np.where(beyond > 1e-3 * deviation, size / np.maximum(beyond, 1e-9), limit)
    return np.where(successes > 0, z, -9.0)


@lru_cache(maxsize=256)
def normal_quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)


#: Standard deviations of a count that are summed in all, and what lies outside, with room to spare.
DEVIATIONS = 12.0
OUTSIDE = 1e-8
#: Steps of the search for z, to two digits after the point and to the safe side.
HALVINGS = 5
#: Between the points on the line the error was up to 1 % of α larger.
BETWEEN = 0.985


def contrast_bound(k1: Any, n1: Any, k2: Any, n2: Any, weights: tuple[float, float], z: float) -> Any:
    """The lower bound on ``a₁q₁ + a₂q₂`` at z, of numbers or elementwise of arrays; it grows with either count."""
    a1, a2 = weights
    p1, p2 = k1 / n1, k2 / n2
    off1, off2 = a1 * (p1 - wilson(k1, n1, z)), a2 * (p2 - wilson(k2, n2, z))
    return a1 * p1 + a2 * p2 - (off1 * off1 + off2 * off2) ** 0.5


def accepts(k1: float, n1: float, k2: float, n2: float, weights: tuple[float, float], bound: float, z: float) -> bool:
    """Whether the contrast's lower bound at z reaches ``bound``."""
    return bool(contrast_bound(k1, n1, k2, n2, weights, z) >= bound)


def contrast_lower(
    k1: float, n1: float, k2: float, n2: float, weights: tuple[float, float], alpha: float, exact: bool = True
) -> float:
    """Lower confidence bound on ``a₁q₁ + a₂q₂``: the largest κ that the test accepts; 0 without examples.

    z hardly depends on κ: it is taken at the κ that the normal quantile leads to, rounded to two digits. With
    ``exact=False`` the normal quantile itself serves: a forecast.
    """
    if n1 <= 0 or n2 <= 0:
        return 0.0
    bound = float(contrast_bound(k1, n1, k2, n2, weights, 1.02 * normal_quantile(1.0 - alpha)))
    near = round(bound, 2)
    if exact and near > 0.0:
        z = critical_z(round(n1), round(n2), weights, near, alpha)
        bound = float(contrast_bound(k1, n1, k2, n2, weights, z)) if math.isfinite(z) else 0.0
    return max(bound, 0.0)


@lru_cache(maxsize=4096)
def critical_z(n1: int, n2: int, weights: tuple[float, float], bound: float, alpha: float) -> float:
    """The smallest z at which the region's exact size, over all (q₁, q₂) on the line, is at most ``alpha``.

    Infinite where no region will do: an empty sample, or a bound that the shares reach only with certainty.
    """
    if n1 <= 0 or n2 <= 0 or bound >= sum(weights):
        return math.inf
    alpha, normal = BETWEEN * alpha, normal_quantile(1.0 - alpha)
    line = _Line(n1, n2, weights, bound)
    low, high = 0.98 * normal, 1.06 * normal
    while line.size(high) > alpha:
        low, high = high, 1.2 * high
        if high > 4.0 * normal:
            return math.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if line.size(middle) > alpha else (low, middle)
    return high


class _Line:
    """Exact probabilities of both counts at points on the line where the claim is just false."""

    def __init__(self, n1: int, n2: int, weights: tuple[float, float], bound: float, points: int = 0) -> None:
        points = points or (48 if n1 + n2 < 2_000 else 24)
        self.weights, self.bound = weights, bound
        self.n1, self.n2 = float(n1), float(n2)
        a1, a2 = weights
        ends = max(0.0, (bound - a1) / a2), min(1.0, bound / a2)
        first, last = (math.asin(math.sqrt(end)) for end in ends)
        angles = evenly(first, last, points)
        q2 = np.clip(np.sin(angles) ** 2, *ends)
        first1, chance1 = _window(n1, np.clip((bound - a2 * q2) / a1, 0.0, 1.0))
        first2, self.chance2 = _window(n2, q2)
        self.first1 = first1[:, None]
        self.tail1 = np.concatenate((chance1[:, ::-1].cumsum(1)[:, ::-1], np.zeros((points, 1))), 1)
        # Every k₂ once where that is less work than the windows, which overlap.
        self.place2 = first2[:, None] + np.arange(self.chance2.shape[1])
        self.k2 = np.arange(n2 + 1.0) if n2 < self.place2.size else self.place2.astype(np.float64)

    def size(self, z: float) -> float:
        """The largest probability of accepting, over the points."""
        least = self._least(z).astype(np.int64)
        least = least[self.place2] if least.ndim == 1 else least
        index = np.clip(least - self.first1, 0, self.tail1.shape[1] - 1)
        return float((self.chance2 * np.take_along_axis(self.tail1, index, 1)).sum(1).max()) + OUTSIDE

    def _least(self, z: float) -> Array:
        """The smallest k₁ that is accepted beside each k₂; n₁ + 1 where none is."""
        a1, a2 = self.weights
        low = np.clip(np.floor(self.n1 * (self.bound - a2 * self.k2 / self.n2) / a1), -1.0, self.n1)
        # Adding the distances instead is stricter and has a closed form: k >= n·b + z·sqrt(n·b·(1 − b)).
        needed = np.clip((self.bound - a2 * wilson(self.k2, self.n2, z)) / a1, 0.0, 1.0)
        high = np.ceil(self.n1 * needed + z * np.sqrt(self.n1 * needed * (1.0 - needed))) + 1.0
        high = np.maximum(np.minimum(high, self.n1 + 1.0), low + 1.0)
        while float((high - low).max()) > 1.0:
            middle = np.floor((low + high) / 2.0)
            with np.errstate(invalid="ignore"):  # a count of −1 has no bound, and is not accepted
                fits = contrast_bound(middle, self.n1, self.k2, self.n2, self.weights, z) >= self.bound
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
        return np.asarray(high)


def _window(n: int, q: Array) -> tuple[Array, Array]:
    """First count and probabilities ``(points, width)`` of a binomial around its mean."""
    width = min(n + 1, math.ceil(DEVIATIONS * math.sqrt(n) / 2.0) + 25)
    first = np.clip(np.round(n * q - width / 2.0), 0, n + 1 - width).astype(np.int64)
    k = (first[:, None] + np.arange(width)).astype(np.float64)
    inner = np.clip(q, 1e-300, 1.0 - 1e-16)[:, None]
    ways = math.lgamma(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return first, np.exp(ways + xlogy(k, inner) + (n - k) * np.log1p(-inner))
