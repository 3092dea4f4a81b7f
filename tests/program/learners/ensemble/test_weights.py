"""Weights of members, the common scale, thresholds and promises, each against a second way to the same number."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from aimfor.learners.ensemble import choices
from aimfor.learners.ensemble.calibration import Scale, threshold_of
from aimfor.learners.ensemble.choices import Choosing, MemberOutput
from aimfor.learners.ensemble.members import Linear, Rows
from aimfor.learners.ensemble.weights import Judge, average, bagged, bootstrap, greedy, mixed, steady, values_of
from aimfor.targets.folds import make_folds
from aimfor.targets.objective import Objective


def said(seed: int = 0, n: int = 400) -> tuple[Tensor, Tensor]:
    """Three members: two that each see another half of the truth, and one that guesses."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=generator) < 0.2).long()
    noise = torch.randn(3, n, generator=generator, dtype=torch.float64)
    return torch.stack((1.5 * y + noise[0], 1.5 * y + noise[1], noise[2])), y


@pytest.mark.parametrize("metric", ["auroc", "ap", "f1", "recall@precision=0.8", "accuracy", "fbeta=2"])
def test_greedy_is_close_to_the_best_mixture_on_a_grid(metric: str) -> None:
    scores, y = said()
    judge = Judge(Objective.of(metric), scores, y)
    grid = [torch.tensor([a, b, 10 - a - b]) / 10.0 for a, b in itertools.product(range(11), range(11)) if a + b <= 10]
    best = max(judge.of(shares) for shares in grid)
    found = greedy(judge)
    assert float(found.sum()) == pytest.approx(1.0)
    assert judge.of(found) >= max(judge.of(torch.eye(3)[one]) for one in range(3))
    assert judge.of(found) >= best - 0.01
    assert judge.of(found) > judge.of(torch.tensor([0.0, 0.0, 1.0]))


@pytest.mark.parametrize("rule", [greedy, bagged, steady])
def test_every_rule_gives_shares_and_prefers_who_knows(rule: Callable[[Judge], Tensor]) -> None:
    scores, y = said()
    shares = rule(Judge(Objective.of("auroc"), scores, y))
    assert float(shares.sum()) == pytest.approx(1.0)
    assert bool((shares >= 0).all())
    assert float(shares[2]) < 0.25 < float(shares[:2].min())


def test_one_member_has_all_of_the_vote() -> None:
    scores, y = said()
    assert steady(Judge(Objective.of("ap"), scores[:1], y)).tolist() == [1.0]


def test_steady_weights_follow_the_rows_there_are() -> None:
    """With r rows of the rarest class the choice has the share r / (r + 100); F1 is weighed by average precision."""
    scores, y = said(n=2000)
    rarest = int(y.sum())
    f1, ap = (Judge(Objective.of(metric), scores, y) for metric in ("f1", "ap"))
    trust = rarest / (rarest + 100)
    expected = trust * bagged(ap, 3) + (1 - trust) / 3
    torch.testing.assert_close(steady(f1, 3), expected)
    torch.testing.assert_close(steady(ap, 3), expected)


def test_draws_keep_the_number_of_rows_of_every_class() -> None:
    _, y = said()
    for rows in bootstrap(y, 3, seed=0):
        assert torch.bincount(y[rows]).tolist() == torch.bincount(y).tolist()
        assert len(rows.unique()) < len(rows)


def test_scale_finds_the_truth_it_was_made_with_and_keeps_the_order() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = 2.0 * torch.randn(200_000, generator=generator, dtype=torch.float64) - 1.0
    y = (torch.rand(200_000, generator=generator) < truth.sigmoid()).long()
    scale = Scale.fit((truth - 0.7) / 0.3, y)
    assert scale.slope == pytest.approx(0.3, abs=0.01)
    assert scale.offsets[0] == pytest.approx(0.7, abs=0.03)
    far = torch.tensor([-1e9, -50.0, -1.0, 0.0, 1.0, 50.0, 1e9], dtype=torch.float64)
    moved = Scale(1.0, (0.0,))(far)
    assert bool((moved.diff() > 0).all())
    assert float(moved.abs().max()) < 40.0
    assert torch.equal(moved[2:5], far[2:5])
    assert Scale.restore(scale.state) == scale


def test_class_scale_gives_the_shares_of_the_classes_where_scores_say_nothing() -> None:
    y = torch.tensor([0] * 600 + [1] * 300 + [2] * 100)
    chances = Scale.fit(torch.zeros(1000, 3).double(), y).probabilities(torch.zeros(1, 3).double())
    assert chances[0].tolist() == pytest.approx([0.6, 0.3, 0.1], abs=0.01)


def test_guard_rails_leave_even_odds() -> None:
    scores, y = said()
    few = slice(0, 49)
    assert threshold_of(Objective.of("f1"), scores[0][few], y[few]).value == 0.0
    assert threshold_of(Objective.of("accuracy"), scores[0], y).value == 0.0
    tuned = threshold_of(Objective.of("f1"), scores[0], y)
    ranked = threshold_of(Objective.of("ap"), scores[0], y)  # average precision decides nothing itself
    assert ranked.value == tuned.value
    assert ranked.text.startswith("the best for F1 on")
    assert tuned.value == Objective.of("f1").tuned(scores[0], y)[0]
    assert "400 out-of-fold rows" in tuned.text


Choose = Callable[..., Choosing]


@pytest.fixture
def choosing(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Members that speak at one checkpoint each, weighed by a rule."""

    def made(scores: Tensor, y: Tensor, rule: Callable[[Judge], Tensor] = average) -> Choosing:
        monkeypatch.setattr(choices, "steady", lambda judge, seed: rule(judge))
        outputs = [MemberOutput(Linear(), scores_of_member[None]) for scores_of_member in scores]
        return Choosing(outputs, Rows(scores.t(), y), Objective.of("f1"), 7)

    return made


def test_rows_are_judged_by_choices_that_were_made_without_them(choosing: Choose) -> None:
    """By hand: even weights and the threshold of four folds, applied to the fifth."""
    scores, y = said()
    objective, folds = Objective.of("f1"), make_folds(y, 7, folds=5)
    scale = Scale(1.5, (0.25,))
    found = choosing(scores, y).judged(folds, scale)
    assert found is not None
    mixture = scale(torch.stack([Scale.fit(one, y)(one) for one in scores]).mean(0))
    decided = torch.empty(len(y), dtype=torch.float64)
    for part in folds.held:
        rest = torch.tensor([row for row in range(len(y)) if row not in set(part.tolist())])
        decided[part] = (mixture[part] > objective.tuned(mixture[rest], y[rest])[0]).double() * 2 - 1
    torch.testing.assert_close(found.scores, mixture, rtol=0, atol=1e-9)
    assert found.value(objective, Rows(scores.t(), y)) == pytest.approx(objective.value(decided, y), abs=1e-12)


def test_a_row_s_own_label_chooses_nothing_that_judges_it(choosing: Choose) -> None:
    """Two checkpoints, greedy weights and a threshold: none of a fold's follows the fold's labels."""
    scores, y = said()
    folds = make_folds(y, 7, folds=5)
    own, others = folds.held[0], folds.held[1]
    changed = y.clone()
    changed[own] = 1 - changed[own]
    both = []
    for labels in (y, changed):
        one = choosing(scores, y, rule=greedy)
        one.outputs = [MemberOutput(Linear(), torch.stack((part, part.round()))) for part in scores]
        for place in range(len(scores)):
            for checkpoint in range(2):
                one.scale(place, checkpoint)  # calibrated by all rows, before labels change
        one.rows = Rows(scores.t(), labels)
        both.append(one.judged(folds, Scale(1.0, (0.0,))))
    before, after = both
    assert before is not None
    assert after is not None
    assert torch.equal(before.scores[own], after.scores[own])
    assert torch.equal(before.thresholds[own], after.thresholds[own])
    assert not torch.equal(before.thresholds[others], after.thresholds[others])


def test_what_noise_may_expect_is_less_than_the_best_threshold_on_the_same_rows(choosing: Choose) -> None:
    generator = torch.Generator().manual_seed(0)
    flattered = kept = 0.0
    for _ in range(10):
        y = torch.zeros(60, dtype=torch.long)
        y[:12] = 1
        scores = torch.randn(2, 60, generator=generator, dtype=torch.float64)
        judge = Judge(Objective.of("f1"), scores, y)
        flattered += judge.of(greedy(judge))
        one = choosing(scores, y, rule=greedy)
        found = one.judged(make_folds(y, 0, folds=5), Scale(1.0, (0.0,)))
        assert found is not None
        kept += found.value(one.objective, one.rows)
    assert kept < 0.85 * flattered


def test_one_split_is_judged_by_parts_of_itself(choosing: Choose) -> None:
    scores, y = said()
    folds = make_folds(y, 0, single=True)
    here = folds.covered
    found = choosing(scores[:, here], y[here]).judged(folds, Scale(1.0, (0.0,)))
    assert found is not None
    assert found.index.tolist() == list(range(len(here)))
    assert len(found.thresholds.unique()) > 1
    one_positive = (torch.arange(len(here)) == 3).long()
    assert choosing(scores[:, here], one_positive).judged(folds, Scale(1.0, (0.0,))) is None


def test_mixed_is_the_weighted_sum() -> None:
    scores, _ = said()
    shares = torch.tensor([0.2, 0.3, 0.5])
    expected = 0.2 * scores[0] + 0.3 * scores[1] + 0.5 * scores[2]
    torch.testing.assert_close(mixed(scores, shares), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("rows", "expected"), [(400, 12), (5_000, 6)])
def test_twelve_draws_have_their_say_and_six_of_many_rows(rows: int, expected: int) -> None:
    scores, y = said(n=rows)
    drawn = list(Judge(Objective.of("auroc"), scores, y).draws(0))
    assert len(drawn) == expected
    assert len({tuple(one.scores[0].tolist()) for one in drawn}) == expected


@pytest.mark.parametrize("metric", ["ap", "auroc"])
@pytest.mark.parametrize("ties", [False, True])
def test_candidates_side_by_side_have_the_value_each_has_alone(metric: str, ties: bool) -> None:
    """To the last bit, so that greedy chooses as it would by asking the metric one candidate at a time."""
    objective = Objective.of(metric)
    for seed in range(30):
        scores, y = said(seed, n=2 + 31 * seed)
        scores = (2 * scores).round() if ties else scores
        alone = [objective.value(one, y) for one in scores]
        np.testing.assert_array_equal(values_of(objective, scores, y), alone)


@pytest.mark.parametrize(("rule", "metric"), [(greedy, "ap"), (bagged, "ap"), (steady, "f1")])
def test_weights_are_those_of_asking_one_by_one(
    rule: Callable[[Judge], Tensor], metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(Objective.of(metric), *said(3))
    quick = rule(judge)
    monkeypatch.setattr(Judge, "values", lambda self, mixtures: [self.value(one) for one in mixtures])
    assert torch.equal(quick, rule(judge))
