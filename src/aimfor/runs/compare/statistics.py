"""Paired comparison over seeds: intervals that know the splits overlap, corrected for how many are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """Mean paired difference with its interval and two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float


def paired_difference(
    ours: Sequence[float], theirs: Sequence[float], *, test_share: float, level: float = 0.95
) -> Difference:
    """The corrected resampled t-test.

    Random splits of one data set share most of their rows, so differences over k splits are not independent and the
    plain t-test finds too many of them. The variance of the mean is therefore ``(1/k + n_test/n_train) · s²``, not
    ``s²/k``.

    Args:
        ours: Metric per seed.
        theirs: Metric per seed, same splits.
        test_share: ``n_test / n_train``.
        level: Of the interval, e.g. ``1 − 0.05/m`` for m comparisons (Bonferroni).

    References:
        Nadeau, Bengio, Inference for the generalization error, 2003.
    """
    from scipy.stats import t as student

    differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    k, mean = len(differences), float(differences.mean())
    if k < 2:
        return Difference(mean, -math.inf, math.inf, 1.0)
    deviation = math.sqrt((1 / k + test_share) * float(differences.var(ddof=1)))
    if deviation == 0.0:
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    half = float(student.ppf(0.5 + level / 2, k - 1)) * deviation
    p = 2 * float(student.sf(abs(mean) / deviation, k - 1))
    return Difference(mean, mean - half, mean + half, p)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: p-values that may all be read at one level together.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, running = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        running = max(running, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = running
    return adjusted
