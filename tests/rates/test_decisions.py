"""Decisions: the chosen threshold is the best feasible one by brute force, and the margin buys what it promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.constraints.expressions import Rate
from aimfor.decisions.rows import checked_rows
from aimfor.decisions.sweep import candidates, points_each
from aimfor.decisions.thresholds import with_margin
from aimfor.errors import InputError, SolverError
from aimfor.rates import Decision, Iterates, Verdict, accuracy, fpr, positive_rate, precision, recall
from aimfor.rates.iterates import Candidate


def sample(n: int, seed: int = 0) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 0.4
    sex = (torch.rand(n, generator=generator) < 0.5).long()
    scores = torch.randn(n, generator=generator) + 1.8 * y + 0.7 * sex
    return scores, y, {"sex": sex}


def brute_force(scores: Tensor, y: Tensor, floor: float) -> float:
    best = -1.0
    for cut in scores.tolist():
        predicted = scores >= cut
        hit = float((predicted & y).sum())
        if hit / float(predicted.sum()) >= floor:
            best = max(best, hit / float(y.sum()))
    return best


@pytest.mark.parametrize("floor", [0.5, 0.8, 0.95])
def test_the_threshold_is_the_best_of_all_that_meet_the_floor(floor: float) -> None:
    scores, y, _ = sample(150)
    problem = aimfor.maximize(recall, precision >= floor)
    decision = problem.decide(scores, y, margin="none")
    counts = problem.count(scores, y, decision=decision)
    assert float(recall.value(counts)) == pytest.approx(brute_force(scores, y, floor))
    assert float(precision.value(counts)) >= floor
    assert decision.feasible


def test_a_threshold_lies_between_scores_and_says_nothing_new_about_them() -> None:
    scores = torch.tensor([0.0, 1.0, 2.0, 3.0])
    decision = aimfor.maximize(recall, precision >= 1.0).decide(scores, torch.tensor([0, 0, 1, 1]), margin="none")
    assert decision.threshold == 1.5
    assert decision(scores).tolist() == [False, False, True, True]


def test_wider_margins_keep_further_from_the_bound() -> None:
    scores, y, _ = sample(2000)
    problem = aimfor.maximize(recall, precision >= 0.8)
    values = []
    for margin in ("none", "confident", "certify"):
        decision = problem.decide(scores, y, margin=margin)
        assert decision.margin == margin
        values.append(float(precision.value(problem.count(scores, y, decision=decision))))
    assert 0.8 <= values[0] < values[1] < values[2]


def test_the_default_margin_is_certified_on_fresh_data_in_nine_of_ten_cases() -> None:
    problem = aimfor.maximize(recall, precision >= 0.8)
    met = 0
    for seed in range(100):
        scores, y, _ = sample(3000, seed)
        fresh, truth, _ = sample(3000, 1000 + seed)
        met += problem.certificate(fresh, truth, decision=problem.decide(scores, y)).met
    assert met >= 85  # 90 expected; fewer than 85 of 100 has probability 4 %
    assert met < 100  # the margin is no wider than it has to be


def test_what_is_not_said_about_margin_and_confidence_is_the_same_everywhere() -> None:
    scores, y, _ = sample(2000)
    problem = aimfor.maximize(recall, precision >= 0.8)
    said = problem.decide(scores, y, margin="certify", confidence=0.95)
    assert problem.decide(scores, y) == said
    assert with_margin(problem, checked_rows("scores", scores, y)) == said
    assert problem.decide(scores, y, confidence=0.99).threshold > said.threshold  # type: ignore[operator]


def test_what_is_out_of_reach_is_called_infeasible_and_the_least_violation_returned() -> None:
    scores, y = torch.zeros(10), torch.arange(10) < 5  # one score for all: precision is 0.5 or undefined
    decision = aimfor.maximize(recall, precision >= 0.9).decide(scores, y)
    assert not decision.feasible
    assert decision.margin == "infeasible"
    assert decision.certificate is not None
    assert decision.certificate.verdict is not Verdict.met


def test_a_margin_out_of_reach_falls_back_to_the_next_and_says_so() -> None:
    scores, y, _ = sample(60)
    decision = aimfor.maximize(recall, precision >= 0.9).decide(scores, y, margin="certify")
    assert decision.feasible
    assert decision.margin in ("none", "confident")


def test_thresholds_by_group_close_a_gap_that_one_threshold_cannot() -> None:
    scores, y, groups = sample(3000)
    problem = aimfor.maximize(accuracy, fpr.gap("sex") <= 0.02)
    common = problem.decide(scores, y, groups=groups, margin="none")
    own = problem.decide(scores, y, groups=groups, per_group="sex", margin="none")

    def value(rate: Rate, decision: object) -> float:
        return float(rate.value(problem.count(scores, y, groups=groups, decision=decision)))  # type: ignore[arg-type]

    assert abs(value(fpr.on(sex=1), own) - value(fpr.on(sex=0), own)) <= 0.02
    assert value(accuracy, own) > value(accuracy, common) + 0.03
    assert own.thresholds[1.0] > own.thresholds[0.0]
    expected = torch.where(groups["sex"] == 1, scores >= own.thresholds[1.0], scores >= own.thresholds[0.0])
    assert torch.equal(own(scores, groups), expected)


def test_thresholds_by_group_are_the_best_of_all_pairs() -> None:
    scores, y, groups = sample(60)
    problem = aimfor.maximize(accuracy, positive_rate.gap("sex") <= 0.05)
    own = problem.decide(scores, y, groups=groups, per_group="sex", margin="none")
    reached = float(accuracy.value(problem.count(scores, y, groups=groups, decision=own)))
    man = groups["sex"] == 1
    best = 0.0
    cuts = [*scores.tolist(), 99.0]
    for a in cuts:
        for b in cuts:
            predicted = torch.where(man, scores >= a, scores >= b)
            if abs(float(predicted[man].double().mean() - predicted[~man].double().mean())) <= 0.05:
                best = max(best, float((predicted == y).double().mean()))
    assert reached == pytest.approx(best)


def test_bad_settings_are_named() -> None:
    scores, y, groups = sample(30)
    problem = aimfor.maximize(recall, precision >= 0.9)
    with pytest.raises(InputError, match="margin"):
        problem.decide(scores, y, margin="wide")
    with pytest.raises(InputError, match="per_group"):
        problem.decide(scores, y, per_group="sex")
    decision = problem.decide(scores, y, groups=groups, per_group="sex")
    with pytest.raises(InputError, match="sex"):
        decision(scores)


@pytest.mark.parametrize("options", [{"margin": "none"}, {"guarantee": 0.95}], ids=repr)
def test_more_than_ten_labels_with_thresholds_of_their_own_are_refused(options: dict[str, Any]) -> None:
    """Four thresholds for each of 11 labels make four million combinations."""
    scores, y, _ = sample(550)
    problem = aimfor.maximize(recall, precision >= 0.5)
    with pytest.raises(InputError, match="per_group: got 11 labels, expected at most 10 labels"):
        problem.decide(scores, y, groups={"site": torch.arange(550) % 11}, per_group="site", **options)
    assert points_each(10) == 4


# ---------------------------------------------------------------- iterates


class Scores(torch.nn.Module):
    """A model that is its own table of scores."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(scores)


def test_the_best_feasible_iterate_is_kept_whatever_comes_after() -> None:
    scores, y, _ = sample(400)
    problem = aimfor.maximize(recall, precision >= 0.8)
    iterates = Iterates(problem)
    good, bad = Scores(scores), Scores(-scores)
    assert iterates.consider(good, good.scores, y)
    assert not iterates.consider(bad, bad.scores, y)
    decision = iterates.restore(bad)
    assert torch.equal(bad.scores, good.scores)
    assert decision == iterates.best.decision  # type: ignore[union-attr]


def test_any_feasible_iterate_comes_before_an_infeasible_one() -> None:
    scores, y, _ = sample(60)
    iterates = Iterates(aimfor.maximize(recall, precision >= 0.9))
    useless, good = Scores(torch.zeros(60)), Scores(scores)
    assert iterates.consider(useless, useless.scores, y)
    assert not iterates.best.decision.feasible  # type: ignore[union-attr]
    assert iterates.consider(good, good.scores, y, margin="none")
    assert iterates.best.decision.margin == "none"  # type: ignore[union-attr]
    assert not iterates.consider(useless, useless.scores, y)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_of_two_feasible_iterates_the_one_with_the_better_objective_is_kept(direction: str) -> None:
    scores, y, _ = sample(400)
    goal = recall if direction == "maximize" else 1 - recall
    for order in ((0.0, 1.0, 0.5), (1.0, 0.0, 0.5)):
        iterates = Iterates(getattr(aimfor, direction)(goal, precision >= 0.8))
        models = [Scores(scores + shift * y) for shift in order]
        kept = [iterates.consider(model, model.scores, y, margin="none") for model in models]
        assert kept == [True, order[1] == 1.0, False]
        assert iterates.best.decision.margin == "none"  # type: ignore[union-attr]


def test_an_iterate_without_a_measured_objective_comes_last() -> None:
    scores, y, _ = sample(60)
    problem = aimfor.maximize(recall, positive_rate <= 1.0)
    known, unknown = (Candidate({}, Decision(0.0), problem.count(scores, y), value) for value in (0.1, math.nan))
    for sign in (1.0, -1.0):
        assert known.rank(sign) > unknown.rank(sign)
        assert not unknown.rank(sign) > unknown.rank(sign)


def test_iterates_survive_a_save_and_load() -> None:
    scores, y, _ = sample(400)
    problem = aimfor.maximize(recall, precision >= 0.8)
    iterates = Iterates(problem, most=3)
    iterates.consider(Scores(scores), scores, y)
    other = Iterates(problem, most=3)
    other.load_state_dict(iterates.state_dict())
    model = Scores(torch.zeros(400))
    assert other.restore(model).threshold == iterates.best.decision.threshold  # type: ignore[union-attr]
    assert torch.equal(model.scores, scores)


def test_a_mixture_is_the_best_convex_combination_and_repeats_with_its_seed() -> None:
    _, y, _ = sample(1000)
    flip = torch.rand(1000, generator=torch.Generator().manual_seed(5))
    # Two iterates on either side of the bound: fpr 0.05 with recall 0.5, and fpr 0.25 with recall 0.9.
    first = torch.where(torch.where(y, flip < 0.5, flip < 0.05), 1.0, -1.0)
    second = torch.where(torch.where(y, flip < 0.9, flip < 0.25), 1.0, -1.0)
    problem = aimfor.maximize(recall, fpr <= 0.15)
    iterates = Iterates(problem, most=2)
    for scores in (first, second):
        iterates.consider(Scores(scores), scores, y, margin="none")
    rates = [(float(recall.value(c.counts)), float(fpr.value(c.counts))) for c in iterates.kept]
    mixture = iterates.mixture()
    members = [(w, rates[iterates.kept.index(c)]) for w, c in zip(mixture.weights, mixture.candidates, strict=True)]
    mixed = [sum(weight * rate[i] for weight, rate in members) for i in (0, 1)]
    assert len(members) == 2
    share = np.linspace(0, 1, 10001)
    feasible = share * rates[1][1] + (1 - share) * rates[0][1] <= 0.15
    best = np.max((share * rates[1][0] + (1 - share) * rates[0][0])[feasible])
    assert mixed[0] == pytest.approx(best, abs=1e-3)
    assert mixed[1] <= 0.15 + 1e-9
    assert torch.equal(mixture.assign(50, seed=3), mixture.assign(50, seed=3))
    assert not math.isnan(mixed[0])


def test_an_empty_collection_says_what_to_do() -> None:
    iterates = Iterates(aimfor.maximize(recall, fpr <= 0.1))
    with pytest.raises(SolverError, match="consider"):
        iterates.restore(Scores(torch.zeros(1)))
    with pytest.raises(SolverError, match="most=20"):
        iterates.mixture()


# ---------------------------------------------------------------- one rule


def test_a_score_at_the_threshold_is_negative_for_rates_metrics_and_decisions_alike() -> None:
    """Scores (0, −1), labels (1, 0): nobody is above 0, so half are right, whoever is asked."""
    scores, y = torch.tensor([0.0, -1.0]), torch.tensor([1, 0])
    assert float(aimfor.Accuracy().value(scores, y)) == 0.5
    problem = aimfor.maximize(accuracy, recall >= 0.1)
    assert float(accuracy.value(problem.count(scores, y))) == 0.5
    assert problem.certificate(scores, y).objective_value == 0.5
    assert float(accuracy.value(problem.count(scores, y, decision=Decision(0.0)))) == 0.5
    problem(scores, y)
    assert float(accuracy.value(problem._epoch)) == 0.5
    engine = aimfor.RateEngine(every=0)
    aimfor.MetricLoss("tpr@fpr=0.1", engine)(scores.requires_grad_(), y)
    assert float(engine._state[0, 2]) == 0.0  # true positives counted at threshold 0


def test_cuts_lie_between_neighbours_and_beyond_both_ends() -> None:
    scores = np.array([3.7, 0.25, 0.5, 0.25])
    assert candidates(scores, scores > 1).tolist() == pytest.approx([-0.75, 0.375, 2.1, 4.7])
    assert int((scores > candidates(scores, scores > 1)[-1]).sum()) == 0


def test_of_many_cuts_half_are_spaced_by_all_ranks_and_half_by_those_of_the_positives() -> None:
    scores, nobody = np.arange(100.0), np.zeros(100, dtype=bool)
    assert candidates(scores, nobody, most=10).tolist() == [-1.0, 24.5, 49.5, 74.5, 100.0]
    found = candidates(scores, scores >= 91, most=10)
    assert found.tolist() == [-1.0, 24.5, 49.5, 74.5, 90.5, 92.5, 94.5, 96.5, 98.5, 100.0]
