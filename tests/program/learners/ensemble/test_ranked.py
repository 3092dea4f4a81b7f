"""Ensembles of ranked lists: folds, draws and scales that keep lists whole, members that learn to order, restoring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import ndcg_score
from torch import Tensor

from aimfor.errors import InputError
from aimfor.learners.ensemble import Ensemble, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.calibration import Scale
from aimfor.learners.ensemble.choices import Choosing, MemberOutput
from aimfor.learners.ensemble.members import Job, LambdaTrees, RankedLinear, Rows, members
from aimfor.learners.ensemble.members.network import _batches
from aimfor.learners.ensemble.members.ranked import RankedRidge
from aimfor.learners.ensemble.weights import Judge, bagged, bootstrap_lists
from aimfor.metrics import NDCG, AveragePrecision, metric_from_name
from aimfor.targets.folds import informative_lists, list_parts, make_list_folds
from aimfor.targets.lists import list_importance, per_list
from aimfor.targets.objective import Objective

NDCG10 = Objective.of("ndcg@10").by_list()


def queries(count: int = 40, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Columns, grades 0–2 and lists of 1 to 12 rows; the first column orders a list, the third shifts whole lists."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 13, (count,), generator=generator)
    lists = torch.arange(count).repeat_interleave(sizes) * 3 + 5
    x = torch.randn(len(lists), 3, generator=generator)
    x[:, 2] = lists.float()
    y = (x[:, 0] + 0.4 * torch.randn(len(lists), generator=generator)).round().clamp(0, 2).long()
    return x, y, lists


@pytest.mark.parametrize("metric", [NDCG(), NDCG(3), NDCG(5, "exponential"), AveragePrecision()])
def test_the_gradient_by_weights_gives_the_value_of_every_list(metric: NDCG) -> None:
    x, y, lists = queries()
    y = y if isinstance(metric, NDCG) else (y > 0).long()
    scores = (x[:, 1] * 2).round().double()  # with ties
    known, values = per_list(metric, scores, y, lists)
    for one, value in zip(known.tolist(), values, strict=True):
        rows = lists == one
        alone = float(metric.value(scores[rows], y[rows], groups=lists[rows]))
        assert value == pytest.approx(alone, abs=1e-12, nan_ok=True)
    assert np.isnan(values).any()
    assert np.nanmean(values) == pytest.approx(float(metric.value(scores, y, groups=lists)), abs=1e-12)


def test_the_metric_of_lists_is_the_mean_of_scikit_learns() -> None:
    x, y, lists = queries()
    alone = [
        ndcg_score([y[lists == one].numpy()], [x[lists == one, 1].numpy()], k=10)
        for one in lists.unique()
        if int(y[lists == one].max()) > 0 and int((lists == one).sum()) > 1
    ]
    single = sum(1 for one in lists.unique() if int((lists == one).sum()) == 1 and int(y[lists == one].max()) > 0)
    expected = (sum(alone) + single) / (len(alone) + single)  # scikit-learn refuses lists of one row; their NDCG is 1
    assert NDCG10.value(x[:, 1], y, lists=lists) == pytest.approx(expected, abs=1e-6)


def test_folds_keep_lists_whole_and_spread_those_that_tell_something() -> None:
    _, y, lists = queries(53)
    folds = make_list_folds(lists, y, seed=3)
    assert torch.equal(folds.covered, torch.arange(len(y)))
    for rows in folds.held:
        others = torch.ones(len(y), dtype=torch.bool)
        others[rows] = False
        assert not set(lists[rows].tolist()) & set(lists[others].tolist())
    useful = informative_lists(lists, y)
    counts = [int(torch.isin(lists[rows].unique(), useful).sum()) for rows in folds.held]
    assert max(counts) - min(counts) <= 1
    assert [rows.tolist() for rows in folds.held] == [rows.tolist() for rows in make_list_folds(lists, y, 3).held]
    assert len(make_list_folds(lists, y, 3, single=True)) == 1


def test_two_telling_lists_are_needed() -> None:
    lists, y = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 1, 1, 0])
    assert list_parts(lists, y, 5, 0) is None
    with pytest.raises(InputError, match="fewer than two queries whose rows differ in grade"):
        make_list_folds(lists, y, 0)


def test_a_list_drawn_twice_is_two_lists() -> None:
    _, y, lists = queries()
    for rows, numbers in bootstrap_lists(lists, y, 3, seed=0):
        for one in numbers.unique():
            own = lists[rows[numbers == one]]
            assert len(own.unique()) == 1
            assert len(own) == int((lists == own[0]).sum())
    values = per_list(NDCG10.metric, torch.randn(len(y)), y, lists)[1]
    assert len(numbers.unique()) == len(informative_lists(lists, y)) < len(values)


def test_the_scale_makes_differences_within_lists_one_whatever_lists_shift_by() -> None:
    lists = torch.arange(50).repeat_interleave(4)
    inside = torch.randn(200, dtype=torch.float64)
    scale = Scale.of_lists(3.0 * inside + lists / 10.0, lists)
    found = scale(3.0 * inside)
    mean = torch.stack([found[lists == one].mean() for one in range(50)])
    assert float((found - mean[lists]).square().mean().sqrt()) == pytest.approx(1.0, abs=0.1)
    assert Scale.of_lists(lists.double(), lists).slope == 0.0


def test_the_metric_weighs_the_member_that_orders_lists_not_the_one_that_orders_the_table() -> None:
    x, y, lists = queries(60)
    across = lists.double() + 0.01 * torch.randn(len(y), dtype=torch.float64)
    judge = Judge(NDCG10, torch.stack((x[:, 0].double(), across)), y, lists=lists)
    shares = bagged(judge)
    assert float(shares[0]) > 0.9
    learned = [MemberOutput(RankedLinear(), one[None]) for one in judge.scores]
    rows, folds = Rows(x, y, lists=lists), make_list_folds(lists, y, 0)
    found = Choosing(learned, rows, NDCG10, 0).judged(folds, Scale(1.0, (0.0,)))
    assert found is not None
    assert found.value(NDCG10, rows) == pytest.approx(judge.value(x[:, 0].double()), abs=0.05)


def test_batches_are_whole_lists_that_can_teach() -> None:
    x, y, lists = queries()
    stream = _batches(Rows(x, y, lists=lists), 20, seed=0)
    useful = set(informative_lists(lists, y).tolist())
    for _ in range(30):
        rows = next(stream)
        assert len(rows) >= 20
        for one in lists[rows].unique().tolist():
            assert one in useful
            assert int((lists[rows] == one).sum()) % int((lists == one).sum()) == 0


def test_members_order_unseen_lists_and_are_restored_exactly() -> None:
    x, y, lists = queries(60)
    judge = lists % 2 == 0
    rows = Rows(x, y, lists=lists)
    job = Job(rows.take((~judge).nonzero()[:, 0]), rows.take(judge.nonzero()[:, 0]), NDCG10, 1, 0)
    for member in (RankedLinear(), RankedRidge(), LambdaTrees(rounds=50)):
        fitted = member.fit(job)
        scores = fitted.scores(job.held.x)
        chance = NDCG10.value(torch.zeros_like(scores), job.held.y, lists=job.held.lists)
        assert NDCG10.value(scores, job.held.y, lists=job.held.lists) > chance + 0.15
        again = member.restore(*fitted.at(0).state())
        assert torch.equal(again.scores(x), fitted.scores(x, 0))


def test_a_ensemble_of_lists_promises_what_new_lists_find_and_is_restored() -> None:
    x, y, lists = queries(60)
    new = queries(200, seed=1)
    store = MemoryStore()
    found = fit_ensemble(x, y, NDCG10, lists=lists, kinds=("linear", "trees"), folds=3, store=store)
    value = NDCG10.value(found.scores(new[0]), new[1], lists=new[2])
    assert value == pytest.approx(found.cross_validated, abs=0.06)
    assert "put in order" in found.threshold.text
    again = Ensemble.restore(found.facts, dict(found.parts()).__getitem__)
    assert again.objective.ranked
    assert torch.equal(again.scores(new[0]), found.scores(new[0]))
    other = fit_ensemble(x, y, NDCG10, lists=lists, kinds=("linear",), folds=3, store=store)  # the same cells
    assert torch.equal(other.weighted_members[0].scores(x), found.weighted_members[0].scores(x))


def test_importance_names_the_column_that_orders() -> None:
    x, y, lists = queries(60)
    found = list_importance(NDCG(10), lambda part: part[:, 0], x, y, lists, ["a", "b", "c"], budget=10**6)
    assert found.columns[0].column == "a"
    assert found.columns[0].low > 0
    assert [one.loss for one in found.columns[1:]] == [0.0, 0.0]
    fewer = list_importance(NDCG(10), lambda part: part[:, 0], x, y, lists, ["a", "b", "c"], budget=6 * 40)
    assert 0 < fewer.rows <= 40


def test_what_a_ensemble_of_lists_refuses() -> None:
    x, y, lists = queries()
    with pytest.raises(InputError, match="not of ranked lists"):
        Objective.of("auroc").by_list()
    with pytest.raises(InputError, match="none for an objective of lists"):
        fit_ensemble(x, y, NDCG10)
    with pytest.raises(InputError, match="some for 'ndcg@10' of rows"):
        fit_ensemble(x, y, Objective.of("ndcg@10"), lists=lists)
    with pytest.raises(InputError, match="one int64 list number for each row"):
        fit_ensemble(x, y, NDCG10, lists=lists[:-1])
    with pytest.raises(InputError, match="grades up to 2"):
        fit_ensemble(x, y, Objective.of("ap").by_list(), lists=lists)
    with pytest.raises(InputError, match="weights: got some with ranked lists"):
        fit_ensemble(x, y, NDCG10, lists=lists, weights=torch.ones(len(y)))
    assert {member.name for member in members(ranked=True)}.isdisjoint(member.name for member in members())
    assert not Objective.of("map@r").by_list().graded
    assert metric_from_name("map").layout == "lists"
