"""Pair sums against brute force over all pairs: value, gradient, ties, weights, masks, partial."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import softplus

import aimfor
from aimfor.sorted import kernels

SURROGATES = {
    "squared_hinge": lambda d, m: (m - d).relu() ** 2,
    "hinge": lambda d, m: (m - d).relu(),
    "squared": lambda d, m: (m - d) ** 2,
    "ramp": lambda d, m: (((m - d).relu()) / m).clamp_max(1.0),
    "logistic": lambda d, m: softplus(-d),
}


def brute_force(scores: Tensor, targets: Tensor, weights: Tensor, surrogate: str, margin: float) -> Tensor:
    gap = scores[targets == 1][:, None] - scores[targets == 0][None]
    pair = weights[targets == 1][:, None] * weights[targets == 0][None]
    return (SURROGATES[surrogate](gap, margin) * pair).sum() / pair.sum()


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, float]:
    n = draw(st.integers(2, 30))
    values = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0]) if draw(st.booleans()) else st.floats(-5, 5)
    scores = draw(st.lists(values, min_size=n, max_size=n))
    targets = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n))
    targets[:2], weights[:2] = [0, 1], [1.0, 0.5]
    margin = draw(st.sampled_from([0.25, 1.0, 2.5]))
    return torch.tensor(scores, dtype=torch.float64), torch.tensor(targets), torch.tensor(weights).double(), margin


@pytest.mark.parametrize("surrogate", SURROGATES)
@given(problem=problems())
def test_value_and_gradient_equal_brute_force_over_all_pairs(
    surrogate: str, problem: tuple[Tensor, Tensor, Tensor, float]
) -> None:
    scores, targets, weights, margin = problem
    margin = 1.0 if surrogate == "logistic" else margin
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    loss = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate, margin))(ours, targets, weights=weights)
    expected = brute_force(theirs, targets, weights, surrogate, margin)
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    if surrogate == "ramp":  # clamp_max passes gradient at its kink, ours does not: compare away from it
        gap = scores[targets == 1][:, None] - scores[targets == 0][None]
        if (margin - gap == margin).any():  # also gaps too small to change the margin
            return
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradcheck_in_float64(surrogate: str) -> None:
    scores = torch.randn(12, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(12) % 3 == 0
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate))
    assert torch.autograd.gradcheck(lambda s: loss_fn(s, targets), scores)


@pytest.mark.parametrize("surrogate", ["hinge", "ramp"])
def test_gradient_at_a_kink_does_not_depend_on_the_order_of_examples(surrogate: str) -> None:
    scores = torch.tensor([1.0, 0.0, 1.0, 0.0, 2.0, 1.0], dtype=torch.float64)
    targets = torch.tensor([1, 0, 0, 1, 1, 0])
    gradients = []
    for seed in range(6):
        order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
        moved = scores[order].clone().requires_grad_()
        aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate))(moved, targets[order]).backward()
        restored = torch.empty_like(scores)
        restored[order] = moved.grad
        gradients.append(restored)
    for gradient in gradients:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=1e-15)


@given(problem=problems(), fraction=st.sampled_from([0.1, 0.3, 0.5, 0.77, 1.0]))
def test_partial_loss_counts_the_top_negatives_only(
    problem: tuple[Tensor, Tensor, Tensor, float], fraction: float
) -> None:
    scores, targets, weights, margin = problem
    loss = aimfor.MetricLoss(aimfor.AUROC(fraction), aimfor.SortedEngine("squared_hinge", margin))(
        scores, targets, weights=weights
    )
    # Independent route: walk down the negatives by hand until the budget of weight is spent.
    negatives = sorted(zip(scores[targets == 0].tolist(), weights[targets == 0].tolist(), strict=True), reverse=True)
    budget = fraction * sum(w for _, w in negatives)
    total = mass = 0.0
    positives = list(zip(scores[targets == 1].tolist(), weights[targets == 1].tolist(), strict=True))
    for score, weight in negatives:
        used = min(weight, budget - mass) if budget > mass else 0.0
        mass += used
        total += used * sum(w * max(0.0, margin - (p - score)) ** 2 for p, w in positives)
    expected = total / (mass * sum(w for _, w in positives)) / (2.0 - fraction)
    assert float(loss) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "hinge", "squared", "ramp"])
@pytest.mark.parametrize("max_fpr", [None, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(10))
def test_loss_bounds_one_minus_the_metric_from_above(surrogate: str, max_fpr: float | None, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(40, generator=generator, dtype=torch.float64).round(decimals=1)
    targets = torch.rand(40, generator=generator) < 0.3
    metric = aimfor.AUROC(max_fpr)
    loss = aimfor.MetricLoss(metric, aimfor.SortedEngine(surrogate))(scores, targets)
    assert float(loss) >= 1.0 - float(metric.value(scores, targets)) - 1e-12


def test_far_from_zero_nothing_is_lost_to_cancellation() -> None:
    scores = torch.randn(200, dtype=torch.float64)
    targets = torch.rand(200) < 0.3
    loss_fn = aimfor.MetricLoss("auroc")
    shifted = (scores + 1e6).requires_grad_()
    near = (shifted.detach() - 1e6).requires_grad_()
    far_loss, near_loss = loss_fn(shifted, targets), loss_fn(near, targets)
    far_loss.backward()
    near_loss.backward()
    torch.testing.assert_close(far_loss, near_loss, rtol=1e-9, atol=0)
    torch.testing.assert_close(shifted.grad, near.grad, rtol=1e-7, atol=1e-12)


def test_logistic_blocks_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.randn(57, dtype=torch.float64)
    targets = torch.arange(57) % 5 == 0
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine("logistic"))
    whole = scores.clone().requires_grad_()
    loss_fn(whole, targets).backward()
    sizes: list[int] = []
    monkeypatch.setattr(kernels.functional, "softplus", lambda gap: sizes.append(gap.numel()) or softplus(gap))
    for block in (1, 7, 50, 100, 540, 1000):
        monkeypatch.setattr(kernels, "BLOCK", block)
        sizes.clear()
        parts = scores.clone().requires_grad_()
        loss_fn(parts, targets).backward()
        torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-12, atol=1e-14)
        assert max(sizes) <= block
        assert sum(sizes) == 12 * 45
        assert len(sizes) <= 1 + 2 * 12 * 45 / block  # on average filled to a half or more


@pytest.mark.parametrize("surrogate", ["squared_hinge", "hinge", "squared", "ramp"])
def test_float32_equals_float64_to_its_own_precision(surrogate: str) -> None:
    scores = torch.randn(5000)
    targets = torch.rand(5000) < 0.1
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate))
    single, double = scores.clone().requires_grad_(), scores.double().requires_grad_()
    loss32, loss64 = loss_fn(single, targets), loss_fn(double, targets)
    loss32.backward()
    loss64.backward()
    assert abs(loss32.item() - loss64.item()) <= 1e-7 * loss64.item()
    torch.testing.assert_close(single.grad.double(), double.grad, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("surrogate", kernels.KERNELS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e30])
def test_without_one_side_sum_and_gradient_are_zero_to_the_last_bit(surrogate: str, scale: float) -> None:
    """The engine divides by the smallest number there is where a problem has no pair: no rounding may be left."""
    x, some = scale * torch.randn(3, 200, dtype=torch.float64), torch.rand(3, 200, dtype=torch.float64)
    none = torch.zeros_like(some)
    for a, b in ((none, some), (some, none)):
        total, gradient = kernels.KERNELS[surrogate](x, a, b, 1.0)
        assert not total.any()
        assert not gradient.any()
