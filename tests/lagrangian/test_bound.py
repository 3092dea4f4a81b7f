"""The certificate is never above the true F_β, and has its gradient; tests/paper has it beside HiGHS."""

from __future__ import annotations

import pytest
import torch

import aimfor
from aimfor.lagrangian import bound_from_scores
from aimfor.lagrangian.bound import SURROGATES, f_beta


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_bound_never_exceeds_the_true_metric_and_reaches_it_when_separated(beta: float) -> None:
    for seed in range(50):
        draw = torch.Generator().manual_seed(seed)
        positive = torch.rand(30, generator=draw) < 0.4
        scores = torch.randn(30, generator=draw, dtype=torch.float64) + 1.5 * positive.double() - 0.5
        bound = float(bound_from_scores(scores, positive, beta).bound)
        assert 0 <= bound <= float(aimfor.FBeta(beta).value(scores, positive)) + 1e-12
    separated = torch.where(positive, 1.0, -1.0)
    assert float(bound_from_scores(separated, positive, beta).bound) == pytest.approx(1.0)


def test_bound_has_its_gradient() -> None:
    positive = torch.tensor([1, 0, 1, 0, 1, 0]).bool()
    scores = torch.tensor([0.9, -0.5, 0.2, 0.3, -0.4, -1.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: bound_from_scores(s, positive).bound, scores, eps=1e-7)


@pytest.mark.parametrize("name", SURROGATES)
def test_surrogates_bound_a_false_alarm_are_convex_and_have_their_derivatives(name: str) -> None:
    scores = torch.linspace(-4, 4, 81, dtype=torch.float64)
    for e in (1.2, 2.5):
        epsilon = torch.tensor(e, dtype=torch.float64)
        cost, by_score, by_epsilon = SURROGATES[name](scores, epsilon)
        assert bool((cost >= epsilon * (scores > 0)).all())
        assert bool((cost >= 0).all())
        assert bool((cost[2:] - 2 * cost[1:-1] + cost[:-2] >= -1e-12).all())
        step = 1e-6
        up, down = SURROGATES[name](scores + step, epsilon)[0], SURROGATES[name](scores - step, epsilon)[0]
        smooth = (scores + epsilon).abs() > 1e-3
        torch.testing.assert_close(by_score[smooth], ((up - down) / (2 * step))[smooth], rtol=1e-5, atol=1e-7)
        up, down = SURROGATES[name](scores, epsilon + step)[0], SURROGATES[name](scores, epsilon - step)[0]
        torch.testing.assert_close(by_epsilon[smooth], ((up - down) / (2 * step))[smooth], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_diagnostics_f_beta_is_the_metrics(beta: float) -> None:
    scores, positive = torch.tensor([2.0, 0.5, -1.0, 0.3, 0.2]), torch.tensor([True, False, True, True, False])
    assert f_beta(scores, positive, beta) == pytest.approx(float(aimfor.FBeta(beta).value(scores, positive)), rel=1e-12)
    assert f_beta(-scores.abs(), torch.zeros(5, dtype=torch.bool), beta) == 0.0
