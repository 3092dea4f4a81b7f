"""Paired comparisons: differences seed by seed, an interval, and a verdict that a small sample can carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from aimfor.errors import InputError


@dataclass(frozen=True)
class Paired:
    """Mean of paired differences with its 95 % interval and two-sided p-value (Student's t over the pairs).

    ``verdict`` is "better", "worse" or "no difference": whether the interval leaves out zero.
    """

    mean: float
    low: float
    high: float
    pairs: int
    p: float

    @property
    def verdict(self) -> str:
        return "better" if self.low > 0 else "worse" if self.high < 0 else "no difference"

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Paired:
    """``ours − theirs``, pair by pair. With one pair the interval is infinite; equal pairs give a width of zero."""
    if len(ours) != len(theirs) or not ours:
        raise InputError(
            "ours", f"{len(ours)} and {len(theirs)} values", "as many of one as of the other, at least one"
        )
    differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    mean, n = float(differences.mean()), len(differences)
    if n == 1:
        return Paired(mean, -math.inf, math.inf, 1, 1.0)
    error = float(differences.std(ddof=1) / math.sqrt(n))
    half = float(stats.t.ppf(0.975, n - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return Paired(mean, mean - half, mean + half, n, p)


def bootstrap_median(values: Sequence[float], draws: int = 2000, seed: int = 0) -> tuple[float, float, float]:
    """Median over cells with a 95 % percentile interval, resampling the cells."""
    if not values:
        raise InputError("values", "none", "at least one value")
    array = np.sort(np.asarray(values, dtype=float))  # the draws must not depend on the order of the cells
    drawn = np.random.default_rng(seed).choice(array, (draws, len(array)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(array)), float(low), float(high)
