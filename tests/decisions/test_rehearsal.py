"""The order of tests: forecasts agree with exact tests, a rehearsal's choice with brute force, α is handed on."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

import aimfor
from aimfor.constraints.counts import Counts, empty_levels, encode
from aimfor.constraints.expressions import Rate
from aimfor.decisions.binomial import tail_deviate
from aimfor.decisions.decision import Decision
from aimfor.decisions.exact import accepted_steps
from aimfor.decisions.path import Aim, Path, Survey, blurred, chosen_steps, learned_path
from aimfor.decisions.price import shortfall
from aimfor.decisions.rows import Rows
from aimfor.decisions.sweep import MISPLACED, learning_grid, sweep
from aimfor.decisions.task import DecisionTask
from aimfor.rates import npv, precision, recall, tnr


def rows(n: int, seed: int = 0, shift: float = 2.0) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 0.3
    sex = (torch.rand(n, generator=generator) < 0.5).long()
    scores = torch.randn(n, generator=generator, dtype=torch.float64) + shift * y
    return Rows(scores.numpy(), y.numpy(), {"sex": sex.double().numpy()})


# ---------------------------------------------------------------- forecasts


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9, 0.95])
@pytest.mark.parametrize("trials", [20, 59, 300, 5000])
def test_the_deviate_is_that_of_the_exact_tail(rate: float, trials: int) -> None:
    k = np.clip(stats.binom.isf([0.5, 0.2, 0.05, 0.01, 0.001], trials, rate), 1, trials)
    found = tail_deviate(k, np.full_like(k, trials), rate)
    exact = stats.norm.isf(stats.binom.sf(k - 1, trials, rate))
    assert found == pytest.approx(exact, abs=0.035)


def test_no_success_is_no_evidence() -> None:
    assert tail_deviate(np.zeros(1), np.array([50.0]), 0.01).item() == -9.0


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.5), (20, 0.3), (50, 0.01), (50, 0.95)])
def test_the_deviate_rises_from_the_first_part_of_a_success_on(trials: int, rate: float) -> None:
    k = np.linspace(0.01, 1.0, 100)
    assert bool((np.diff(tail_deviate(k, np.full_like(k, trials), rate)) > 0).all())


@pytest.mark.parametrize(("trials", "successes"), [(50, 48), (350, 333), (1_050, 998)])
def test_the_deviate_where_half_a_success_less_is_what_was_expected(trials: int, successes: int) -> None:
    """Numerator and denominator of the approximation vanish there; the deviate does not."""
    exact = float(stats.norm.isf(stats.binom.sf(successes - 1, trials, 0.95)))
    found = tail_deviate(np.array([float(successes)]), np.array([float(trials)]), 0.95)
    assert found.item() == pytest.approx(exact, abs=0.01)
    assert found.item() < -0.01


@pytest.mark.parametrize(
    ("rate", "cells"),
    [(tnr, (50, 1, 50, 6)), (recall, (6, 50, 1, 50)), (precision, (6, 1, 50, 50)), (npv, (50, 50, 1, 6))],
    ids=repr,
)
def test_the_rows_asked_for_are_those_whose_exact_test_passes_nine_times_in_ten(
    rate: Rate, cells: tuple[int, ...]
) -> None:
    """Six of seven, with half a row more at the wrong end; the tail of a binomial is that of a beta distribution."""
    wanted, times = stats.norm.isf(0.05) + stats.norm.isf(0.1), 1.0
    while stats.norm.isf(stats.beta.cdf(0.4, 6 * times, times + MISPLACED + 1)) < wanted:
        times *= 1.1
    counts = Counts(empty_levels(()), np.array([cells]))
    cut = np.zeros((1, 1))
    path = Path(cut, cut[0], cut[0], counts, ((0,),), Survey(cut, counts))
    found = shortfall([rate >= 0.4], path, counts, counts, 1000, 0.05)
    assert found.more == pytest.approx((times - 1.0) * 1000, abs=1.0)


@pytest.mark.parametrize(("labels", "cuts"), [(2, 101), (8, 4)])
def test_each_label_has_all_its_thresholds_or_at_least_four_to_choose_from(labels: int, cuts: int) -> None:
    batch = rows(200)
    batch = Rows(batch.scores, batch.targets, {"site": np.arange(200.0) % labels})
    codes, levels = encode(batch.groups, len(batch), empty_levels(("site",)))
    grid = learning_grid(batch, codes, levels, "site")
    for column, label in zip(grid.columns, range(labels), strict=True):
        own = batch.scores[batch.groups["site"] == label]
        assert len(column.thresholds) == cuts
        assert (float(column.thresholds[0]), float(column.thresholds[-1])) == (
            float(own.min()) - 1.0,
            float(own.max()) + 1.0,
        )
    assert np.unique(grid.index, axis=0).shape == (cuts**labels, labels)


# ---------------------------------------------------------------- the learning rows between thresholds


@pytest.mark.parametrize("per_group", [None, "sex"])
def test_a_grid_that_is_thinned_counts_as_before(per_group: str | None) -> None:
    batch = rows(300)
    codes, levels = encode(batch.groups, len(batch), empty_levels(("sex",)))
    grid = learning_grid(batch, codes, levels, per_group)
    chosen = np.array([3, 50, 51, 120])
    thin = grid.kept(chosen)
    assert np.array_equal(thin.counts().table, grid.counts().table[chosen])
    assert np.array_equal(thin.thresholds, grid.thresholds[chosen])
    if per_group is None:
        assert np.array_equal(thin.counts().table, sweep(batch, codes, levels, thin.thresholds[:, 0]).table)
    extra = thin.with_misplaced_rows().counts().table - thin.counts().table
    columns = 1 if per_group is None else 2
    assert np.array_equal(extra[0].sum(0), 2 * MISPLACED * np.array([0.0, 1.0, 1.0, 0.0]))
    assert len(thin.columns) == columns


def test_a_blur_moves_rows_and_loses_none() -> None:
    batch = rows(2000)
    codes, levels = encode(batch.groups, len(batch), empty_levels(()))
    grid = learning_grid(batch, codes, levels, None).kept(np.arange(0, 2000, 40))
    plain, soft = grid.counts(), grid.counts(blurred(grid, 0.5))
    assert np.array_equal(grid.counts(blurred(grid, 0.0)).table, plain.table)
    assert np.allclose(soft.table.sum(-1), plain.table.sum(-1))
    top = slice(-12, -1)  # few rows above: blurred, false positives come up among them
    assert bool((precision.value(soft)[top] < precision.value(plain)[top]).all())


# ---------------------------------------------------------------- the choice of steps


def value(sequence: tuple[int, ...], passed: np.ndarray, goals: np.ndarray) -> float:
    """The mean objective of the last step before the first failure, one rehearsal after the other."""
    total = 0.0
    for row, worth in zip(passed.tolist(), goals.tolist(), strict=True):
        best = 0.0
        for step in sequence:
            if not row[step]:
                break
            best = worth[step]
        total += best
    return total / passed.shape[0]


@pytest.mark.parametrize("seed", range(6))
def test_chosen_steps_are_close_to_the_best_of_all_sequences(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    goals = np.broadcast_to(np.linspace(0.2, 0.9, 8), (60, 8))
    limit = torch.rand(60, 1, generator=generator) * 8
    passed = (torch.arange(8) + 1.5 * torch.randn(60, 8, generator=generator) < limit).numpy()
    ((*chosen,),) = chosen_steps(passed, goals, 0.0, 1)
    every = [one for size in range(1, 9) for one in combinations(range(8), size)]
    best = max(value(one, passed, goals) for one in every)
    assert value(tuple(chosen), passed, goals) >= 0.97 * best
    assert value(tuple(chosen), passed, goals) >= max(value((step,), passed, goals) for step in range(8))


def test_a_second_start_goes_where_the_first_does_not_reach() -> None:
    """Half of the rehearsals pass step 0 only, half step 1 only: one sequence serves one half."""
    passed = np.tile([[True, False], [False, True]], (10, 1))
    goals = np.broadcast_to([0.5, 0.6], (20, 2))
    assert chosen_steps(passed, goals, 0.0, 1) == ((1,),)
    assert chosen_steps(passed, goals, 0.0, 2) == ((1,), (0,))
    assert chosen_steps(np.zeros_like(passed), goals, 0.0, 2) == ()


def test_learning_rows_that_are_too_sharp_do_not_lead_to_a_start_without_way_back() -> None:
    """Scores of training rows separate the classes; on new rows the top is clean and the edge is not."""
    problem = aimfor.maximize(recall, precision >= 0.95)
    given = 0
    for seed in range(12):
        learn, new = rows(600, seed, shift=6.5), rows(2500, 100 + seed, shift=6.5)
        stray = (torch.rand(2500, generator=torch.Generator().manual_seed(seed)) < 0.025).numpy() & ~new.targets
        scores = np.where(stray, 4.0 + 0.5 * new.scores, new.scores)
        decision: Decision = problem.decide(scores, new.targets, guarantee=0.95, learn=(learn.scores, learn.targets))
        given += decision.threshold is not None
    assert given >= 10


# ---------------------------------------------------------------- α is handed on


def test_a_sequence_accepted_to_its_end_hands_its_error_on() -> None:
    batch = rows(400)
    codes, levels = encode(batch.groups, len(batch), empty_levels(()))
    constraints = (precision >= 0.75,)
    path = learned_path(Aim(1.0, recall, constraints, 400, 0.05), batch, codes, levels, None)
    assert path is not None
    task = DecisionTask("maximize", recall, constraints, (), 0.95)

    def accepted(tp: list[float], sequences: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        table = np.array([[k, 60.0 - k, 50.0, 300.0] for k in tp])
        made = Path(path.thresholds, path.power, path.goal, path.counts, sequences, path.survey)
        return accepted_steps(task, made, Counts(levels, table), 0.05)

    # 51 of 60 have p = 0.045 (accepted at 0.05, not at 0.025), 56 are clear, 40 hopeless.
    assert 0.025 < stats.binom.sf(50, 60, 0.75) <= 0.05
    assert accepted([56.0, 51.0], ((0,), (1,))) == (0, 1)
    assert accepted([40.0, 51.0], ((0,), (1,))) == ()
    assert accepted([56.0, 51.0, 40.0], ((0, 2), (1,))) == (0,)
    assert accepted([56.0, 51.0], ((0, 1),)) == (0, 1)


@pytest.mark.parametrize("trials", [35, 55])
def test_as_many_as_expected_is_no_deviation_whatever_rounding_does(trials: int) -> None:
    """There the likelihood ratio is 0 up to rounding, on either side."""
    k = np.array([0.7 * trials + 0.5])
    found = tail_deviate(k, np.full_like(k, trials), 0.7)
    exact = stats.norm.isf(stats.binom.sf(round(0.7 * trials + 0.5) - 1, trials, 0.7))
    assert found.item() == pytest.approx(exact, abs=0.035)


@pytest.mark.parametrize(("trials", "rate"), [(5, 0.1), (8, 0.75), (40, 0.05)])
def test_the_deviate_has_no_step_where_as_many_succeed_as_expected(trials: int, rate: float) -> None:
    """Second differences of a smooth function are of the order of the spacing's square."""
    spacing = 2e-3
    k = trials * rate + 0.5 + spacing * np.arange(-5.0, 6.0)
    found = tail_deviate(k, np.full_like(k, trials), rate)
    assert bool((np.diff(found) > 0).all())
    assert float(np.abs(np.diff(found, n=2)).max()) < spacing**2
