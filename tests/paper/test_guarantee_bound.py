"""The bound on any procedure's recall: against powers in closed form, and against procedures that know the truth."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "paper" / "benchmarks"))
from bound_guarantee import MIXTURES, Curve, Rival, bound, chance_of, curve_of, rival

FLOOR, ALPHA = 0.8, 0.05


def normal_population() -> tuple[np.ndarray, np.ndarray]:
    """Quantiles rather than draws: the same population every time, a quarter of it positive."""
    positives, negatives = (stats.norm.ppf((np.arange(n) + 0.5) / n) for n in (5000, 15_000))
    return np.concatenate((positives + 1.6, negatives)), np.repeat([1, 0], [5000, 15_000])


def test_where_only_new_negatives_tell_the_power_is_a_closed_form() -> None:
    """Without a new negative, which under Q has probability (1 − added)^n, the rows look the same under both."""
    for n in (20, 60, 200):
        expected = min(1.0, ALPHA / (1.0 - 0.025) ** n)
        found = Rival((0.1, 0.0), (0.1 * 0.975, 0.0), 0.025)
        assert found.power(n, ALPHA) == pytest.approx(expected, abs=1e-9)


def test_power_of_one_kind_of_row_is_the_binomial_tests() -> None:
    """P and Q differ in the share of one kind: the best test is the randomised binomial one, summed here exactly."""
    n, p, q = 80, 0.3, 0.2
    counts = np.arange(n + 1)
    critical = int(stats.binom.isf(ALPHA, n, q))
    share = (ALPHA - stats.binom.sf(critical, n, q)) / stats.binom.pmf(critical, n, q)
    expected = stats.binom.pmf(counts, n, p) @ ((counts > critical) + share * (counts == critical))
    assert Rival((p, 0.0), (q, 0.0), 0.0).power(n, ALPHA) == pytest.approx(float(expected), abs=0.02)


def test_every_rival_fails_the_floor_at_every_threshold_inside() -> None:
    curve = curve_of(*normal_population(), FLOOR, 60)
    inside = (curve.surplus(FLOOR) >= 0) & (curve.recall >= 0.1)
    tried = 0
    for cut in range(0, 60, 7):
        for mixture in MIXTURES:
            found = rival(curve, inside, cut, mixture, FLOOR)
            if found is None:
                continue
            tried += 1
            above = np.minimum(np.arange(len(inside)), cut)
            fewer, more = found.changed[0] / found.truth[0], found.changed[1] / max(found.truth[1], 1e-300)
            hits = curve.hits - (1.0 - fewer) * curve.hits[above]
            rows = curve.hits + curve.misses
            new = found.added * rows[above] / rows[cut]
            misses = curve.misses + (more - 1.0) * curve.misses[above] + new
            assert (hits / (hits + misses))[inside].max() <= FLOOR + 1e-9
    assert tried >= 40


def test_no_single_test_at_a_known_threshold_beats_the_bound() -> None:
    """The exact binomial test at one threshold is a valid procedure; its power is summed, without draws."""
    n, curve = 1500, curve_of(*normal_population(), FLOOR, 40)
    keeps, rows = curve.surplus(FLOOR) >= 0, np.arange(1501)
    least = stats.binom.isf(ALPHA, rows, FLOOR)
    powers = []
    for place in np.flatnonzero(keeps)[3::6]:
        above = float(curve.hits[place] + curve.misses[place])
        power = stats.binom.pmf(rows, n, above) @ stats.binom.sf(least, rows, float(curve.hits[place]) / above)
        chance = chance_of(curve, keeps & (curve.recall >= curve.recall[place]), FLOOR, n, ALPHA)
        powers.append(float(power))
        assert power <= chance + 0.01
    assert max(powers) > 0.5


def test_the_bound_rises_with_the_rows_and_never_beyond_the_oracle() -> None:
    curve = curve_of(*normal_population(), FLOOR, 30)
    oracle = float(curve.recall[curve.surplus(FLOOR) >= 0].max())
    values = [bound(curve, FLOOR, n, ALPHA, levels=3) for n in (200, 5000)]
    assert 0 < values[0] < values[1] <= oracle
    assert bound(Curve(np.array([0.1]), np.array([0.3]), 0.2), FLOOR, 100, ALPHA) == 0.0
