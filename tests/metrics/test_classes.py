"""Metrics of several classes: scikit-learn, plain loops, absent classes, and two classes beside many."""

from __future__ import annotations

import math
import warnings
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

import aimfor
from aimfor.metrics import BalancedAccuracy, ClassFBeta, PairwiseFBeta, metric_from_name


@st.composite
def class_data(draw: st.DrawFn) -> dict[str, Any]:
    """Tied scores of up to four classes, some of which nobody has; weights (some zero) and a mask."""
    n, c = draw(st.integers(1, 12)), draw(st.integers(2, 4))
    grid = st.sampled_from([-1.0, 0.0, 0.5, 1.0])
    rows = st.lists(st.lists(grid, min_size=c, max_size=c), min_size=n, max_size=n)

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(values, min_size=n, max_size=n))

    return {
        "scores": torch.tensor(draw(rows), dtype=torch.float64),
        "targets": torch.tensor(column(st.integers(0, c - 1))),
        "weights": torch.tensor(column(st.sampled_from([0.0, 0.3, 1.0, 2.5])), dtype=torch.float64),
        "where": torch.tensor(column(st.booleans())),
    }


def seen(data: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Truth, decision and weight of the rows that count."""
    keep = data["where"] & (data["weights"] > 0)
    return data["targets"][keep].numpy(), data["scores"].argmax(1)[keep].numpy(), data["weights"][keep].numpy()


@given(class_data(), st.sampled_from([0.5, 1.0, 2.0]))
def test_values_equal_scikit_learn(data: dict[str, Any], beta: float) -> None:
    truth, decided, weights = seen(data)
    got = {one: float(ClassFBeta(beta, one).value(**data)) for one in ("macro", "micro")}
    balanced = float(BalancedAccuracy().value(**data))
    if not len(truth):
        assert math.isnan(balanced)
        assert all(math.isnan(value) for value in got.values())
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes that nobody has
        for average, value in got.items():
            wanted = sk.fbeta_score(truth, decided, beta=beta, average=average, sample_weight=weights, zero_division=0)
            assert value == pytest.approx(wanted, abs=1e-12)
        assert balanced == pytest.approx(sk.balanced_accuracy_score(truth, decided, sample_weight=weights), abs=1e-12)


@given(class_data())
def test_values_equal_a_plain_loop(data: dict[str, Any]) -> None:
    truth, decided, weights = seen(data)
    recalls, scores = [], []
    for k in range(data["scores"].shape[1]):
        tp = sum(w for t, d, w in zip(truth, decided, weights, strict=True) if t == d == k)
        there = sum(w for t, w in zip(truth, weights, strict=True) if t == k)
        named = sum(w for d, w in zip(decided, weights, strict=True) if d == k)
        recalls += [tp / there] if there else []
        scores += [2 * tp / (there + named)] if there + named else []
    for metric, parts in ((BalancedAccuracy(), recalls), (ClassFBeta(), scores)):
        wanted = sum(parts) / len(parts) if parts else math.nan
        assert float(metric.value(**data)) == pytest.approx(wanted, abs=1e-12, nan_ok=True)


def test_balanced_accuracy_of_two_classes_is_scikit_learns_at_a_threshold() -> None:
    scores = torch.tensor([0.2, 0.9, 0.5, 0.7, 0.1, 0.6])
    targets = torch.tensor([0, 1, 0, 1, 1, 0])
    for threshold in (0.0, 0.15, 0.5, 0.65):
        wanted = sk.balanced_accuracy_score(targets, scores > threshold)
        assert float(BalancedAccuracy(threshold).value(scores, targets)) == pytest.approx(wanted)
    one_class = sk.recall_score(torch.ones(6), scores > 0.5)  # the other class is left out
    assert float(BalancedAccuracy(0.5).value(scores, torch.ones(6).long())) == pytest.approx(one_class)


def test_micro_f1_of_one_label_a_row_is_the_accuracy() -> None:
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(50) % 4
    assert float(metric_from_name("f1_micro").value(scores, targets)) == float(aimfor.Accuracy().value(scores, targets))


@pytest.mark.parametrize("name", ["balanced_accuracy", "f1_macro", "f1_micro"])
def test_free_scores_of_three_classes_are_trained_to_the_top(name: str) -> None:
    """With a rare class: the metric's own gradient must find it."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.tensor([0] * 24 + [1] * 12 + [2] * 4)
    scores = torch.randn(40, 3, generator=generator, dtype=torch.float64).requires_grad_()
    loss_fn = aimfor.MetricLoss(name)
    optimizer = torch.optim.Adam([scores], lr=0.05)
    start = float(loss_fn.value(scores, targets))
    for _ in range(200):
        optimizer.zero_grad()
        loss_fn(scores, targets).backward()
        optimizer.step()
    assert start < 0.6
    assert float(loss_fn.value(scores, targets)) > 0.95


def test_an_example_of_a_rare_class_weighs_more_in_balanced_accuracy() -> None:
    """The closed form of the direct step: shares of 1/(classes · rows of the class)."""
    scores = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    targets = torch.tensor([0, 0, 0, 1])
    form = BalancedAccuracy().argmax_form(BalancedAccuracy().check(scores, targets))
    truth = form.truth()
    torch.testing.assert_close(truth.sum(1), torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2], dtype=torch.float64))


@pytest.mark.parametrize(("beta", "average"), [(0.0, "macro"), (1.0, "samples")])
def test_bad_settings_are_refused(beta: float, average: str) -> None:
    with pytest.raises(aimfor.InputError):
        ClassFBeta(beta, average)


def test_pairwise_f_beta_says_where_it_decides() -> None:
    metric = PairwiseFBeta()
    batch = metric.check(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]))
    cut = metric.decided_at(batch)
    assert cut == aimfor.FBeta(1.0).threshold
    values = [float(metric.value(torch.full((4, 2), cut + step), batch.targets)) for step in (-0.01, 0.0, 0.01)]
    assert values == pytest.approx([0.0, 0.0, 2 / 3])  # just above it, everybody is positive: precision 1/2, recall 1


@pytest.mark.parametrize("groups", [2, 3, 4, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_pairwise_f_beta_of_sigmoids(groups: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(groups)
    scores, targets = torch.randn(20, groups, generator=generator, dtype=torch.float64), torch.arange(20) % groups
    weights = torch.rand(20, generator=generator, dtype=torch.float64) if weighted else torch.ones(20).double()
    values = []
    for j, k in permutations(range(groups), 2):
        soft = weights * torch.sigmoid(scores[:, j] / 0.5)
        tp, fp = soft[targets == j].sum(), soft[targets == k].sum()
        values.append(5 * tp / (tp + 4 * weights[targets == j].sum() + fp))
    found = aimfor.MetricLoss(PairwiseFBeta(2.0), aimfor.SmoothEngine(0.5))(scores, targets, weights=weights)
    assert 1 - float(found) == pytest.approx(float(torch.stack(values).mean()), abs=1e-12)
