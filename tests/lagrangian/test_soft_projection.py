"""The differentiable projection: agreement with the exact one as the temperature falls, and its gradient."""

from __future__ import annotations

import pytest
import torch

from aimfor import InputError
from aimfor.lagrangian import project_cap, soft_project_cap, soft_sort
from aimfor.lagrangian.projections import scaled, transport


def points(seed: int, n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn((), generator=draw, dtype=torch.float64), torch.randn(n, generator=draw, dtype=torch.float64)


def distance(temperature: float, iterations: int) -> float:
    worst = 0.0
    for seed in range(10):
        epsilon, tau = points(seed)
        soft, exact = (
            soft_project_cap(epsilon, tau, temperature=temperature, iterations=iterations),
            project_cap(epsilon, tau),
        )
        worst = max(worst, float((soft.epsilon - exact.epsilon).abs()), float((soft.tau - exact.tau).abs().max()))
    return worst


def test_soft_projection_tends_to_the_exact_one_as_the_temperature_falls() -> None:
    errors = [distance(temperature, 50) for temperature in (0.1, 0.01, 0.001, 0.0001)]
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < 1e-4


def test_a_low_temperature_needs_no_more_passes_than_a_high_one() -> None:
    """The plan's rows are uniform at every temperature; from a cold start those of 1e-5 are off by their whole size."""
    for temperature in (1e-1, 1e-3, 1e-5):
        plan = transport(scaled(points(4, 20)[1]), torch.linspace(1, 0, 20, dtype=torch.float64), temperature, 50)
        assert float((20 * plan.sum(1) - 1).abs().max()) < 0.01
        assert float((20 * plan.sum(0) - 1).abs().max()) < 1e-9


def test_soft_projection_is_feasible_at_every_temperature() -> None:
    for seed in range(10):
        epsilon, tau = points(seed)
        for temperature in (1.0, 0.1, 0.01):
            soft = soft_project_cap(epsilon, tau, temperature=temperature, iterations=20)
            assert float(soft.epsilon) >= 0
            assert bool((soft.tau <= soft.epsilon).all())


@pytest.mark.parametrize("weight", [1.0, 6.0])
def test_gradient_is_that_of_finite_differences(weight: float) -> None:
    epsilon, tau = points(3, 6)
    inputs = (epsilon.requires_grad_(), tau.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda e, t: tuple(soft_project_cap(e, t, temperature=0.05, iterations=30, weight=weight)), inputs
    )


def test_gradient_reaches_entries_that_are_nearly_active() -> None:
    epsilon = torch.tensor(1.0, dtype=torch.float64)
    tau = torch.tensor([2.0, 1.49, -1.0], dtype=torch.float64, requires_grad=True)
    (hard,) = torch.autograd.grad(project_cap(epsilon, tau).epsilon, tau)
    (soft,) = torch.autograd.grad(soft_project_cap(epsilon, tau, temperature=0.05).epsilon, tau)
    assert float(hard[1]) == 0.0
    assert float(soft[1]) > 0.05


@pytest.mark.parametrize("unit", [0.01, 50.0])
def test_projection_in_other_units_is_the_same_projection(unit: float) -> None:
    for seed in range(5):
        epsilon, tau = points(seed)
        plain = soft_project_cap(epsilon, tau, temperature=0.1, iterations=50)
        other = soft_project_cap(unit * epsilon, unit * tau, temperature=0.1, iterations=50)
        torch.testing.assert_close(tuple(value / unit for value in other), tuple(plain), rtol=1e-9, atol=1e-12)


def test_soft_sort_keeps_the_sum_and_sorts() -> None:
    x = torch.randn(15, dtype=torch.float64)
    soft = soft_sort(x, 0.01, 300)
    assert bool((soft[:-1] >= soft[1:] - 1e-9).all())
    assert float(soft.sum()) == pytest.approx(float(x.sum()), abs=1e-6)
    assert torch.equal(soft_sort(x[:1]), x[:1])


def test_passes_of_the_soft_sort_start_at_one() -> None:
    x = torch.randn(6, dtype=torch.float64)
    first = torch.softmax(-((scaled(x)[:, None] - torch.linspace(1, 0, 6, dtype=x.dtype)) ** 2), 1)
    once = (first / first.sum(0)).T @ x  # rows to equal sums, then columns
    assert torch.allclose(soft_sort(x, 1.0, 1), once, rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError) as caught:
        soft_sort(x, 0.1, 0)
    assert caught.value.argument == "iterations"


def test_transport_plan_equals_that_of_pot() -> None:
    ot = pytest.importorskip("ot")
    z = scaled(torch.randn(9, dtype=torch.float64))
    y = torch.linspace(1, 0, 9, dtype=torch.float64)
    uniform = torch.full((9,), 1 / 9, dtype=torch.float64).numpy()
    cost = ((z[:, None] - y[None, :]) ** 2).numpy()
    theirs = ot.sinkhorn(uniform, uniform, cost, 0.05, method="sinkhorn_log", numItermax=5000, stopThr=1e-13)
    torch.testing.assert_close(transport(z, y, 0.05, 2000), torch.from_numpy(theirs), rtol=1e-6, atol=1e-9)


def test_degenerate_points_stay_defined() -> None:
    zero = torch.tensor(0.5, dtype=torch.float64)
    assert soft_project_cap(zero, torch.zeros(0, dtype=torch.float64)).tau.numel() == 0
    same = soft_project_cap(zero, torch.full((4,), 0.5, dtype=torch.float64))
    assert bool(torch.isfinite(same.tau).all())
    with pytest.raises(InputError):
        soft_project_cap(zero, torch.zeros(3, dtype=torch.float64), temperature=0.0)


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.25, 2.0])
def test_no_positives_project_to_the_half_line(epsilon: float) -> None:
    found = soft_project_cap(torch.tensor(epsilon, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
    assert float(found.epsilon) == max(epsilon, 0.0)
    assert found.tau.numel() == 0


@pytest.mark.parametrize("weight", [1.0, 4.0])
@pytest.mark.parametrize(("epsilon", "tau"), [(0.5, 2.0), (2.0, 0.5), (-1.0, 3.0), (-3.0, 0.5), (-1.0, -2.0)])
def test_a_single_entry_is_projected_as_by_the_exact_rule(epsilon: float, tau: float, weight: float) -> None:
    point = torch.tensor(epsilon, dtype=torch.float64), torch.tensor([tau], dtype=torch.float64)
    found = soft_project_cap(*point, temperature=0.01, weight=weight)
    torch.testing.assert_close(tuple(found), tuple(project_cap(*point, weight=weight)), rtol=1e-12, atol=1e-12)
