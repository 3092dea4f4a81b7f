"""Quadratic weighted kappa: scikit-learn, gradients of both orders, what is undefined."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import cohen_kappa_score

import aimfor
from aimfor.metrics import QuadraticKappa
from samples import sample


@pytest.mark.parametrize("seed", range(5))
def test_values_are_scikit_learns(seed: int) -> None:
    s = sample("multiclass", seed)
    labels = [0, 1, 2]
    for weights in (None, s.weights):
        expected = cohen_kappa_score(
            s.targets, s.scores.argmax(1), labels=labels, weights="quadratic", sample_weight=weights
        )
        assert float(QuadraticKappa().value(s.scores, s.targets, weights=weights)) == pytest.approx(expected, abs=1e-12)


def test_a_far_miss_costs_more_than_a_near_one() -> None:
    targets = torch.tensor([0, 1, 2, 3])
    near, far = torch.eye(4), torch.eye(4)
    near[0], far[0] = near[1].clone(), far[3].clone()
    assert float(QuadraticKappa().value(near, targets)) > float(QuadraticKappa().value(far, targets)) > 0


def test_a_constant_decision_is_zero_and_nothing_but_one_class_is_undefined() -> None:
    constant = torch.eye(3)[[1, 1, 1]]
    assert float(QuadraticKappa().value(constant, torch.tensor([0, 1, 2]))) == 0.0
    assert math.isnan(float(QuadraticKappa().value(constant, torch.ones(3).long())))


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
def test_a_batch_of_one_class_teaches_nothing() -> None:
    scores = torch.randn(4, 3, requires_grad=True)
    output = aimfor.MetricLoss("qwk").detailed(scores, torch.ones(4).long())
    assert output.status is aimfor.Status.undefined_batch


def test_both_derivatives_are_right() -> None:
    s = sample("multiclass", n=9, ties=False)
    for engine in (aimfor.SmoothEngine(0.7), aimfor.SmoothEngine(anchor=0.5)):
        loss_fn = aimfor.MetricLoss("qwk", engine)
        leaf = s.scores.clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda x, f=loss_fn: f(x, s.targets), leaf)
        assert torch.autograd.gradgradcheck(lambda x, f=loss_fn: f(x, s.targets), leaf)
