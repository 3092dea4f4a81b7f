"""Counting forms against every labelling, the fast search against the table, and the facts it rests on."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.direct import CountRule, Rows
from aimfor.direct.forms import counts as counting
from aimfor.direct.forms.counts import best_counts
from aimfor.direct.lists import sort_lists

BOTH = pytest.mark.parametrize("sign", [1, -1])


def mcc(tp, fp, fn, tn):
    return (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)).sqrt()


def g_mean(tp, fp, fn, tn):
    return (tp / (tp + fn) * tn / (tn + fp)).sqrt()


def balanced_accuracy(tp, fp, fn, tn):
    return 0.5 * (tp / (tp + fn) + tn / (tn + fp))


CURVED = {
    "f1": CountRule(aimfor.FBeta(1.0).of_counts, True, True, 1.0),
    "f2": CountRule(aimfor.FBeta(2.0).of_counts, True, True, 1.0),
    "f0.3": CountRule(aimfor.FBeta(0.3).of_counts, True, True, 1.0),
    "iou": CountRule(aimfor.IoU().of_counts, True, True, 1.0),
    "accuracy": CountRule(aimfor.Accuracy().of_counts, True, True, 1.0),
    "balanced": CountRule(balanced_accuracy, True, True, 1.0),
}
ANY = CURVED | {
    "mcc": CountRule(mcc, span=2.0),
    "g_mean": CountRule(g_mean, concave_in_tp=True, span=1.0),
    "odd": CountRule(lambda tp, fp, fn, tn: torch.sin(tp * 3.0 + fp * 5.0)),
}


def draw(n: int, case: int) -> tuple[Tensor, Tensor]:
    scores = torch.randn(1, n, dtype=torch.float64)
    if case % 3 == 1:
        scores = scores.round()
    if case % 3 == 2:
        scores = scores * 0.01
    positive = torch.rand(1, n) < 0.4
    positive[0, 0], positive[0, 1] = True, False
    return scores, positive


def objective(scores: Tensor, positive: Tensor, chosen: Tensor, epsilon: float, sign: int, rule: CountRule) -> float:
    p, q = positive.sum().double(), (~positive).sum().double()
    tp, fp = (chosen & positive).sum().double(), (chosen & ~positive).sum().double()
    return float((scores * chosen).mean() + sign * epsilon * (1 - rule.worth(tp, fp, p, q)))


def of_counts(scores, positive, tp, fp, epsilon, sign, rule):
    chosen = torch.zeros_like(positive)
    for member, count in ((positive, tp), (~positive, fp)):
        order = scores[0].masked_fill(~member[0], -float("inf")).argsort(descending=True)
        chosen[0, order[: int(count)]] = True
    return objective(scores, positive, chosen, epsilon, sign, rule)


@BOTH
@pytest.mark.parametrize("name", ANY)
def test_best_of_all_labellings_is_reached(name, sign):
    rule = ANY[name]
    for case in range(12):
        n = 3 + case % 5
        scores, positive = draw(n, case)
        epsilon = float(10 ** (2 * torch.rand(()) - 1.5))
        best = max(
            objective(scores, positive, torch.tensor([chosen]), epsilon, sign, rule)
            for chosen in itertools.product([False, True], repeat=n)
        )
        lists = sort_lists(scores, positive, None).lists
        tp, fp = best_counts(lists, torch.tensor([epsilon * n], dtype=torch.float64), sign, rule)
        assert of_counts(scores, positive, tp, fp, epsilon, sign, rule) == pytest.approx(best, abs=1e-12)


@BOTH
@pytest.mark.parametrize("name", CURVED)
def test_search_equals_the_table_on_longer_rows(name, sign):
    rule = CURVED[name]
    plain = CountRule(rule.measure)  # nothing known about it: the whole table, nothing pruned
    for case in range(12):
        scores, positive = draw(150, case)
        epsilon = float(10 ** (3 * torch.rand(()) - 2))
        lists, reward = sort_lists(scores, positive, None).lists, torch.tensor([epsilon * 150], dtype=torch.float64)
        found = [best_counts(lists, reward, sign, r) for r in (rule, plain)]
        fast, slow = (of_counts(scores, positive, *pair, epsilon, sign, rule) for pair in found)
        assert fast == pytest.approx(slow, abs=1e-12)


@BOTH
@pytest.mark.parametrize(("convex", "concave"), list(itertools.product([False, True], repeat=2)))
def test_a_known_shape_spares_the_table(sign, convex, concave):
    """One bisection for each count of one class, two counts a step; without the shape every pair of counts."""
    asked = []

    def measure(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        asked.append((tp + fp + fn + tn).numel())
        return aimfor.Accuracy().of_counts(tp, fp, fn, tn)

    positive = (torch.arange(400) < 160)[None]
    lists = sort_lists(torch.randn(1, 400, dtype=torch.float64), positive, None).lists
    best_counts(lists, torch.tensor([400.0], dtype=torch.float64), sign, CountRule(measure, convex, concave))
    if convex if sign > 0 else concave:
        assert sum(asked) <= 2 * 401 * (240).bit_length() + 401
    else:
        assert sum(asked) == 161 * 241


@pytest.mark.parametrize("name", [*CURVED, "g_mean"])
def test_claims_about_the_shape_are_true(name):
    rule = ANY[name]
    p, q = torch.tensor(9.0, dtype=torch.float64), torch.tensor(14.0, dtype=torch.float64)
    tp = torch.arange(10, dtype=torch.float64)[:, None]
    fp = torch.arange(15, dtype=torch.float64)[None]
    value = rule.worth(tp, fp, p, q)
    assert bool((value.diff(dim=0) >= -1e-12).all())
    assert bool((value.diff(dim=1) <= 1e-12).all())
    assert float(value.max() - value.min()) <= 1.0
    if rule.convex_in_fp:
        assert bool((value.diff(n=2, dim=1) >= -1e-12).all())
    if rule.concave_in_tp:
        assert bool((value.diff(n=2, dim=0) <= 1e-12).all())


def test_g_mean_is_not_convex_in_fp_so_the_claim_would_be_false():
    tp, fp = torch.tensor(5.0, dtype=torch.float64), torch.arange(15, dtype=torch.float64)
    assert bool((g_mean(tp, fp, 9 - tp, 14 - fp).diff(n=2) < 0).any())


@BOTH
@pytest.mark.parametrize("name", ["f1", "mcc"])
def test_many_rows_equal_the_rows_one_by_one(name, sign):
    rule = ANY[name]
    scores, positive = torch.randn(7, 20, dtype=torch.float64), torch.rand(7, 20) < 0.4
    where = torch.rand(7, 20) < 0.8
    positive[2], positive[3], where[4] = False, True, False
    reward = 0.7 * where.sum(1).double()
    together = torch.stack(best_counts(sort_lists(scores, positive, where).lists, reward, sign, rule))
    for row in range(7):
        only = slice(row, row + 1)
        alone = best_counts(sort_lists(scores[only], positive[only], where[only]).lists, reward[only], sign, rule)
        assert torch.equal(together[:, only], torch.stack(alone))


def test_blocks_do_not_change_the_table(monkeypatch):
    scores, positive = draw(60, 0)
    lists, reward = sort_lists(scores, positive, None).lists, torch.tensor([30.0], dtype=torch.float64)
    whole = best_counts(lists, reward, 1, ANY["mcc"])
    monkeypatch.setattr(counting, "BLOCK", 50)
    assert best_counts(lists, reward, 1, ANY["mcc"]) == whole


def test_any_confusion_function_trains():
    metric = aimfor.Confusion(mcc, name="mcc")
    scores, targets = torch.randn(40, requires_grad=True), torch.rand(40) < 0.3
    loss_fn = aimfor.MetricLoss(metric, aimfor.DirectEngine())
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(scores, targets).backward()
        optimizer.step()
    assert float(metric.value(scores, targets)) > 0.9


@pytest.mark.parametrize("average", ["dataset", "image"])
@pytest.mark.parametrize("classes", ["binary", "mean", 1])
def test_masks_train_in_every_kind_of_iou(average, classes):
    metric = aimfor.IoU(average=average, classes=classes)
    shape = (3, 4, 5, 6) if classes != "binary" else (3, 5, 6)
    scores = torch.randn(shape, requires_grad=True)
    targets = torch.randint(0, 4, (3, 5, 6)) if classes != "binary" else torch.randint(0, 2, (3, 5, 6))
    where = torch.rand(3, 5, 6) < 0.9
    targets[~where] = 255 if classes != "binary" else 7
    loss_fn = aimfor.MetricLoss(metric, aimfor.DirectEngine())
    start = float(metric.value(scores, targets, where=where))
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(80):
        optimizer.zero_grad()
        loss = loss_fn(scores, targets, where=where)
        assert loss.item() == pytest.approx(1 - float(metric.value(scores, targets, where=where)), abs=1e-6)
        loss.backward()
        assert not scores.grad.movedim(1, -1)[~where].any() if classes != "binary" else not scores.grad[~where].any()
        optimizer.step()
    assert float(metric.value(scores, targets, where=where)) > 0.5 + 0.5 * start


def test_gradient_is_the_difference_of_two_labellings():
    # One positive just above the threshold, one negative just below: sign +1 says "do not lose these two".
    scores = torch.tensor([0.1, 3.0, -0.1, -3.0], requires_grad=True)
    targets = torch.tensor([1, 1, 0, 0])
    loss = aimfor.MetricLoss(aimfor.Accuracy(), aimfor.DirectEngine(epsilon=1.0, sign=1))(scores, targets)
    loss.backward()
    assert loss.item() == 0.0
    assert scores.grad.tolist() == [-0.25, 0.0, 0.25, 0.0]


def test_multiclass_zero_one_loss_is_augmented_per_example():
    scores = torch.tensor([[1.0, 0.8, -2.0], [0.0, 2.0, 1.9], [0.0, 1.0, 0.9]], requires_grad=True)
    targets = torch.tensor([0, 1, 2])
    loss_fn = aimfor.MetricLoss(aimfor.Accuracy(), aimfor.DirectEngine(epsilon=0.5, sign=1))
    loss = loss_fn(scores, targets)
    loss.backward()
    assert loss.item() == pytest.approx(1 / 3)
    # Rows 0 and 1 are right by less than ε and are pushed from their runner-up; row 2 is wrong already.
    expected = torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [0.0, 0.0, 0.0]]) / (3 * 0.5)
    torch.testing.assert_close(scores.grad, expected)


def test_a_row_without_entries_changes_nothing() -> None:
    scores, positive = torch.randn(3, 6, dtype=torch.float64), torch.rand(3, 6) < 0.5
    where, share = torch.ones(3, 6, dtype=torch.bool), torch.tensor([0.5, 0.0, 0.5])
    where[1] = False
    full = torch.tensor([0, 2])
    loss, rule = torch.tensor(0.3), CURVED["f1"]
    whole = counting.CountForm(Rows(scores, positive, where), share, loss, rule)
    rest = counting.CountForm(Rows(scores[full], positive[full], None), share[full], loss, rule)
    pairs = [(whole.predict(), rest.predict()), (whole.truth(), rest.truth())]
    pairs += [(whole.augment(0.4, sign), rest.augment(0.4, sign)) for sign in (1, -1)]
    for with_it, without in pairs:
        assert torch.equal(with_it[full], without)
        assert not with_it[1].any()
