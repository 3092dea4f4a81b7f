"""Certificates: exact binomial bounds, verdicts that are right as often as they claim, and words for every case."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from aimfor.constraints.counts import Counts, Levels
from aimfor.constraints.expressions import Constraint
from aimfor.constraints.inequalities import inequalities_of
from aimfor.decisions.binomial import log_tail, lower_bound, upper_bound, wilson_bound, wilson_lower
from aimfor.decisions.certificate import bounds, certify
from aimfor.decisions.exact import supported
from aimfor.errors import InputError
from aimfor.rates import RateProblem, Verdict, fp, fpr, positive_rate, precision, recall


def table(tp: float, fp: float, fn: float, tn: float) -> Counts:
    return Counts(Levels(), np.array([tp, fp, fn, tn]))


def by_sex(*rows: tuple[float, float, float, float]) -> Counts:
    levels = Levels(("sex",), (tuple(float(i) for i in range(len(rows))),))
    return Counts(levels, np.array(rows))


def verdict(constraint: Constraint, counts: Counts, confidence: float = 0.95) -> Verdict:
    return certify(recall, [constraint], counts, confidence).findings[0].verdict


@given(st.integers(1, 200_000), st.floats(0, 1), st.sampled_from([0.2, 0.05, 0.0125, 1e-4]))
def test_bounds_equal_the_quantiles_of_the_beta_distribution(trials: int, share: float, alpha: float) -> None:
    successes = round(share * trials)
    low = stats.beta.ppf(alpha, successes, trials - successes + 1) if successes else 0.0
    high = stats.beta.ppf(1 - alpha, successes + 1, trials - successes) if successes < trials else 1.0
    assert lower_bound(successes, trials, alpha) == pytest.approx(low, abs=1e-10)
    assert upper_bound(successes, trials, alpha) == pytest.approx(high, abs=1e-10)
    if successes:  # at the bound, so many successes or more have probability alpha: summed, term by term
        assert log_tail(successes, trials, lower_bound(successes, trials, alpha)) == pytest.approx(math.log(alpha))


def test_tail_equals_the_binomial_survival_function() -> None:
    for successes, trials, rate in [(1, 10, 0.3), (40, 50, 0.7), (900, 1000, 0.89), (5, 1000, 0.001)]:
        exact = stats.binom.logsf(successes - 1, trials, rate)
        assert log_tail(successes, trials, rate) == pytest.approx(exact, rel=1e-10)


def test_without_trials_nothing_is_known() -> None:
    assert (lower_bound(0, 0, 0.05), upper_bound(0, 0, 0.05)) == (0.0, 1.0)
    assert float(wilson_lower(np.zeros(()), np.zeros(()), 2.0)) == 0.0
    assert wilson_bound(0, 0, 0.05) == 0.0


@pytest.mark.parametrize("trials", [1, 2, 9])
def test_wilsons_bounds_agree_with_scipy_from_one_trial_on(trials: int) -> None:
    k = np.arange(trials + 1.0)
    low = [stats.binomtest(j, trials).proportion_ci(0.9, "wilson").low for j in range(trials + 1)]
    assert [wilson_bound(j, trials, 0.05) for j in range(trials + 1)] == pytest.approx(low, abs=1e-12)
    found = wilson_lower(k, np.full_like(k, trials), float(stats.norm.isf(0.05)))
    assert found.tolist() == pytest.approx(low, abs=1e-12)


def test_wilson_is_close_to_the_exact_bound() -> None:
    for successes, trials in [(90, 100), (950, 1000), (30, 400)]:
        quick = float(wilson_lower(np.array(float(successes)), np.array(float(trials)), 1.959964))
        assert quick == pytest.approx(lower_bound(successes, trials, 0.025), abs=0.01)


# ---------------------------------------------------------------- calibration


def drawn(generator: np.random.Generator, n: int, chances: list[list[float]]) -> Counts:
    """Counts of n independent examples over (sex, cell) with these probabilities."""
    flat = np.asarray(chances).reshape(-1)
    return by_sex(*generator.multinomial(n, flat).reshape(-1, 4).tolist())


#: P(sex, cell); true precision 0.8 overall, recall 0.6, fpr 1/12 for one sex and 1/9 for the other.
CHANCES = [[0.15, 0.03, 0.1, 0.33], [0.15, 0.03 + 0.0075, 0.1, 0.33 - 0.2 + 0.1725 - 0.0025 - 0.0025]]


def truth() -> Counts:
    flat = np.asarray(CHANCES)
    return by_sex(*(flat / flat.sum() * 1e9).tolist())


@pytest.mark.parametrize(
    "constraints",
    [
        lambda v: [precision >= v(precision) + 1e-6],
        lambda v: [recall >= v(recall) + 1e-6, fpr <= v(fpr) - 1e-6],
        lambda v: [fpr.gap("sex") <= v(fpr.on(sex=1)) - v(fpr.on(sex=0)) - 1e-6],
    ],
    ids=["precision", "recall and fpr", "gap"],
)
def test_a_certificate_that_says_met_is_wrong_in_at_most_five_of_a_hundred(constraints: object) -> None:
    # The constraints are false by a hair, the hardest case: every "met" is an error. With an error of exactly 5 % the
    # count over the repetitions passes the limit once in a thousand.
    flat = np.asarray(CHANCES) / np.asarray(CHANCES).sum()
    exact = truth()
    hardest = constraints(lambda rate: float(rate.value(exact)))  # type: ignore[operator]
    generator = np.random.default_rng(0)
    wrong = right = 0
    draws = 200 if len(hardest) == 1 and "gap" in repr(hardest) else 1000  # exact bounds on a gap take their time
    for _ in range(draws):
        counts = drawn(generator, 1500, flat.tolist())
        certificate = certify(recall, hardest, counts)
        wrong += any(finding.verdict is Verdict.met for finding in certificate.findings)
        right += any(finding.verdict is Verdict.missed for finding in certificate.findings)
    assert wrong <= stats.binom.ppf(0.999, draws, 0.05)
    assert right < draws  # a hair's breadth is not always decided


@pytest.mark.parametrize("trials", [20, 150, 700])
@pytest.mark.parametrize("alpha", [0.05, 0.0125])
def test_the_exact_error_of_the_bound_never_exceeds_alpha(trials: int, alpha: float) -> None:
    bounds = np.array([lower_bound(k, trials, alpha) for k in range(trials + 1)])
    worst = 0.0
    for rate in np.linspace(0.02, 0.98, 49):
        chance = stats.binom.pmf(np.arange(trials + 1), trials, rate)
        worst = max(worst, float(chance[bounds > rate].sum()))
    assert 0.2 * alpha < worst <= alpha  # valid, and not so wide as to be useless


@pytest.mark.parametrize("sense", ["met", "missed"])
def test_clear_cases_are_decided(sense: str) -> None:
    generator = np.random.default_rng(1)
    flat = np.asarray(CHANCES) / np.asarray(CHANCES).sum()
    constraint = precision >= (0.6 if sense == "met" else 0.95)
    found = [verdict(constraint, drawn(generator, 3000, flat.tolist())) for _ in range(50)]
    assert all(one is Verdict[sense] for one in found)


# ---------------------------------------------------------------- verdicts


def test_verdicts_at_known_counts() -> None:
    assert verdict(precision >= 0.9, table(960, 40, 100, 5000)) is Verdict.met
    assert verdict(precision >= 0.9, table(800, 200, 100, 5000)) is Verdict.missed
    assert verdict(precision >= 0.9, table(92, 8, 100, 5000)) is Verdict.undecided
    assert verdict(fpr <= 0.1, table(50, 10, 50, 990)) is Verdict.met
    assert verdict(fp <= 20, table(50, 5, 50, 990)) is Verdict.met
    assert verdict(fp <= 2, table(50, 50, 50, 990)) is Verdict.missed


def test_more_data_is_said_and_that_much_more_decides_it() -> None:
    counts = table(92, 8, 100, 5000)
    (finding,) = certify(recall, [precision >= 0.9], counts).findings
    assert finding.verdict is Verdict.undecided
    assert finding.more is not None
    assert str(finding.more) in finding.note
    times = 1 + finding.more / counts.total
    assert verdict(precision >= 0.9, counts.times(times * 1.15)) is Verdict.met
    assert verdict(precision >= 0.9, counts.times(times * 0.75)) is Verdict.undecided


@pytest.mark.parametrize(("hits", "trials", "bound"), [(19, 20, 0.8), (95, 100, 0.9), (821, 1000, 0.8)])
def test_where_wilsons_bound_is_too_hopeful_the_exact_one_says_how_much_more(
    hits: int, trials: int, bound: float
) -> None:
    counts = table(hits, trials - hits, 50, 400)
    assert wilson_bound(hits, trials, 0.05) >= bound > lower_bound(hits, trials, 0.05)
    (finding,) = certify(recall, [precision >= bound], counts).findings
    assert finding.verdict is Verdict.undecided
    assert finding.more is not None
    assert verdict(precision >= bound, counts.times(1 + finding.more / counts.total)) is Verdict.met
    before = 1 + finding.more / counts.total - 2 / 128  # found to a step of 1/128, and rounded up
    assert verdict(precision >= bound, counts.times(before)) is Verdict.undecided


def test_a_value_on_its_bound_is_never_decided_by_data() -> None:
    (finding,) = certify(recall, [precision >= 0.9], table(90, 10, 100, 5000)).findings
    assert finding.verdict is Verdict.undecided
    assert finding.more is None
    assert "margin" in finding.note


def test_a_group_without_positives_is_named() -> None:
    (finding,) = certify(recall, [recall.worst("sex") >= 0.1], by_sex((50, 5, 5, 100), (0, 5, 0, 100))).findings
    assert finding.verdict is Verdict.undecided
    assert "recall[sex=1]" in finding.note
    assert not math.isnan(finding.value)


def test_an_unknown_label_is_named() -> None:
    (finding,) = certify(recall, [recall.on(sex=9) >= 0.5], by_sex((50, 5, 5, 100), (50, 5, 5, 100))).findings
    assert finding.verdict is Verdict.undecided
    assert "recall[sex=9]" in finding.note


def test_no_predicted_positive_leaves_precision_undecided() -> None:
    (finding,) = certify(recall, [precision >= 0.9], table(0, 0, 100, 1000)).findings
    assert finding.verdict is Verdict.undecided
    assert "precision" in finding.note


def test_what_no_decisions_can_satisfy_on_the_data_is_infeasible_and_the_culprits_are_named() -> None:
    counts = table(10, 10, 490, 490)  # half are positive: recall >= 0.9 needs a positive rate of at least 0.45
    certificate = certify(recall, [positive_rate <= 0.3, recall >= 0.9, fpr <= 0.5], counts)
    found = {finding.constraint: finding.verdict for finding in certificate.findings}
    assert found["positive_rate <= 0.3"] is Verdict.infeasible
    assert found["recall >= 0.9"] is Verdict.infeasible
    assert found["fpr <= 0.5"] is Verdict.met
    assert certificate.verdict is Verdict.infeasible


def test_what_some_decisions_satisfy_is_not_called_infeasible() -> None:
    counts = table(10, 10, 490, 490)
    certificate = certify(recall, [positive_rate <= 0.46, recall >= 0.9], counts)
    assert certificate.verdict is Verdict.missed


def test_the_error_is_shared_over_the_constraints() -> None:
    counts = table(930, 70, 100, 5000)
    (alone,) = certify(recall, [precision >= 0.9], counts).findings
    shared = certify(recall, [precision >= 0.9, recall >= 0.5], counts).findings[0]
    assert alone.low == pytest.approx(stats.beta.ppf(0.05, 930, 71), abs=1e-10)
    assert shared.low == pytest.approx(stats.beta.ppf(0.025, 930, 71), abs=1e-10)


def test_a_gap_is_bounded_more_sharply_than_by_the_union_of_two_intervals() -> None:
    counts = by_sex((50, 30, 50, 970), (50, 80, 50, 920))
    (finding,) = certify(recall, [fpr.gap("sex") <= 0.1], counts).findings
    high = stats.beta.ppf(0.975, 81, 920) - stats.beta.ppf(0.025, 30, 971)
    assert finding.value == pytest.approx(0.05)
    assert finding.value + 0.015 < finding.high < high - 0.01
    for bound, accepted in ((finding.high + 1e-3, True), (finding.high - 1e-3, False)):
        parts = inequalities_of(fpr.gap("sex") <= bound, counts.levels)
        assert all(supported(part, counts, 0.05) for part in parts) == accepted  # the bound inverts the exact test
    low = stats.beta.ppf(0.0125, 80, 921) - stats.beta.ppf(1 - 0.0125, 31, 970)
    assert finding.low == pytest.approx(low, abs=1e-10)


def test_both_bounds_on_a_sum_of_two_rates_invert_the_exact_test() -> None:
    counts = table(300, 80, 100, 920)
    left = recall - 0.5 * fpr
    (finding,) = certify(recall, [left >= 0.5], counts).findings
    assert finding.low < finding.value < finding.high

    def accepted(constraint: Constraint) -> bool:
        return all(supported(part, counts, 0.05) for part in inequalities_of(constraint, counts.levels))

    assert [accepted(left >= finding.low + step) for step in (-1e-3, 1e-3)] == [True, False]
    assert [accepted(left <= finding.high + step) for step in (-1e-3, 1e-3)] == [False, True]


def test_the_certificate_reads_as_text_and_as_json() -> None:
    certificate = certify(
        recall, [precision >= 0.9, recall.on(sex=9) >= 0.5], by_sex((96, 4, 10, 500), (90, 2, 9, 400))
    )
    text = str(certificate)
    assert "precision >= 0.9" in text
    assert "met" in text
    data = json.loads(certificate.to_json())
    assert data["findings"][0]["verdict"] in ("met", "undecided")
    assert data["findings"][1]["value"] is None  # NaN is not JSON
    assert data["confidence"] == 0.95


@pytest.mark.parametrize("confidence", [0.5, 1.0, 95, "high"])
def test_a_confidence_outside_one_half_to_one_is_refused(confidence: object) -> None:
    with pytest.raises(InputError, match="confidence"):
        certify(recall, [], table(1, 1, 1, 1), confidence)  # type: ignore[arg-type]


def test_the_data_asked_for_are_found_to_a_hundred_and_twenty_eighth_of_the_last_doubling() -> None:
    """Wilson's bound is 0.9 where (p − 0.9)² n = z² · 0.9 · 0.1, which n gives in closed form."""
    counts, z = table(93, 7, 100, 800), stats.norm.isf(0.05)
    (finding,) = certify(recall, [precision >= 0.9], counts).findings
    times = z * z * 0.09 / 0.03**2 / 100
    assert 2 < times < 4
    step = (4 - 2) / 128
    assert finding.more == math.ceil((2 + math.ceil((times - 2) / step) * step - 1) * counts.total)


@pytest.mark.parametrize(("direction", "wanted"), [("minimize", 0.4), ("maximize", 0.1)])
def test_the_worst_group_of_an_objective_is_the_worst_for_its_direction(direction: str, wanted: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores, targets = torch.randn(400, generator=generator), torch.arange(400) % 2
    sex = (torch.arange(400) // 2) % 2
    negative = targets == 0
    scores[negative & (sex == 0)] = torch.where(torch.arange(100) < 10, 1.0, -1.0)
    scores[negative & (sex == 1)] = torch.where(torch.arange(100) < 40, 1.0, -1.0)
    problem = RateProblem(direction, fpr.worst("sex"), [recall >= 0.01])
    assert problem.certificate(scores, targets, groups={"sex": sex}).objective_value == pytest.approx(wanted)
    assert problem.decide(scores, targets, groups={"sex": sex}).certificate is not None
    found = problem.decide(scores, targets, groups={"sex": sex}, margin="none")
    reached = problem.count(scores, targets, groups={"sex": sex}, decision=found)
    both = [float(fpr.on(sex=one).value(reached)) for one in (0, 1)]
    assert found.certificate is not None
    assert found.certificate.objective_value == pytest.approx((max if direction == "minimize" else min)(both))


def test_bounds_for_one_rate_at_a_time_share_the_error_between_the_two_of_a_gap() -> None:
    def one_at_a_time(successes: float, trials: float, alpha: float) -> float:
        return float(stats.beta.ppf(alpha, successes, trials - successes + 1))

    counts = by_sex((200, 30, 100, 270), (180, 60, 120, 240), (150, 90, 150, 210))  # fpr 0.1, 0.2 and 0.3 of 300
    for alpha in (0.05, 0.01):
        low, high = bounds(fpr.gap("sex"), "<=", counts, alpha, one_at_a_time)
        assert low == pytest.approx(one_at_a_time(90, 300, alpha / 6) - 1 + one_at_a_time(270, 300, alpha / 6))
        assert high == pytest.approx(1 - one_at_a_time(210, 300, alpha / 2) - one_at_a_time(30, 300, alpha / 2))
