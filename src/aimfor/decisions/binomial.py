"""Exact binomial confidence bounds (Clopper and Pearson) in plain float64 arithmetic, and Wilson's approximation."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import betaincinv

from ..constraints.counts import Array


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
