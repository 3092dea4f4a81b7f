"""Paired comparisons: differences seed by seed, an interval, and a verdict that a small sample can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from aimfor.errors import InputError
from aimfor.runs.compare.verdicts import Difference, paired_difference


def least_share(count: int, of: int) -> float:
    """The exact one-sided 95 % lower bound on a share (Clopper and Pearson)."""
    return float(stats.beta.ppf(0.05, count, of - count + 1)) if count else 0.0


def signed_ranks(gains: Sequence[float]) -> float:
    """Wilcoxon's two-sided p-value that gains are symmetric about 0; 1 where all of them are 0."""
    return float(stats.wilcoxon(gains).pvalue) if any(gains) else 1.0


def interval(mean: float, low: float, high: float, digits: int = 4) -> str:
    """A difference with its interval, signed."""
    return f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


@dataclass(frozen=True)
class Paired(Difference):
    """Mean of paired differences with its 95 % interval and two-sided p-value (Student's t over the pairs).

    ``verdict`` is "better", "worse" or "no difference": whether the interval leaves out zero.
    """

    pairs: int

    @property
    def verdict(self) -> str:
        return "better" if self.low > 0 else "worse" if self.high < 0 else "no difference"

    def __str__(self) -> str:
        return interval(self.mean, self.low, self.high)


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Paired:
    """``ours − theirs``, pair by pair: seeds on one fixed test set, whose rows no two trainings share.

    With one pair the interval is infinite; equal pairs give a width of zero.
    """
    if len(ours) != len(theirs) or not ours:
        raise InputError(
            "ours", f"{len(ours)} and {len(theirs)} values", "as many of one as of the other, at least one"
        )
    return Paired(**vars(paired_difference(ours, theirs, test_share=0.0)), pairs=len(ours))


def paired_by_seed(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired:
    """`paired` over the seeds that both have."""
    seeds = sorted(ours.keys() & theirs.keys())
    return paired([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def mean_and_gap(ours: Sequence[float], base: Sequence[float] | None) -> str:
    """The mean and, beside a base, the paired difference from it: the text of a table's cell."""
    gap = "" if base is None else f" ({paired(ours, base)})"
    return f"{sum(ours) / len(ours):.4f}{gap}"


def bootstrap_median(values: Sequence[float], draws: int = 2000, seed: int = 0) -> tuple[float, float, float]:
    """Median over cells with a 95 % percentile interval, resampling the cells."""
    if not values:
        raise InputError("values", "none", "at least one value")
    array = np.sort(np.asarray(values, dtype=float))  # the draws must not depend on the order of the cells
    drawn = np.random.default_rng(seed).choice(array, (draws, len(array)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(array)), float(low), float(high)
