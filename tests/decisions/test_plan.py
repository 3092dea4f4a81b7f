"""Planned labels: the gambler against all outcomes, the grid, rounds on drawn populations with stopping."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from aimfor.decisions import plan as planning
from aimfor.decisions.plan import Label


@pytest.mark.parametrize("floor", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_a_false_floor_is_accepted_no_more_often_than_it_may_at_any_time(floor: float, alpha: float) -> None:
    """All sequences of 13 labels at the floor itself, each stopped where it is first accepted."""
    won = 0.0
    for outcome in itertools.product((0, 1), repeat=13):
        right, drawn = np.cumsum(outcome).astype(float), np.arange(1.0, 14.0)
        if float(planning.log_capital(right, drawn, floor).max()) >= -math.log(alpha):
            won += math.prod(floor if hit else 1.0 - floor for hit in outcome)
    assert won <= alpha


@pytest.mark.parametrize(("right", "drawn", "floor"), [(9, 10, 0.7), (50, 60, 0.8), (3, 10, 0.9), (0, 0, 0.9)])
def test_the_capital_is_the_mean_over_shares_above_the_floor(right: int, drawn: int, floor: float) -> None:
    def integrand(p: float) -> float:
        return float(p**right * (1 - p) ** (drawn - right) * stats.beta.pdf(p, 0.5, 0.5))

    mixed = integrate.quad(integrand, floor, 1.0, limit=200)[0] / stats.beta.sf(floor, 0.5, 0.5)
    expected = math.log(mixed) - right * math.log(floor) - (drawn - right) * math.log1p(-floor)
    found = planning.log_capital(np.array(float(right)), np.array(float(drawn)), floor)
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_thresholds_lie_between_scores_and_hold_what_they_say() -> None:
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=5000), rng.integers(1, 6, 800).astype(float), rng.normal(size=7)):
        made = planning.design(scores, 0.9, 0.95)
        assert [int((scores > cut).sum()) for cut in made.cuts] == made.above.tolist()
        assert made.above[-1] == len(scores)


@pytest.mark.parametrize(("rows", "number"), [(100_000, 60), (70, 60), (60, 60)])
def test_the_pilot_has_different_ranks_among_the_rows(rows: int, number: int) -> None:
    ranks = planning.pilot_ranks(rows, number, np.random.default_rng(1))
    assert len(set(ranks.tolist())) == number
    assert ranks.min() >= 0
    assert ranks.max() < rows


def labelled(seed: int, floor: float, budgets: list[int], shift: float) -> tuple[list[float | None], np.ndarray]:
    """The threshold after every round, on 30,000 rows of two normal distributions, 10 % positive."""
    rng = np.random.default_rng([5, seed])
    y = rng.random(30_000) < 0.1
    scores = rng.normal(size=30_000) + shift * y
    order = np.argsort(-scores)
    y, made, labels = y[order], planning.design(scores, floor, 0.95), list[Label]()
    taken = planning.pilot_ranks(30_000, 40, rng)
    labels += [Label(int(rank), -1, bool(y[rank])) for rank in taken]
    found: list[float | None] = []
    for turn, budget in enumerate(budgets):
        start, limit = planning.next_round(made, labels, budget, rng, turn == 0)
        made = replace(made, start=start)
        free = np.setdiff1d(np.arange(made.above[limit]), taken)
        drawn = rng.choice(free, min(budget, len(free)), replace=False)
        taken = np.concatenate((taken, drawn))
        labels += [Label(int(rank), limit, bool(y[rank])) for rank in drawn]
        step = planning.accepted(made, labels)
        found.append(None if step is None else float(made.cuts[step]))
    return found, made.above


def test_promises_in_rounds_are_kept_and_grow_with_the_labels() -> None:
    shift, floor, broken, kept = 2.5, 0.8, 0, np.zeros(3)
    for seed in range(40):
        found, _ = labelled(seed, floor, [100, 150, 300], shift)
        recalls = [0.0 if cut is None else float(stats.norm.sf(cut - shift)) for cut in found]
        kept += np.array(recalls) / 40
        for cut in found:
            if cut is not None:
                tp, fp = 0.1 * stats.norm.sf(cut - shift), 0.9 * stats.norm.sf(cut)
                broken += tp / (tp + fp) < floor
                break  # whoever stops at the first promise
    assert broken <= stats.binom.isf(1e-4, 40, 0.05)
    assert kept[0] < kept[1] < kept[2]
    assert kept[2] > 0.3  # of 0.55 at the true threshold


def test_labels_count_where_they_were_drawn_for_and_only_there() -> None:
    made = planning.Design(np.arange(100.0)[::-1], 0.5, 0.05, np.array([10, 40, 100]))
    labels = [Label(5, -1, True), Label(5, 1, True), Label(30, 1, False), Label(50, 2, True), Label(7, 2, True)]
    right, drawn = planning.so_far(made, labels)
    assert right.tolist() == [2.0, 2.0, 2.0]  # rank 5 above steps 0 and 1; rank 7 above all; rank 50 above the last
    assert drawn.tolist() == [2.0, 3.0, 2.0]
