"""AUCMu and AUROCOneVsRest: scikit-learn, loops over pairs of examples, their pair forms, and bad partitions."""

from __future__ import annotations

import math
import pickle
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import aimfor
from aimfor.engine import Status

COSTS = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.0, 3.0, 0.0]]


@st.composite
def class_data(draw: st.DrawFn, classes: int = 3) -> dict[str, torch.Tensor]:
    n = draw(st.integers(1, 14))
    g = torch.Generator().manual_seed(draw(st.integers(0, 100_000)))
    return {
        "scores": torch.randint(-3, 4, (n, classes), generator=g).double() / 2,
        "targets": torch.randint(0, classes, (n,), generator=g),
        "weights": torch.randint(0, 4, (n,), generator=g).double() * 0.3,
        "where": torch.rand(n, generator=g) < 0.9,
    }


def loop_auc(members: list[tuple[float, bool, float]]) -> float:
    """(score, positive, weight): the share of right pairs, ties half."""
    right = total = 0.0
    for high, positive, a in members:
        for low, other, b in members:
            if positive and not other:
                total += a * b
                right += a * b * ((high > low) + 0.5 * (high == low))
    return right / total if total else math.nan


def loop_mu(data: dict[str, torch.Tensor], costs: Any) -> float:
    classes = data["scores"].shape[1]
    mass = (data["weights"] * data["where"]).tolist()
    rows = list(zip(data["scores"].tolist(), data["targets"].tolist(), mass, strict=True))
    areas = []
    for k, other in combinations(range(classes), 2):
        members = []
        for row, target, weight in rows:
            if target in (k, other):
                gain = sum((costs[other][m] - costs[k][m]) * row[m] for m in range(classes))
                members.append((gain, target == k, weight))
        areas.append(loop_auc(members))
    return sum(areas) / len(areas)


def equal_costs(classes: int) -> list[list[float]]:
    return [[float(i != j) for j in range(classes)] for i in range(classes)]


def close(a: Any, b: float) -> bool:
    return float(a) == pytest.approx(b, abs=1e-12, nan_ok=True)


@given(class_data())
def test_auc_mu_equals_a_loop_over_pairs(data: dict[str, torch.Tensor]) -> None:
    assert close(aimfor.AUCMu().value(**data), loop_mu(data, equal_costs(3)))
    assert close(aimfor.AUCMu(COSTS).value(**data), loop_mu(data, COSTS))


@given(class_data(classes=4))
def test_one_vs_rest_equals_a_loop_over_pairs(data: dict[str, torch.Tensor]) -> None:
    mass = (data["weights"] * data["where"]).tolist()
    areas = [
        loop_auc(list(zip(data["scores"][:, k].tolist(), (data["targets"] == k).tolist(), mass, strict=True)))
        for k in range(4)
    ]
    assert close(aimfor.AUROCOneVsRest().value(**data), sum(areas) / 4)


def tied_task(n: int = 600, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    targets = torch.arange(n) % classes
    scores = (torch.randn(n, classes) + torch.nn.functional.one_hot(targets, classes)).mul(3).round().double()
    return scores, targets, torch.rand(n).double()


def test_one_vs_rest_equals_scikit_learn() -> None:
    scores, targets, weights = tied_task()
    shares = scores.softmax(1)
    expected = roc_auc_score(targets.numpy(), shares.numpy(), multi_class="ovr", sample_weight=weights.numpy())
    assert close(aimfor.AUROCOneVsRest().value(shares, targets, weights=weights), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_auc_mu_equals_scikit_learn_pair_by_pair(dtype: torch.dtype) -> None:
    scores, targets, weights = tied_task()
    areas = []
    for k, other in combinations(range(4), 2):
        keep = (targets == k) | (targets == other)
        gain = (scores[:, k] - scores[:, other])[keep]
        positive = (targets == k)[keep]
        areas.append(roc_auc_score(positive.numpy(), gain.numpy(), sample_weight=weights[keep].to(dtype).numpy()))
    value = aimfor.AUCMu().value(scores.to(dtype), targets, weights=weights.to(dtype))
    assert value.dtype == torch.float64
    assert close(value, sum(areas) / 6)


def test_two_classes_are_auroc() -> None:
    scores, targets, weights = tied_task(classes=2)
    binary = aimfor.AUROC().value(scores[:, 1] - scores[:, 0], targets, weights=weights)
    assert close(aimfor.AUCMu().value(scores, targets, weights=weights), float(binary))


def test_equal_rows_tie_under_any_partition() -> None:
    row = torch.randn(1, 5).double()
    partition = torch.rand(5, 5).double().fill_diagonal_(0.0)
    targets = torch.arange(203) % 5
    assert float(aimfor.AUCMu(partition).value(row.expand(203, 5), targets)) == 0.5


@pytest.mark.parametrize("metric", [aimfor.AUROCOneVsRest(), aimfor.AUCMu()])
def test_a_class_without_examples_is_undefined(metric: aimfor.Metric) -> None:
    scores = torch.randn(4, 3)
    assert math.isnan(metric.value(scores, torch.tensor([0, 1, 0, 1])))
    assert math.isnan(metric.value(scores, torch.tensor([0, 1, 2, 1]), where=torch.tensor([True, True, False, True])))
    assert math.isnan(metric.value(scores, torch.zeros(4, dtype=torch.long)))
    assert math.isnan(metric.value(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)))
    assert not math.isnan(metric.value(scores, torch.tensor([0, 1, 2, 1])))


def loop_loss(
    metric: Any, scores: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, fresh: torch.Tensor | None = None
) -> torch.Tensor:
    """Squared hinge over all pairs of examples (with a fresh one), averaged over the problems there, by autograd."""
    classes = scores.shape[1]
    if isinstance(metric, aimfor.AUROCOneVsRest):
        problems = [(scores[:, k], targets == k, targets != k) for k in range(classes)]
    else:
        costs = torch.tensor(metric.partition or equal_costs(classes), dtype=scores.dtype)
        problems = [
            (scores @ (costs[other] - costs[k]), targets == k, targets == other)
            for k, other in combinations(range(classes), 2)
        ]
    terms = []
    for gain, positive, negative in problems:
        mass = (weights * positive)[:, None] * (weights * negative)[None]
        if fresh is not None:
            mass = mass * (fresh[:, None] | fresh[None])
        if float(mass.sum()) > 0:
            terms.append((mass * (1.0 - gain[:, None] + gain[None]).clamp_min(0) ** 2).sum() / mass.sum())
    return torch.stack(terms).mean()


@pytest.mark.parametrize("metric", [aimfor.AUROCOneVsRest(), aimfor.AUCMu(), aimfor.AUCMu(COSTS)], ids=repr)
@pytest.mark.parametrize("present", [3, 2])
def test_loss_and_gradient_equal_the_sum_over_pairs(metric: aimfor.Metric, present: int) -> None:
    n = 40
    scores = torch.randn(n, 3, dtype=torch.float64, requires_grad=True)
    targets, weights, where = torch.randint(0, present, (n,)), torch.rand(n).double(), torch.rand(n) < 0.8
    got = aimfor.MetricLoss(metric, aimfor.SortedEngine())(scores, targets, weights=weights, where=where)
    expected = loop_loss(metric, scores, targets, weights * where)
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-12)
    (gradient,) = torch.autograd.grad(got, scores)
    (wanted,) = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(gradient, wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("metric", [aimfor.AUROCOneVsRest(), aimfor.AUCMu(), aimfor.AUCMu(COSTS)], ids=repr)
def test_the_loss_bounds_one_minus_the_metric(metric: aimfor.Metric) -> None:
    scores, targets = torch.randn(90, 3), torch.arange(90) % 3
    loss = aimfor.MetricLoss(metric, aimfor.SortedEngine())(scores, targets)
    assert float(loss) >= 1 - float(metric.value(scores, targets))


@pytest.mark.parametrize("metric", [aimfor.AUROCOneVsRest(), aimfor.AUCMu(), aimfor.AUCMu(COSTS)], ids=repr)
def test_the_score_bank_ranks_against_earlier_rows(metric: aimfor.Metric) -> None:
    banked, fresh = torch.randn(2, 12, 3, dtype=torch.float64).unbind(0)
    old, new = torch.tensor([0] * 2 + [1] * 3 + [2] * 7), torch.tensor([0] * 6 + [1] * 4 + [2] * 2)
    loss_fn = aimfor.MetricLoss(metric, aimfor.SortedEngine(bank=12))
    loss_fn(banked, old)
    leaf = fresh.clone().requires_grad_()
    got = loss_fn(leaf, new)
    expected = loop_loss(
        metric,
        torch.cat((leaf, banked)),
        torch.cat((new, old)),
        torch.ones(24, dtype=torch.float64),
        torch.arange(24) < 12,
    )
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, leaf)[0] for loss in (got, expected)))


@pytest.mark.parametrize("metric", [aimfor.AUROCOneVsRest(), aimfor.AUCMu(), aimfor.AUCMu(COSTS)], ids=repr)
@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
def test_one_class_only_gives_an_attached_zero(metric: aimfor.Metric) -> None:
    scores = torch.randn(5, 3, requires_grad=True)
    output = aimfor.MetricLoss(metric).detailed(scores, torch.full((5,), 2))
    assert output.status is Status.undefined_batch
    output.loss.backward()
    assert output.loss.item() == 0.0
    assert torch.equal(scores.grad, torch.zeros(5, 3))


def test_partition_may_be_lists_tuples_or_a_tensor() -> None:
    metrics = {aimfor.AUCMu(COSTS), aimfor.AUCMu(tuple(map(tuple, COSTS))), aimfor.AUCMu(torch.tensor(COSTS))}
    assert len(metrics) == 1
    (metric,) = metrics
    assert pickle.loads(pickle.dumps(metric)) == metric


@pytest.mark.parametrize(
    "partition",
    [
        [[0.0]],
        [],
        [[0.0, 1.0]],
        [[0.0, 1.0], [1.0]],
        [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]],
        [[0.0, 1.0], [1.0, 0.1]],
        [[0.0, math.nan], [1.0, 0.0]],
        [[0.0, math.inf], [1.0, 0.0]],
        [[0.0, "a"], [1.0, 0.0]],
        "matrix",
        3,
        torch.zeros(3),
        torch.zeros(2, 2, 2),
    ],
)
def test_bad_partitions_are_refused(partition: Any) -> None:
    with pytest.raises(aimfor.InputError, match="partition"):
        aimfor.AUCMu(partition)


def test_the_partition_must_fit_the_scores() -> None:
    with pytest.raises(aimfor.InputError, match="4 columns"):
        aimfor.AUCMu(COSTS).value(torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))


def test_only_small_batches_carry_every_row_in_every_pair_of_classes() -> None:
    """Beyond that each of the 6 pairs of 4 classes holds its own two classes: half of the rows, not all."""
    metric, scores = aimfor.AUCMu(), torch.randn(1600, 4, dtype=torch.float64)
    targets = torch.arange(1600) % 4
    for rows, held in [(400, 400), (1600, 800)]:
        form = metric.pair_form(metric.check(scores[:rows], targets[:rows]))
        assert [tuple(problem.scores.shape) for problem in form.problems] == [(6, held)]


def test_a_small_area_keeps_every_bit() -> None:
    """The whole area is not put through the scale of a partial one, which costs the last digits below a quarter."""
    for right in (1, 3, 7, 11):
        scores = torch.arange(100.0, dtype=torch.float64)
        targets = scores == right  # above ``right`` of 99 negatives
        for metric in (aimfor.AUROC(), aimfor.AUROC(max_fpr=1.0)):
            assert float(metric.value(scores, targets)) == right / 99


@pytest.mark.parametrize("costs", [None, COSTS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_that_tie_but_for_rounding_tie(costs: Any, dtype: torch.dtype) -> None:
    """Whole scores, many ties; shifted by row (which no saved cost sees) and scaled, their differences are rounded."""
    torch.manual_seed(0)
    whole, targets = torch.randint(0, 4, (300, 3)).double(), torch.randint(0, 3, (300,))
    metric = aimfor.AUCMu(costs)
    exact = float(metric.value(whole, targets))
    shift = torch.randn(300, 1).double() if costs is None else 0.0
    rounded = (whole / 3 + shift).to(dtype)
    assert float(metric.value(rounded, targets)) == pytest.approx(exact, abs=1e-12)
    raised = whole + 1e-3 * (targets[:, None] == torch.arange(3))  # far above rounding: the ties are broken
    assert float(metric.value(raised, targets)) > exact + 0.01
