"""Logistic bounds of the indicator: on the right side of the exact metric, with right slopes, or refused."""

from __future__ import annotations

import math

import pytest
import torch

import aimfor
from aimfor.metrics import BalancedAccuracy, Metric, MultiLabel, ReciprocalRank
from samples import sample

DECIDED: list[Metric] = [
    aimfor.FBeta(1.0),
    aimfor.FBeta(2.0, threshold=0.4),
    aimfor.IoU(),
    aimfor.Accuracy(),
    BalancedAccuracy(),
    MultiLabel("f1"),
]
RANKED: list[Metric] = [aimfor.AveragePrecision(), aimfor.NDCG(), aimfor.AUROC(), ReciprocalRank()]
every = pytest.mark.parametrize("metric", DECIDED + RANKED, ids=repr)


def loss_of(metric: Metric, indicator: str, temperature: float = 1.0) -> aimfor.MetricLoss:
    return aimfor.MetricLoss(metric, aimfor.SmoothEngine(temperature, indicator=indicator))


@every
@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
def test_the_exact_metric_lies_between_the_bounds(metric: Metric, temperature: float) -> None:
    for seed in range(10):
        s = sample(metric.layout, seed, ties=False)
        scores = 2.0 * s.scores
        exact = float(metric.value(scores, s.targets))
        below, above = (1 - float(loss_of(metric, one, temperature)(scores, s.targets)) for one in ("lower", "upper"))
        assert below <= exact + 1e-9
        assert above >= exact - 1e-9


@every
@pytest.mark.parametrize("indicator", ["lower", "upper"])
def test_gradients_are_finite_differences(metric: Metric, indicator: str) -> None:
    for seed in range(4):
        s = sample(metric.layout, seed, ties=False)
        scores = (3.0 * s.scores).requires_grad_()
        loss = loss_of(metric, indicator, 0.8)
        (found,) = torch.autograd.grad(loss(scores, s.targets), scores)
        step = 1e-6
        for place in range(0, scores.numel(), 3):
            ends = []
            for way in (step, -step):
                moved = scores.detach().clone()
                moved.view(-1)[place] += way
                ends.append(float(loss(moved, s.targets)))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert float(found.view(-1)[place]) == pytest.approx(slope, abs=2e-6, rel=1e-4)


def test_accuracy_from_below_is_cross_entropy_in_bits() -> None:
    s = sample("binary", 1)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(s.scores, s.targets.double()) / math.log(2)
    assert float(loss_of(aimfor.Accuracy(), "lower")(s.scores, s.targets)) == pytest.approx(float(expected))


def test_average_precision_from_below_by_hand() -> None:
    scores, targets = [0.3, -0.2, 0.9, -1.0], [1, 1, 0, 0]
    total = 0.0
    for i in (0, 1):
        gap = {j: scores[j] - scores[i] for j in range(4) if j != i}
        hits = 1 + sum(1 - math.log2(1 + math.exp(-d)) for j, d in gap.items() if targets[j])
        misses = sum(math.log2(1 + math.exp(d)) for j, d in gap.items() if not targets[j])
        total += max(1.0, hits) / (max(1.0, hits) + misses) / 2
    found = loss_of(aimfor.AveragePrecision(), "lower")(
        torch.tensor(scores, dtype=torch.float64), torch.tensor(targets)
    )
    assert 1 - float(found) == pytest.approx(total)


def test_a_bound_has_a_gradient_where_the_sigmoid_is_flat() -> None:
    scores, targets = torch.tensor([-40.0, 40.0, 41.0, -41.0], requires_grad=True), torch.tensor([1, 0, 1, 0])
    (flat,), (steep,) = (
        torch.autograd.grad(loss_of(aimfor.FBeta(1.0), one)(scores, targets), scores) for one in ("sigmoid", "lower")
    )
    assert float(flat.abs().max()) < 1e-12
    assert float(steep[0]) < -0.1


def test_long_lists_by_cells_are_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, targets = torch.randn(3000, generator=generator, dtype=torch.float64), torch.arange(3000) % 9 == 0
    gap = scores[None, :] - scores[targets][:, None]
    up = torch.nn.functional.softplus(gap) / math.log(2)
    hits = torch.where(targets, 1 - torch.nn.functional.softplus(-gap) / math.log(2), 0.0).sum(1) + 1
    hits = hits.clamp_min(1.0)
    expected = (hits / (hits + (up * ~targets).sum(1))).mean()
    found = loss_of(aimfor.AveragePrecision(), "lower")(scores, targets)
    assert 1 - float(found) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("metric", ["ndcg@10", "map@r", "recall@precision=0.9", "f1_macro"])
def test_metrics_without_bounds_say_so(metric: str) -> None:
    layout = aimfor.metric_from_name(metric).layout
    s = sample(layout)
    with pytest.raises(aimfor.InputError, match="indicator: got 'lower' with"):
        aimfor.MetricLoss(metric, aimfor.SmoothEngine(indicator="lower"))(s.scores, s.targets)


def test_unknown_indicators_are_refused_and_others_are_printed() -> None:
    with pytest.raises(aimfor.InputError, match="indicator"):
        aimfor.SmoothEngine(indicator="hinge")
    assert "indicator='upper'" in repr(aimfor.SmoothEngine(indicator="upper"))
    assert aimfor.SmoothEngine(indicator="upper").for_one_batch().indicator == "upper"  # type: ignore[union-attr]
