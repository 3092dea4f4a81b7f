"""Confidence sequences: a martingale by enumeration, never wrong more often than they say, however often one looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import gammaln

import aimfor
from aimfor.decisions.betting import log_wealth, sequence_lower
from aimfor.decisions.binomial import lower_bound
from aimfor.decisions.certificate import certify
from aimfor.rates import precision, recall


@pytest.mark.parametrize("share", [0.05, 0.5, 0.93])
def test_wealth_is_a_martingale_under_the_true_share(share: float) -> None:
    for n in (0, 1, 7, 30):
        for k in range(n + 1):
            after = share * math.exp(log_wealth(k + 1, n + 1, share)) + (1 - share) * math.exp(
                log_wealth(k, n + 1, share)
            )
            assert after == pytest.approx(math.exp(log_wealth(k, n, share)), rel=1e-10)


def test_the_lower_end_is_where_the_wealth_is_one_over_alpha() -> None:
    for k, n in [(1, 1), (95, 100), (400, 1000), (1000, 1000)]:
        low = sequence_lower(k, n, 0.05)
        assert log_wealth(k, n, low) == pytest.approx(math.log(20.0), abs=1e-6)
        assert low < lower_bound(k, n, 0.05)  # looking at will has its price
    assert sequence_lower(0, 10, 0.05) == sequence_lower(0, 0, 0.05) == 0.0


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_looking_at_every_row_is_wrong_in_at_most_five_of_a_hundred_runs(share: float) -> None:
    draws, n = 1500, 3000
    x = np.random.default_rng(0).random((draws, n)) < share
    k, t = x.cumsum(1), np.arange(1, n + 1)
    wealth = gammaln(k + 0.5) + gammaln(t - k + 0.5) - gammaln(t + 1) - np.log(np.pi)
    wealth -= k * np.log(share) + (t - k) * np.log1p(-share)
    fooled = ((wealth >= np.log(20)) & (k > share * t)).any(1).sum()
    assert fooled <= stats.binom.ppf(0.999, draws, 0.05)
    peeked = stats.binom.sf(k[:300, 20::40] - 1, t[20::40], share) <= 0.05
    assert peeked.any(1).mean() > 0.12  # what an exact test for one look does when it is looked at 75 times


def test_the_confidence_is_ninety_five_of_a_hundred_unless_said_otherwise() -> None:
    problem = aimfor.maximize(recall, precision >= 0.5)
    counts = problem.count(torch.arange(40.0) - 20, torch.arange(40) >= 20)
    plain = certify(problem.objective, problem.constraints, counts, lower=sequence_lower)
    assert plain == certify(problem.objective, problem.constraints, counts, 0.95, lower=sequence_lower)
    assert plain.confidence == 0.95


def test_the_forecast_of_rows_is_that_of_the_sequence_and_comes_true() -> None:
    problem = aimfor.maximize(recall, precision >= 0.9)
    scores = torch.cat([torch.ones(238), -torch.ones(762)])
    targets = torch.cat([torch.ones(225), torch.zeros(13), torch.ones(260), torch.zeros(502)])
    counts = problem.count(scores, targets)
    more = certify(problem.objective, problem.constraints, counts, lower=sequence_lower).findings[0].more
    assert more is not None
    assert more > 100  # by Wilson's bound the question would be decided today
    for share, verdict in ((1.02, "met"), (0.9, "undecided")):
        later = counts.times(1 + share * more / 1000)
        assert certify(problem.objective, problem.constraints, later, lower=sequence_lower).verdict.value == verdict
