"""The fair protocol: same start, same draws, choices on validation data alone, honest statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import aimfor
from aimfor.errors import InputError
from paper.data.tables import stratified
from paper.experiments.ours import mq2008
from paper.protocol import candidates, choosing, protocol, recipe, training
from paper.protocol.protocol import RIVALS, Budget, Checkpoint, Contest, Split
from paper.report import scoreboard, statistics
from paper.rivals import libauc


def make_task(n: int = 200) -> Contest:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(3 * n, 5, generator=generator)
    y = (x[:, 0] - x[:, 1] + torch.randn(3 * n, generator=generator) > 1.5).long()
    parts = [Split(x[i * n : (i + 1) * n], y[i * n : (i + 1) * n]) for i in range(3)]
    return Contest(*parts, lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)))


def test_stacked_training_equals_separate_runs() -> None:
    task, budget = make_task(), Budget(steps=12, extra=4, batch=32, looks=3)
    together = training.train_stacked(task, RIVALS, budget, seed=5)
    for method in RIVALS:
        alone = [p for rate in budget.rates for p in training.train(task, method, rate, budget, 5)]
        assert len(alone) == len(together[method.name]) == 6
        for a, b in zip(alone, together[method.name], strict=True):
            assert a.rate == b.rate
            torch.testing.assert_close(a.validation, b.validation, rtol=1e-4, atol=1e-5)
            for name in a.state:
                torch.testing.assert_close(a.state[name], b.state[name], rtol=1e-3, atol=1e-5)


def test_rivals_start_alike_and_see_the_same_draws() -> None:
    y = (torch.arange(100) < 10).long()
    a = training.draw(y, 16, False, torch.Generator().manual_seed(1))
    b = training.draw(y, 16, False, torch.Generator().manual_seed(1))
    assert torch.equal(a, b)
    balanced = training.draw(y, 16, True, torch.Generator().manual_seed(1))
    assert int(y[balanced].sum()) == 8


def test_losses_agree_with_their_definitions() -> None:
    scores, y = torch.randn(50), (torch.rand(50) < 0.2).long()
    shares = torch.bincount(y, minlength=2) / 50
    p = torch.where(y > 0, scores.sigmoid(), 1 - scores.sigmoid())
    assert float(protocol.cross_entropy(scores, y, shares)) == pytest.approx(float(-p.log().mean()), rel=1e-5)
    by_class = [-(p[y == c].log().sum()) / (2 * (y == c).sum()) for c in (0, 1)]
    assert float(protocol.weighted_cross_entropy(scores, y, shares)) == pytest.approx(float(sum(by_class)), rel=1e-5)
    assert float(protocol.focal(scores, y, shares)) == pytest.approx(float(-((1 - p) ** 2 * p.log()).mean()), rel=1e-4)
    two = torch.stack((torch.zeros(50), scores), 1)
    assert float(protocol.focal(two, y, shares)) == pytest.approx(float(protocol.focal(scores, y, shares)), rel=1e-5)


def test_threshold_is_chosen_on_validation_data_and_kept_for_test_data() -> None:
    task, f1 = make_task(), aimfor.FBeta(1.0)
    model = task.make_model()
    point = Checkpoint("one", model.state_dict(), training.scores_of(model, task.validation.x), 0.1)
    _, value, shift = choosing.best(f1, [point], task.validation)
    assert value == pytest.approx(float(f1.value(point.validation + shift, task.validation.y)))
    grid = [float(f1.value(point.validation - t, task.validation.y)) for t in torch.linspace(-2, 2, 400)]
    assert value >= max(v for v in grid if not math.isnan(v))
    expected = float(f1.value(training.scores_of(model, task.test.x) + shift, task.test.y))
    assert choosing.chosen(task, f1, [point]).test == expected


SHORT = Budget(steps=20, extra=5, batch=32, rates=(1e-2,), looks=2)


def scored(name: str, validation: Tensor) -> Checkpoint:
    return Checkpoint(name, {}, validation, 0.1)


def test_default_reports_every_rival_and_every_way_to_go_on() -> None:
    found = recipe.run_all(make_task(), ["auroc", "f1"], SHORT, seed=0)
    for result in found.values():
        assert set(result["rivals"]) == {rival.name for rival in RIVALS}
        assert set(result["ours"]) == {candidates.OWN, candidates.METRIC, candidates.HEAD}
        assert result["rival_all"]["name"].endswith("on, all data") or result["rival_all"] == result["rival"]
        assert result["default"]["name"].endswith("all data")


@pytest.mark.parametrize("own_is_bad", [False, True])
def test_bad_candidates_change_nothing(own_is_bad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled_ways(metric: aimfor.Metric, leader: Checkpoint, *rest: Any) -> dict[str, candidates.Way]:
        ways = candidates.ways_on(metric, leader, *rest)
        bad = Checkpoint("spoiled", leader.state, -leader.validation, leader.rate)
        spoil = (candidates.METRIC, candidates.HEAD, *((candidates.OWN,) if own_is_bad else ()))
        return {**ways, **dict.fromkeys(spoil, lambda task: bad)}

    monkeypatch.setattr(recipe, "ways_on", spoiled_ways)
    found = recipe.run_all(make_task(), ["auroc"], SHORT, seed=0)["auroc"]
    assert found["ours"][candidates.HEAD]["name"] == "spoiled"
    assert found["default"] == found["rival_all"]
    assert (found["default"] == found["rival"]) == own_is_bad


def test_the_metric_is_used_only_when_validation_data_is_convinced() -> None:
    metric, y = aimfor.AUROC(), (torch.arange(60) < 20).long()
    part, signal = Split(torch.zeros(60, 1), y), y.float()
    weak, clear = signal + 1.5 * torch.randn(60), signal + 0.1 * torch.randn(60)
    rival, same = scored("rival", weak), scored("own", weak + 0.01 * torch.randn(60))
    offered = {candidates.METRIC: same, candidates.HEAD: same}
    assert recipe.going_on(metric, rival, same, part) == candidates.OWN
    assert recipe.going_on(metric, rival, scored("own", -signal), part) is None
    assert recipe.convinced(metric, candidates.OWN, same, offered, part) == candidates.OWN
    offered[candidates.METRIC] = scored("metric", clear)
    assert recipe.convinced(metric, candidates.OWN, same, offered, part) == candidates.METRIC
    assert recipe.convinced(metric, None, scored("rival", clear), offered, part) is None
    assert choosing.share_won(metric, rival, rival, part) == 0.5


def test_the_last_phase_sees_validation_data_and_no_test_data() -> None:
    task = make_task()
    whole = recipe.all_labelled(task)
    assert len(whole.train) == len(task.train) + len(task.validation)
    assert torch.equal(whole.train.x[len(task.train) :], task.validation.x)
    assert whole.test is task.test


def test_the_rival_may_be_its_own_further_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task()

    def with_a_perfect_trial(metric: aimfor.Metric, leader: Checkpoint, *rest: Any) -> dict[str, candidates.Way]:
        perfect = Checkpoint("perfect", leader.state, task.validation.y.float(), leader.rate)
        return {**candidates.ways_on(metric, leader, *rest), candidates.OWN: lambda task: perfect}

    monkeypatch.setattr(recipe, "ways_on", with_a_perfect_trial)
    assert recipe.run_all(task, ["auroc"], SHORT, seed=0)["auroc"]["rival"]["name"] == "perfect"


def test_the_last_phase_keeps_the_threshold_of_its_trial() -> None:
    task, f1 = make_task(), aimfor.FBeta(1.0)
    start = training.train(task, RIVALS[0], 1e-2, SHORT, 0)[-1]
    ways = candidates.ways_on(f1, start, RIVALS[0], SHORT, 0)
    trial, final = (ways[candidates.OWN](part) for part in (task, recipe.all_labelled(task)))
    found = recipe.finished(task, f1, start, candidates.OWN, {candidates.OWN: trial}, ways)
    _, shift = choosing.tuned_value(f1, trial.validation, task.validation)
    _, refitted = choosing.tuned_value(f1, final.validation, task.validation)
    assert shift != refitted
    assert found.test == float(f1.value(choosing.scores_on_test(task, final) + shift, task.test.y))


def test_one_class_against_the_rest_is_ranked_by_its_probability() -> None:
    y, scores = torch.arange(90) % 3, torch.randn(90, 3)
    part, moved = Split(scores, y), scores + 5 * torch.randn(90, 1)  # another level for each row: the same softmax
    for name in ("auroc_ovr", "auc_mu"):
        metric = aimfor.metric_from_name(name)
        assert choosing.tuned_value(metric, moved, part)[0] == pytest.approx(
            choosing.tuned_value(metric, scores, part)[0]
        )
        assert choosing.share_won(metric, scored("moved", moved), scored("plain", scores), part) == 0.5
    raw = aimfor.metric_from_name("auroc_ovr")
    assert float(raw.value(moved, y)) != pytest.approx(float(raw.value(scores, y)))


def test_on_ranked_lists_the_default_is_the_rival() -> None:
    x = torch.randn(90, 6, 46)
    y = (x[..., 0] + torch.randn(90, 6) > 0.5).long()
    y[:, 0] = 1
    parts = [Split(x[i : i + 30], y[i : i + 30]) for i in (0, 30, 60)]
    task = Contest(*parts, mq2008.Scorer, classes=3)
    found = recipe.run_all(task, ["ndcg@10"], replace(SHORT, rates=(1e-3,)), 0, rivals=mq2008.RANKERS)["ndcg@10"]
    assert task.ranked
    assert not make_task().ranked
    assert found["default"] == found["rival"]
    assert found["rival_all"]["name"].endswith("all data")


def test_averaged_weights_are_the_mean_over_all_steps() -> None:
    task, method, every = make_task(), RIVALS[0], replace(SHORT, looks=5)
    start = training.train(task, method, 1e-2, SHORT, 0)[-1]
    points = training.fine_tune(task, start, method, 1e-3, every, 0)  # looks at each of the five steps
    mean = training.averaged(task, start, method, 1e-3, SHORT, 0)
    assert len(points) == 5
    for name, value in mean.state.items():
        torch.testing.assert_close(value, torch.stack([point.state[name] for point in points]).mean(0))


def test_a_head_keeps_on_all_data_what_validation_data_chose() -> None:
    task = make_task()
    start = training.train(task, RIVALS[0], 1e-2, SHORT, 0)[0]
    refit = candidates.Refit(aimfor.AUROC(), start)
    assert recipe._kept_original(refit)  # nothing was fitted yet
    refit(task)
    assert not recipe._kept_original(refit)
    kept = (refit.ridges, refit.objectives)
    assert len(kept[0]) == 1
    assert kept[1] is not None
    refit(recipe.all_labelled(task))
    assert (refit.ridges, refit.objectives) == kept


def test_libauc_trains_under_the_protocol_where_it_is_installed() -> None:
    pytest.importorskip("libauc")
    task = make_task()
    for method in libauc.rivals(*libauc.RATES):
        assert method.trainer is not None
        points = method.trainer(task, SHORT, 0)
        assert len(points) == SHORT.looks * len(libauc.RATES[method.name])
        assert all(bool(torch.isfinite(point.validation).all()) for point in points)


def test_padding_of_lists_is_not_judged() -> None:
    part = Split(torch.zeros(2, 4, 1), torch.tensor([[1, 0, -1, -1], [0, 2, 1, -1]]))
    scores = torch.tensor([[2.0, 1.0, 9.0, 9.0], [0.0, 2.0, 1.0, 9.0]])
    for name in ("ndcg@10", "ap"):
        assert choosing.tuned_value(aimfor.metric_from_name(name), scores, part)[0] == pytest.approx(1.0)


def test_test_labels_do_not_influence_any_choice() -> None:
    task, budget = make_task(), Budget(steps=20, extra=5, batch=32, rates=(1e-2,), looks=2)
    flipped = Contest(task.train, task.validation, Split(task.test.x, 1 - task.test.y), task.make_model)
    a, b = (recipe.run_all(t, ["auroc"], budget, seed=0)["auroc"] for t in (task, flipped))
    for role in ("rival", "default"):
        assert (a[role]["name"], a[role]["validation"]) == (b[role]["name"], b[role]["validation"])
        assert a[role]["test"] == pytest.approx(1 - b[role]["test"])


def test_paired_interval_is_students_and_bootstrap_covers_the_median() -> None:
    ours, theirs = np.random.default_rng(0).normal(size=(2, 12))
    found = statistics.paired(ours.tolist(), theirs.tolist())
    oracle = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(oracle.low), pytest.approx(oracle.high))
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert [statistics.paired([a, a], [0.0, 0.0]).p for a in (0.0, 1.0)] == [1.0, 0.0]
    assert statistics.paired([2.0, 3.1, 4.0], [1.0, 2.0, 3.0]).verdict == "better"
    assert statistics.paired([1.0, 2.0, 3.0], [2.0, 3.1, 4.0]).verdict == "worse"
    assert statistics.paired([1.0], [0.0]).verdict == "no difference"
    median, low, high = statistics.bootstrap_median([0.1, 0.2, 0.3, 0.4, 0.5])
    assert low <= median == 0.3 <= high
    with pytest.raises(InputError, match="as many of one"):
        statistics.paired([1.0], [])


def test_scoreboard_counts_cells_and_skips_undefined_seeds(tmp_path: Path) -> None:
    def entry(name: str, seed: int, ours: float | None, theirs: float) -> dict[str, object]:
        found = {
            "rivals": {"cross-entropy": theirs},
            "papers": {},
            "rival": {"name": "cross-entropy", "validation": 0.5, "test": theirs},
            "default": {"name": "head", "validation": 0.6, "test": ours},
        }
        return {"cell": {"set": name, "seed": seed}, "result": {"auroc": found}}

    results = [entry("a", s, 0.8 + 0.001 * s, 0.7) for s in range(3)] + [entry("b", 0, None, 0.5)]
    results += [entry("b", s, 0.5, 0.6 + 0.001 * s) for s in (1, 2)]
    lines = scoreboard.lines(results, lambda cell: cell["set"])
    (score,) = scoreboard.scores(lines)
    assert (score.cells, score.better, score.worse, score.wins, score.losses) == (2, 1, 1, 1, 1)
    smaller, larger = sorted(line.difference.p for line in lines)
    assert 2 * smaller < 0.05
    assert score.surely == (1, int(larger < 0.05))
    (together,) = scoreboard.scores([*lines, *[replace(lines[1], cell=str(n)) for n in range(20)]])
    assert (together.worse, together.surely) == (21, (1, 0))  # p about 0.003, twenty-one times
    assert [line.difference.pairs for line in lines] == [3, 2]
    scoreboard.write_report(tmp_path, "T", "S", lines)
    assert "| a | auroc | 0.700 |" in (tmp_path / "table.md").read_text()


def test_split_keeps_each_class_on_both_sides() -> None:
    y: Tensor = (torch.arange(40) < 3).long()
    rest, taken = stratified(y, 1 / 3, 0)
    assert sorted(torch.cat((rest, taken)).tolist()) == list(range(40))
    assert (int(y[rest].sum()), int(y[taken].sum())) == (2, 1)
