"""The paired test: against scikit-learn-free formulas, by simulation, and Holm against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from aimfor.runs.compare.verdicts import holm, paired_difference


def test_without_overlap_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.3, 1, 12), rng.normal(0, 1, 12)
    found = paired_difference(ours, theirs, test_share=0.0, level=0.9)
    wanted = scipy_stats.ttest_rel(ours, theirs)
    interval = wanted.confidence_interval(0.9)
    assert found.p == pytest.approx(wanted.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_overlap_widens_the_interval_by_the_known_factor() -> None:
    ours, theirs = [0.1, 0.4, 0.2, 0.3, 0.25], [0.0] * 5
    plain = paired_difference(ours, theirs, test_share=0.0)
    corrected = paired_difference(ours, theirs, test_share=0.25)
    factor = np.sqrt((1 / 5 + 0.25) / (1 / 5))
    assert corrected.high - corrected.mean == pytest.approx(factor * (plain.high - plain.mean))
    assert corrected.p > plain.p


def test_no_difference_is_found_in_no_more_than_the_stated_share_of_cases() -> None:
    """Correlated differences as from overlapping splits: ρ = n_test/(n_test + n_train), which is what is assumed."""
    rng = np.random.default_rng(1)
    k, share = 5, 1 / 3
    rho = share / (1 + share)
    shared = np.sqrt(rho) * rng.normal(size=(1500, 1)) + np.sqrt(1 - rho) * rng.normal(size=(1500, k))
    found = np.mean([paired_difference(row, [0.0] * k, test_share=share).p < 0.05 for row in shared])
    plain = np.mean([paired_difference(row, [0.0] * k, test_share=0.0).p < 0.05 for row in shared])
    assert found < 0.06
    assert plain > 0.1  # the uncorrected test finds too much


def test_equal_results_are_no_difference() -> None:
    found = paired_difference([0.5, 0.6], [0.5, 0.6], test_share=0.3)
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_holm_is_the_closed_test_of_bonferroni() -> None:
    """Adjusted p of i = the largest Bonferroni p over all subsets that contain i."""
    values = [0.011, 0.02, 0.3, 0.004]
    wanted = []
    for i in range(4):
        subsets = [s for r in range(1, 5) for s in itertools.combinations(range(4), r) if i in s]
        wanted.append(max(min(1.0, len(s) * min(values[j] for j in s)) for s in subsets))
    assert holm(values) == pytest.approx(wanted)
