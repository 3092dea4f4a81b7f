"""Rows in clusters: the gambler against all outcomes, bounds, promises on drawn populations, and what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import aimfor
from aimfor.constraints import fpr, precision, recall
from aimfor.constraints.counts import Levels
from aimfor.constraints.inequalities import inequalities_of
from aimfor.decisions import Problem
from aimfor.decisions.betting import Spread, reaches
from aimfor.decisions.binomial import lower_bound
from aimfor.decisions.clusters import Clusters, design_effect, in_clusters
from aimfor.decisions.rows import checked_rows
from aimfor.errors import InputError


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("values", [(-1.0, 1.0), (-1.0, 0.25), (-1.0, 4.0), (-0.3, 0.6)])
def test_a_fair_game_is_won_no_more_often_than_it_may(values: tuple[float, float], alpha: float) -> None:
    """All outcomes of 12 clusters whose mean is 0, with their probabilities: a sum, not a simulation."""
    low, high = values
    chance = -low / (high - low)
    outcomes = np.array(list(itertools.product((0, 1), repeat=12)))
    weight = np.where(outcomes == 1, chance, 1.0 - chance).prod(1)
    deep = np.ones(len(outcomes))
    won = reaches(np.where(outcomes == 1, high, low), deep, alpha, Spread.of(np.zeros((len(outcomes), 0)), deep))
    assert float(weight @ won) <= alpha
    if high >= 1.0:  # twelve times a quarter are no 20 times the start
        assert float(weight @ won) >= 0.3 * alpha


def test_many_sums_are_tested_almost_as_well_as_by_the_normal_law() -> None:
    """The z-test is the best there is for normal sums."""
    rng = np.random.default_rng(0)
    sums, deep = rng.normal(0.15, 1.0, (2000, 400)).clip(-4, 4), np.full(2000, 4.0)
    power = reaches(sums, deep, 0.05, Spread.of(rng.normal(0.15, 1.0, (2000, 50)), deep)).mean()
    best = stats.norm.sf(stats.norm.isf(0.05) - 0.15 * math.sqrt(400))
    assert power >= best - 0.05
    fair = reaches(rng.normal(0.0, 1.0, (2000, 400)).clip(-4, 4), deep, 0.05, Spread.of(sums[:, :50], deep)).mean()
    assert fair <= stats.binom.isf(1e-4, 2000, 0.05) / 2000


@pytest.mark.parametrize("looks", [(4, 8, 12), (1, 2, 3, 4, 6, 12), (0, 5, 5, 12)])
def test_whoever_looks_again_and_again_wins_a_fair_game_no_more_often(looks: tuple[int, ...]) -> None:
    """All outcomes again; and what is won at one look is won for good, whatever comes later."""
    outcomes = np.array(list(itertools.product((0, 1), repeat=12)))
    for high in (1.0, 4.0):
        chance = 1.0 / (1.0 + high)
        weight = np.where(outcomes == 1, chance, 1.0 - chance).prod(1)
        sums, deep = np.where(outcomes == 1, high, -1.0), np.ones(len(outcomes))
        spread = Spread.of(np.zeros((len(outcomes), 0)), deep)
        won = [reaches(sums[:, :last], deep, 0.2, spread, looks[: k + 1]) for k, last in enumerate(looks)]
        assert 0.01 <= float(weight @ won[-1]) <= 0.2
        assert all(bool((before <= after).all()) for before, after in itertools.pairwise(won))


def table(hits: np.ndarray, trials: np.ndarray, others: int = 0) -> Clusters:
    """Clusters whose precision is hits of trials; as many others as asked for, alike to the first."""
    zero = np.zeros(len(hits))
    cells = np.stack((hits, trials - hits, zero, zero), 1).astype(float)
    return Clusters(Levels(), cells, cells[: others or len(hits) // 10])


def test_a_large_cluster_counts_as_so_many_rows_as_leave_most_rows_alone() -> None:
    sizes = np.random.default_rng(0).integers(1, 60, 40).astype(float)
    clusters = table(0.5 * sizes, sizes, others=40)
    most = clusters.largest(precision)
    assert np.minimum(sizes, most).sum() >= 0.95 * sizes.sum() > np.minimum(sizes, most - 1.0).sum()
    hits, trials = clusters.hits_trials(precision)
    assert trials == pytest.approx(np.minimum(sizes, most))
    assert hits == pytest.approx(0.5 * trials)
    assert table(np.zeros(3), np.zeros(3)).largest(precision) == 1.0


def two_groups(rng: np.random.Generator, number: int, rates: tuple[float, float], within: float) -> Clusters:
    """Clusters with up to four negatives of each group, whose false alarms agree within a cluster."""
    levels = Levels(("sex",), ((0.0, 1.0),))
    cells = np.zeros((number, 2, 4))
    for group, rate in enumerate(rates):
        size = rng.integers(0, 5, number)
        share = rng.beta(rate * (1 - within) / within, (1 - rate) * (1 - within) / within, number)
        cells[:, group, 1] = rng.binomial(size, share)
        cells[:, group, 3] = size - cells[:, group, 1]
    return Clusters(levels, cells[number // 4 :], cells[: number // 4])


@pytest.mark.parametrize(("rates", "most", "least"), [((0.3, 0.2), 0.2, 0.0), ((0.25, 0.24), 1.0, 0.95)])
def test_a_gap_is_tested_at_its_level_and_better_than_rate_by_rate(
    rates: tuple[float, float], most: float, least: float
) -> None:
    levels = Levels(("sex",), ((0.0, 1.0),))
    part = next(
        one for one in inequalities_of(fpr.gap("sex") <= 0.1, levels) if one.terms[0][1].conditions == (("sex", 0.0),)
    )
    passed = apart = 0
    for seed in range(40):
        clusters = two_groups(np.random.default_rng([1, seed]), 800, rates, 0.3)
        passed += clusters.passes(part, 0.05)
        (first, second) = (clusters.bounds(rate, 0.025) for _, rate in part.terms)
        apart += first[1] - second[0] <= 0.1
    assert least <= passed / 40 <= most
    assert passed >= apart  # each rate by itself at half the error


def test_bounds_hold_the_share_and_are_near_those_of_single_rows() -> None:
    rng = np.random.default_rng(0)
    hits = (rng.random(400) < 0.85).astype(float)
    low, high = table(hits, np.ones(400)).bounds(precision, 0.05)
    share = hits.mean()
    assert low < share < high
    exact = lower_bound(hits.sum(), 400, 0.05)
    assert share - low < 1.6 * (share - exact)  # √(2 log 20) deviations against 1.64 are 1.49, for any distribution


def test_copies_are_counted_as_one_cluster_and_rows_alike_as_many() -> None:
    rng = np.random.default_rng(1)
    once = (rng.random(200) < 0.85).astype(float)
    five = np.full(200, 5.0)
    copied = table(5 * once, five).bounds(precision, 0.05)[0]
    alone = table(once, np.ones(200)).bounds(precision, 0.05)[0]
    assert copied == pytest.approx(alone, abs=1e-6)
    mixed = table(rng.binomial(5, 0.85, 200).astype(float), five).bounds(precision, 0.05)[0]
    assert mixed > alone + 0.02


@pytest.mark.parametrize(
    ("constraint", "accepted"),
    [(precision >= 0.7, True), (precision >= 0.84, False), (precision <= 0.95, True), (fpr <= 0.1, False)],
    ids=repr,
)
def test_a_claim_is_accepted_where_the_bound_is(constraint: Any, accepted: bool) -> None:
    rng = np.random.default_rng(2)
    clusters = table(rng.binomial(4, 0.85, 300).astype(float), np.full(300, 4.0))
    (part,) = inequalities_of(constraint, Levels())
    assert clusters.passes(part, 0.05) is accepted
    if constraint.left == precision:
        low, high = clusters.bounds(precision, 0.05)
        inside = low >= constraint.bound if constraint.sense == ">=" else high <= constraint.bound
        assert inside is accepted


def drawn(rng: np.random.Generator, clusters: int, size: int, within: float) -> tuple[Any, ...]:
    """Clusters of rows whose residuals agree: each row is, with this chance, a copy of its cluster's first."""
    n = clusters * size
    first = np.repeat(np.arange(clusters) * size, size)
    source = np.where(rng.random(n) < within, first, np.arange(n))
    y = (rng.random(n) < 0.4)[source]
    scores = (rng.normal(size=n) + 0.1 * rng.random(n))[source] + 1.5 * y
    return scores, y, np.repeat(np.arange(clusters), size)


def test_a_promise_about_clusters_is_kept_where_one_about_rows_is_not() -> None:
    """Every row five times; the truth at a threshold is that of two normal distributions."""
    problem = Problem("maximize", recall, [precision >= 0.7])
    broken, given = {"rows": 0, "clusters": 0}, {"rows": 0, "clusters": 0}
    for seed in range(120):
        scores, y, cluster = drawn(np.random.default_rng([7, seed]), 200, 5, 1.0)
        for name, ids in (("rows", None), ("clusters", cluster)):
            cut = problem.decide(scores, y, guarantee=0.95, cluster=ids).threshold
            if cut is not None:
                spread = math.hypot(1.0, 0.1 / math.sqrt(12))
                tp = 0.4 * stats.norm.sf((cut - 1.55) / spread)
                fp = 0.6 * stats.norm.sf((cut - 0.05) / spread)
                broken[name] += tp / (tp + fp) < 0.7
                given[name] += 1
    assert broken["rows"] >= 15  # 0.05 · 120 = 6
    assert broken["clusters"] <= stats.binom.isf(1e-4, 120, 0.05)
    assert given["clusters"] >= 40


def test_rows_alone_are_rows_and_the_sentence_names_clusters() -> None:
    scores, y, cluster = drawn(np.random.default_rng(3), 800, 4, 0.5)
    problem = Problem("maximize", recall, [precision >= 0.6])
    alone = problem.decide(scores, y, guarantee=0.95, cluster=np.arange(len(y)))
    assert alone == problem.decide(scores, y, guarantee=0.95)
    together = problem.decide(scores, y, guarantee=0.95, cluster=cluster)
    assert (
        "by 560 independent clusters (2240 rows), for new clusters of which each counts as at most so many rows: "
        "4 for precision" in str(together.guarantee)
    )
    named = problem.decide(scores, y, guarantee=0.95, cluster=[f"doc {one:04d}" for one in cluster])
    assert named.threshold == together.threshold
    certificate = problem.certificate(scores, y, decision=together, cluster=cluster)
    rows = problem.certificate(scores, y, decision=together)
    assert certificate.findings[0].low < rows.findings[0].low
    assert certificate.findings[0].value == rows.findings[0].value


def test_gaps_and_costs_and_thresholds_by_group_take_clusters() -> None:
    rng = np.random.default_rng(4)
    scores, y, cluster = drawn(rng, 2500, 4, 0.3)
    sex = rng.integers(0, 2, len(y))
    asked = {"maximize": "accuracy", "subject_to": ["gap(fpr, sex) <= 0.2", "2*fn + fp <= 8000"]}
    decision = aimfor.decide(scores, y, groups={"sex": sex}, cluster=cluster, **asked)
    assert decision.threshold is not None
    own = aimfor.decide(scores, y, groups={"sex": sex}, cluster=cluster, per_group="sex", **asked)
    assert set(own.thresholds) == {0.0, 1.0}


def test_the_design_effect_of_copies_is_their_number() -> None:
    scores, y, cluster = drawn(np.random.default_rng(5), 400, 5, 1.0)
    rows = checked_rows("scores", scores, y, cluster=cluster)
    codes = np.zeros(len(y), dtype=np.int64)
    parts = inequalities_of(recall >= 0.5, Levels())
    assert design_effect(rows, parts, codes, Levels(), [0.5, 1.0]) == pytest.approx(5.0, rel=0.05)
    counted = in_clusters(rows, scores > 0.5, codes, Levels())
    assert counted.tables.sum() + counted.others.sum() == len(y)


@pytest.mark.parametrize(
    ("cluster", "word"),
    [
        (np.zeros(500), "one cluster for all 500 rows"),
        (np.where(np.arange(500) < 3, np.nan, np.arange(500) // 5), "3 of 500 rows without a cluster"),
        ([None, *("ab" * 249), "a"], "1 of 500 rows without a cluster"),
        (np.arange(20), "shape (20,)"),
    ],
)
def test_bad_clusters_are_named(cluster: Any, word: str) -> None:
    scores, y, _ = drawn(np.random.default_rng(6), 500, 1, 0.0)
    with pytest.raises(InputError) as caught:
        aimfor.decide(scores, y, maximize="recall", subject_to="precision >= 0.6", cluster=cluster)
    assert caught.value.argument == "cluster"
    assert word in str(caught.value)


def test_a_cluster_in_two_folds_and_a_margin_by_clusters_are_refused() -> None:
    scores, y, cluster = drawn(np.random.default_rng(6), 200, 5, 0.0)
    problem = Problem("maximize", recall, [precision >= 0.6])
    with pytest.raises(InputError, match="several folds"):
        problem.decide(scores, y, guarantee=0.9, cluster=cluster, learn=np.arange(1000) % 3)
    assert problem.decide(scores, y, guarantee=0.9, cluster=cluster, learn=cluster % 3).guarantee is not None
    with pytest.raises(InputError, match="Margins count rows"):
        problem.decide(scores, y, cluster=cluster)
