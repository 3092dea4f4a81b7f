"""Planned labels: bets against all orders of draws, the grid, rounds on drawn files with stopping."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from aimfor.constraints import fpr, npv, precision, recall
from aimfor.constraints.expressions import Constraint, Rate
from aimfor.decisions import plan as planning
from aimfor.decisions import rounds as planner
from aimfor.decisions.plan import Design, Round


def orders(weights: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """All orders of draws without replacement, in proportion to the weights of what is left."""
    for order in itertools.permutations(range(len(weights))):
        left = np.cumsum(weights[list(order)][::-1])[::-1]
        yield np.array(order), float((weights[list(order)] / left).prod())


@pytest.mark.parametrize(("rate", "step"), [(precision, 1), (recall, 0), (npv, 0), (fpr, 0)])
def test_a_false_claim_is_proven_no_more_often_than_it_may(rate: Rate, step: int) -> None:
    """All orders in which the labels of five rows can come, in two rounds, with weights and guesses of any kind."""
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(3):
        y, weight, guess = rng.permutation([1, 1, 0, 1, 0]), rng.uniform(0.3, 3, 2), rng.uniform(0.1, 0.9, (2, 2))
        cells = {"precision": y, "npv": 1 - y[2:], "recall": y[:2].sum() / 3, "fpr": (1 - y[:2]).sum() / 2}
        true, sense = float(np.mean(cells[rate.name])), "<=" if rate is fpr else ">="
        if not 0.01 < true < 0.99:
            continue
        made = Design(rate, sense, true + (-1e-5 if rate is fpr else 1e-5), 0.4, np.array([2, 5]))
        zero, more = made.worth(np.array([step]), np.array([made.bound]))
        won = 0.0
        for order, chance in orders(np.repeat(weight, (2, 3))):
            rounds = [
                Round(order[:3], y[order[:3]], weight, guess[0]),
                Round(order[3:], y[order[3:]], weight, guess[1]),
            ]
            won += chance * planning.proven(made, rounds, zero, more)[0]
        assert won <= 0.4
        most = max(most, won)
    assert most > 0.05  # a test that may win and does


def test_what_is_bet_on_has_the_claimed_sum_as_its_mean() -> None:
    """The mean of X over the next draw, given two labels, is the claim's sum over the whole file."""
    y, weight, guess = np.array([1, 1, 0, 1, 0, 0, 1]), np.array([0.4, 2.0, 1.0]), np.array([0.9, 0.3, 0.2])
    made = Design(recall, ">=", 0.6, 0.05, np.array([2, 4, 7]))
    zero, more = made.claims()
    known = [Round(np.array([1, 6]), y[[1, 6]], np.zeros(0), np.zeros(0))]
    left, each = [0, 2, 3, 4, 5], np.repeat(weight, [2, 2, 3])
    mean, lowest, depth = np.zeros(3), np.full(3, np.inf), np.zeros(3)
    for rank in left:
        sums, deep = planning._bets(made, known, Round(np.array([rank]), y[[rank]], weight, guess), zero, more)
        mean += each[rank] / each[left].sum() * sums[:, 0]
        for label in (0, 1):
            other = planning._bets(made, known, Round(np.array([rank]), np.array([label]), weight, guess), zero, more)
            lowest, depth = np.minimum(lowest, other[0][:, 0]), deep[:, 0]
    truth = [y[:above].sum() - 0.6 * y.sum() for above in (2, 4, 7)]
    assert mean == pytest.approx(truth)
    assert depth == pytest.approx(-lowest)


def test_rows_below_are_not_drawn_for_precision_and_a_claim_without_all_its_rows_is_not_bet_on() -> None:
    made = Design(precision, ">=", 0.6, 0.05, np.array([2, 4, 7]))
    one = Round(np.array([0, 1]), np.ones(2), np.array([1.0, 1.0, 0.0]), np.full(3, 0.5))
    sums, _ = planning._bets(made, [], one, *made.claims())
    assert (sums[2] == 0.0).all()
    assert (sums[:2] != 0.0).all()
    assert planning.certain(made, [one], *made.claims()).tolist() == [True, False, False]


def test_thresholds_lie_between_scores_and_hold_what_they_say() -> None:
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=5000), rng.integers(1, 6, 800).astype(float), rng.normal(size=7)):
        made, cuts = planning.design(scores, precision >= 0.9, 0.95)
        assert [int((scores > cut).sum()) for cut in cuts] == made.above.tolist()
        assert made.above[-1] == len(scores)
        assert made.rows.sum() == len(scores)


@pytest.mark.parametrize(("rows", "number"), [(100_000, 60), (70, 60), (60, 60)])
def test_the_pilot_has_different_ranks_among_the_rows(rows: int, number: int) -> None:
    made = Design(precision, ">=", 0.9, 0.05, np.array([rows]))
    ranks = planner.pilot(made, number, np.random.default_rng(1)).ranks
    assert len(set(ranks.tolist())) == number
    assert ranks.min() >= 0
    assert ranks.max() < rows


def test_rows_are_drawn_in_proportion_to_their_weights_and_say_with_which_chance() -> None:
    made, weight = Design(precision, ">=", 0.9, 0.05, np.array([2, 6])), np.array([3.0, 1.0])
    pilot, rng = Round(np.array([5]), np.zeros(1), np.zeros(0), np.zeros(0)), np.random.default_rng(0)
    found = [tuple(planner._draw(made, [pilot], weight, 2, rng)) for _ in range(4000)]
    for first, second in ((0, 1), (0, 2), (2, 0), (3, 4)):
        one = Round(np.array([first, second]), np.zeros(0), weight, np.zeros(2))
        chance = planner.chances(made, [pilot, one])
        assert chance[0] == pytest.approx((3 if first < 2 else 1) / 9)
        share = found.count((first, second)) / 4000
        assert abs(share - chance.prod()) < 4 * (chance.prod() / 4000) ** 0.5


def labelled(seed: int, bound: Constraint, budgets: list[int], rows: int = 5_000) -> list[float | None]:
    """The true rate after every round among the rows of the file, 10 % positive; None without a threshold."""
    rng = np.random.default_rng([5, seed])
    y = rng.random(rows) < 0.1
    scores = rng.normal(size=rows) + 2.5 * y
    y, (made, _) = y[np.argsort(-scores)].astype(float), planning.design(scores, bound, 0.95)
    one = planner.pilot(made, 40, rng)
    rounds, found = [replace(one, right=y[one.ranks])], list[float | None]()
    for budget in budgets:
        made, one = planner.next_round(made, rounds, budget, rng)
        rounds.append(replace(one, right=y[one.ranks]))
        step = planning.accepted(made, rounds)
        above = 0 if step is None else int(made.above[step])
        tp, fn = y[:above].sum(), y[above:].sum()
        rates = {"precision": tp / max(above, 1), "recall": tp / (tp + fn), "fpr": (above - tp) / (rows - y.sum())}
        found.append(None if step is None else float(rates[made.rate.name]))
    return found


def test_promises_in_rounds_are_kept_and_come_closer_to_the_bound_with_the_labels() -> None:
    for bound, near in ((precision >= 0.8, 0.87), (recall >= 0.7, 0.98), (fpr <= 0.04, 0.02)):
        found = [labelled(seed, bound, [100, 150, 300]) for seed in range(6)]
        first = [next((rate for rate in one if rate is not None), bound.bound) for one in found]  # stops there
        broken = sum(rate > bound.bound if bound.sense == "<=" else rate < bound.bound for rate in first)
        assert broken <= stats.binom.isf(1e-4, 6, 0.05)
        last = [one[-1] for one in found if one[-1] is not None]
        assert len(last) >= 5
        assert float(np.mean(last)) > near if bound.sense == "<=" else float(np.mean(last)) < near


def test_the_hardest_bound_is_beyond_the_truth_no_more_often_than_it_may() -> None:
    wrong, lows = 0, []
    for seed in range(40):
        rng = np.random.default_rng([6, seed])
        y = (np.sort(rng.random(2000))[::-1] ** 2 > rng.random(2000)).astype(float)
        made = Design(precision, ">=", 0.5, 0.2, np.array([500, 1000, 2000]))
        ranks = planner._draw(
            made, [Round(np.zeros(0, int), np.zeros(0), np.zeros(0), np.zeros(0))], np.ones(3), 150, rng
        )
        one = Round(ranks, y[ranks], np.ones(3), np.full(3, 0.5))
        lows.append(planning.limit(made, [one], 1))
        wrong += lows[-1] > y[:1000].mean()
    assert wrong <= stats.binom.isf(1e-4, 40, 0.2)
    assert 0.4 < float(np.mean(lows)) < 0.6  # of about 0.58


def test_a_round_after_all_likely_rows_are_labelled_goes_on_below() -> None:
    """Forty right rows at the top are known, thousands below are wrong: nothing likely is left to draw."""
    made, _ = planning.design(np.arange(3000.0), precision >= 0.9, 0.95)
    ranks = np.arange(400)
    known = Round(ranks, (ranks < 40).astype(float), np.zeros(0), np.zeros(0))
    _, one = planner.next_round(made, [known], 30, np.random.default_rng(0))
    assert len(set(one.ranks.tolist())) == 30
    assert one.ranks.min() >= 400
