"""The engine around the kernels: what it counts, and what it refuses when nobody has looked before."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import aimfor
from aimfor.sorted.kernels import KERNELS


def test_problems_with_both_classes_are_counted() -> None:
    scores = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    loss_fn = aimfor.MetricLoss("auroc_ovr")
    stats = loss_fn.detailed(scores, torch.tensor([0, 0, 1, 1, 2, 2])).stats
    assert (stats["pairs"], stats["problems"]) == (3, 3)
    stats = loss_fn.detailed(scores, torch.tensor([0, 0, 1, 1, 1, 1])).stats
    assert (stats["pairs"], stats["problems"]) == (2, 3)


@pytest.mark.parametrize("huge", [1e101, -1e101])
def test_squares_that_leave_float64_are_refused_without_validation_too(huge: float) -> None:
    scores = torch.tensor([huge, 0.0, 1.0], dtype=torch.float64)
    with pytest.raises(aimfor.InputError, match="The model has diverged"):
        aimfor.MetricLoss("auroc", validate=False)(scores, torch.tensor([1, 0, 1]))


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("surrogate", ["squared_hinge", "squared"])
def test_squares_that_leave_float32_are_large_finite_losses(surrogate: str, validate: bool) -> None:
    scores = (1e30 * torch.tensor([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.5], [2.0, 1.0, 0.0]])).requires_grad_()
    loss_fn = aimfor.MetricLoss("auroc_ovr", aimfor.SortedEngine(surrogate), validate=validate)
    loss = loss_fn(scores, torch.tensor([1, 0, 1]))  # one class is missing: the others are scaled up
    (gradient,) = torch.autograd.grad(loss, scores)
    assert 1e30 < loss.item() < math.inf
    assert bool(torch.isfinite(gradient).all())
    assert bool(gradient.any())


@pytest.mark.parametrize("bank", [-1, 0.5, 2.0, "4", math.nan])
def test_a_bank_of_no_whole_number_of_scores_is_refused(bank: Any) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.SortedEngine(bank=bank)
    assert caught.value.argument == "bank"


def test_no_bank_remembers_nothing() -> None:
    assert aimfor.SortedEngine(bank=0).stateless
    assert not aimfor.SortedEngine(bank=1).stateless


@pytest.mark.parametrize("surrogate", KERNELS)
def test_a_loss_that_is_zero_but_for_rounding_is_not_negative(surrogate: str) -> None:
    """Positives a margin above negatives, to 1e-9: squares are then 1e-18, less than the sums' last digits."""
    targets = torch.arange(12) % 2
    for seed in range(20):
        noise = torch.randn(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        loss = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate))(targets + 1e-9 * noise, targets)
        assert 0.0 <= float(loss) < (0.5 if surrogate == "logistic" else 1e-8)


@pytest.mark.parametrize("margin", [0.0, -0.5, float("nan"), float("inf")])
def test_a_margin_is_a_number_above_zero(margin: float) -> None:
    with pytest.raises(aimfor.InputError, match="margin"):
        aimfor.SortedEngine(margin=margin)
