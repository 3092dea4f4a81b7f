"""Tests of one inequality: exact levels by enumeration, agreement with scipy, and the right test for each kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from aimfor.constraints.counts import Counts, Levels
from aimfor.constraints.expressions import Constraint, Rate
from aimfor.constraints.inequalities import disjoint, inequalities_of
from aimfor.decisions.binomial import BETWEEN, accepts, contrast_bound, critical_z, lower_bound, upper_bound
from aimfor.decisions.exact import Share, divergence, mean_passes, share_passes, supported, tail_probability
from aimfor.rates import accuracy, error_rate, fn, fp, fpr, positive_rate, precision, recall

FN_SHARE, FP_SHARE = Rate("fn_share", (2,), (0, 1, 2, 3)), Rate("fp_share", (1,), (0, 1, 2, 3))


def table(*cells: float) -> Counts:
    return Counts(Levels(), torch.tensor(cells, dtype=torch.float64))


def by_sex(*rows: tuple[float, float, float, float]) -> Counts:
    levels = Levels(("sex",), (tuple(float(i) for i in range(len(rows))),))
    return Counts(levels, torch.tensor(rows, dtype=torch.float64))


def passes(constraint: Constraint, counts: Counts, alpha: float = 0.05) -> bool:
    return all(supported(part, counts, alpha) for part in inequalities_of(constraint, counts.levels))


@pytest.mark.parametrize("bound", [0.001, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("trials", [1, 7, 60, 5000])
def test_the_p_value_of_a_share_is_the_binomial_tail(trials: int, bound: float) -> None:
    for successes in {
        0,
        1,
        trials // 3,
        trials // 2,
        int(trials * bound),
        math.ceil(trials * bound),
        trials - 1,
        trials,
    }:
        own = tail_probability(Share(successes, trials, bound))
        true = stats.binom.sf(successes - 1, trials, bound)
        assert own == pytest.approx(true, rel=1e-9, abs=1e-12)
        for alpha in (0.2, 0.05, 0.001):
            assert share_passes(Share(successes, trials, bound), alpha) == (true <= alpha)


def test_bounds_that_are_always_or_never_true() -> None:
    assert share_passes(Share(0, 10, 0.0), 0.05)
    assert not share_passes(Share(10, 10, 1.0), 0.05)
    assert not share_passes(Share(0, 0, 0.5), 0.05)
    assert mean_passes(0.0, 10.0, 0.0, 0.05)
    assert not mean_passes(10.0, 10.0, 1.0, 0.05)
    assert not mean_passes(0.0, 0.0, 0.5, 0.05)


@pytest.mark.parametrize("bound", [0.001, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.95, 1.0])
def test_divergence_is_the_relative_entropy_of_two_coins(share: float, bound: float) -> None:
    true = stats.entropy([share, 1.0 - share], [bound, 1.0 - bound])
    assert divergence(share, bound) == pytest.approx(float(true), rel=1e-12, abs=1e-15)


def test_a_sum_that_is_the_same_for_every_row_needs_no_test() -> None:
    for counts in (table(1, 1, 1, 1), table(0, 0, 0, 2)):
        assert passes(accuracy + error_rate >= 0.9, counts)
        assert passes(accuracy + error_rate >= 1.0, counts)
        assert not passes(accuracy + error_rate >= 1.1, counts)
        assert not passes(accuracy + error_rate <= 0.9, counts)


def test_each_kind_of_inequality_meets_its_exact_test() -> None:
    counts = table(90, 10, 30, 870)
    for constraint, k, n, bound in [
        (precision >= 0.85, 90, 100, 0.85),
        (1 - precision <= 0.15, 90, 100, 0.85),
        (recall >= 0.7, 90, 120, 0.7),
        (fpr <= 0.02, 870, 880, 0.98),
        (accuracy >= 0.95, 960, 1000, 0.95),
        (positive_rate <= 0.12, 900, 1000, 0.88),
        (fp <= 20, 990, 1000, 0.98),
    ]:
        for alpha in (0.2, 0.1, 0.05, 0.02, 0.01, 1e-3):
            assert passes(constraint, counts, alpha) == (stats.binom.sf(k - 1, n, bound) <= alpha), (constraint, alpha)


def test_an_empty_denominator_supports_nothing() -> None:
    assert not passes(precision >= 0.1, table(0, 0, 10, 90))
    assert not passes(fpr.gap("sex") <= 0.9, by_sex((5, 5, 5, 5), (3, 0, 2, 0)))


def test_disjoint_denominators() -> None:
    assert disjoint(recall, fpr)
    assert disjoint(recall.on(sex=0), recall.on(sex=1))
    assert not disjoint(recall, precision)
    assert not disjoint(recall.on(sex=0), recall.on(age=1))


def test_a_cost_of_three_values_keeps_its_level() -> None:
    """Worst of many mixtures of costs 0, 1 and 5 whose mean is just above the bound; the exact error by enumeration."""
    n, bound, worst = 60, 1.0, 0.0
    constraint = bound - 1e-9 >= 5 * FN_SHARE + FP_SHARE
    accept = np.array([[passes(constraint, table(n - a - b, b, a, 0)) for b in range(n + 1 - a)] + [False] * a
                       for a in range(n + 1)])  # fmt: skip
    assert accept[0, 0]
    for share in np.linspace(0, 1, 21):
        q_fn, q_fp = bound * share / 5, bound * (1 - share)
        grid = [stats.multinomial.pmf([a, b, n - a - b], n, [q_fn, q_fp, max(1 - q_fn - q_fp, 0.0)])
                for a, b in np.argwhere(accept)]  # fmt: skip
        worst = max(worst, float(np.sum(grid)))
    assert 0.005 < worst <= 0.05
    assert passes(5 * fn + fp <= 60, table(60, 0, 0, 0)) == passes(5 * FN_SHARE + FP_SHARE <= 1.0, table(60, 0, 0, 0))


# ---------------------------------------------------------------- two independent shares


@pytest.mark.parametrize(("n1", "n2", "weights", "bound"), [(23, 31, (1.0, 1.0), 0.9), (40, 12, (1.0, 2.0), 1.7)])
def test_the_contrast_keeps_its_level_by_enumeration(
    n1: int, n2: int, weights: tuple[float, float], bound: float
) -> None:
    z = critical_z(n1, n2, weights, bound, 0.05)
    k1, k2 = np.arange(n1 + 1), np.arange(n2 + 1)
    accept = np.array([[accepts(a, n1, b, n2, weights, bound, z) for b in k2] for a in k1])
    assert accept.any()
    assert not (accept[:-1] & ~accept[1:]).any()  # grows with either count: the worst case is on the line
    assert not (accept[:, :-1] & ~accept[:, 1:]).any()
    worst = 0.0
    for q2 in np.linspace(0, 1, 4001):
        q1 = (bound - weights[1] * q2) / weights[0]
        if 0 <= q1 <= 1:
            worst = max(worst, stats.binom.pmf(k1, n1, q1) @ accept @ stats.binom.pmf(k2, n2, q2))
    assert worst <= 0.05
    looser = np.array([[accepts(a, n1, b, n2, weights, bound, 0.97 * z) for b in k2] for a in k1])
    q1 = np.linspace(0, 1, 2001)
    sizes = [stats.binom.pmf(k1, n1, q) @ looser @ stats.binom.pmf(k2, n2, (bound - weights[0] * q) / weights[1])
             for q in q1 if 0 <= (bound - weights[0] * q) / weights[1] <= 1]  # fmt: skip
    assert max(sizes) > worst  # z is no larger than it has to be, up to the counts' steps


@pytest.mark.parametrize(
    ("n1", "n2", "weights", "bound"),
    [
        (60, 60, (1.0, 1.0), 0.9),
        (90, 110, (1.0, 0.5), 0.6),
        (80, 50, (1.0, 1.0), 1.1),
        (60, 45, (0.5, 1.0), 0.7),
        (5, 100, (1.0, 0.5), 0.05),
    ],
)
def test_the_critical_z_is_right_to_two_digits(n1: int, n2: int, weights: tuple[float, float], bound: float) -> None:
    k1, k2 = np.arange(n1 + 1.0)[:, None], np.arange(n2 + 1.0)[:, None]
    q2 = np.linspace(0, 1, 4001)
    q1 = (bound - weights[1] * q2) / weights[0]
    inside = (q1 >= 0) & (q1 <= 1)
    chance1, chance2 = stats.binom.pmf(k1, n1, q1[inside]), stats.binom.pmf(k2, n2, q2[inside])

    def size(z: float) -> float:
        accept = contrast_bound(k1, n1, k2.T, n2, weights, z) >= bound
        return float((chance1 * (accept @ chance2)).sum(0).max())

    z = critical_z(n1, n2, weights, bound, 0.05)
    assert size(z) <= 0.05
    assert size(z - 0.01) > BETWEEN * 0.05


def test_the_contrast_bound_grows_with_either_count() -> None:
    k = torch.arange(51, dtype=torch.float64)
    n = torch.tensor(50.0, dtype=torch.float64)
    grid = contrast_bound(k[:, None], n, k[None], n, (1.0, 1.0), 1.7)
    assert bool((grid.diff(dim=0) >= -1e-12).all())
    assert bool((grid.diff(dim=1) >= -1e-12).all())


def test_a_gap_is_accepted_where_a_union_of_bounds_is_not() -> None:
    counts = by_sex((200, 100, 200, 900), (200, 100, 200, 900))
    assert passes(fpr.gap("sex") <= 0.03, counts)
    union = 1 - lower_bound(900, 1000, 0.025) - lower_bound(100, 1000, 0.025)
    assert union > 0.03
    assert not passes(fpr.gap("sex") <= 0.015, counts)


def test_three_rates_fall_back_to_a_union_of_exact_bounds() -> None:
    counts = by_sex((300, 100, 100, 900), (300, 100, 100, 900))
    left = recall.on(sex=0) + recall.on(sex=1) + precision
    low = 2 * lower_bound(300, 400, 0.05 / 3) + lower_bound(600, 800, 0.05 / 3)
    assert passes(left >= low - 1e-9, counts)
    assert not passes(left >= low + 1e-9, counts)
    left = recall.on(sex=0) + 2 * recall.on(sex=1) - precision
    low = 3 * lower_bound(300, 400, 0.05 / 3) - upper_bound(600, 800, 0.05 / 3)
    assert passes(left >= low - 1e-9, counts)
    assert not passes(left >= low + 1e-9, counts)
