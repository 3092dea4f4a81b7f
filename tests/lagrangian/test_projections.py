"""Π_C against a QP solver, and what is wrong with the printed algorithm."""

from __future__ import annotations

import numpy as np
import pytest
import quadprog
import torch
from hypothesis import given
from hypothesis import strategies as st

from aimfor import InputError
from aimfor.lagrangian import project_cap, project_cap_sampled, project_two


def by_quadratic_program(epsilon: float, tau: np.ndarray, weight: float = 1.0) -> np.ndarray:
    """argmin ½ weight (e − ε)² + ½‖t − τ‖²  s.t.  e − t_i ≥ 0, e ≥ 0, as (e, t)."""
    n = len(tau)
    metric = np.eye(n + 1)
    metric[0, 0] = weight
    normals = np.zeros((n + 1, n + 1))
    normals[0, :] = 1.0
    normals[1:, :n] = -np.eye(n)
    return quadprog.solve_qp(metric, metric @ np.concatenate(([epsilon], tau)), normals, np.zeros(n + 1))[0]


def algorithm_4_as_printed(epsilon: float, tau: np.ndarray) -> np.ndarray:
    """Ravi's Algorithm 4, line by line; gamma[0] is ε (their index 1)."""
    n = len(tau)
    order = np.argsort(-tau)
    gamma = np.concatenate(([max(epsilon, 0.0)], tau[order]))
    first = max(gamma[0], 0.0)
    stop = n + 1
    for t in range(1, n + 1):
        if gamma[t] <= max(first, 0.0):
            stop = t
            break
        first = t / (t + 1) * first + gamma[t - 1] / (t + 1)
    first = max(first, 0.0)
    out = gamma.copy()
    out[1 : max(stop - 1, 1)] = first
    out[0] = first
    result = np.empty(n + 1)
    result[0] = out[0]
    result[1:][order] = out[1:]
    return result


def random_case(seed: int) -> tuple[float, np.ndarray]:
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 15))
    return float(draw.normal()), draw.normal(size=n) + draw.normal()


@pytest.mark.parametrize("weight", [1.0, 0.2, 17.0])
def test_projection_equals_the_quadratic_program(weight: float) -> None:
    worst = 0.0
    for seed in range(500):
        epsilon, tau = random_case(seed)
        exact = by_quadratic_program(epsilon, tau, weight)
        ours = project_cap(torch.tensor(epsilon, dtype=torch.float64), torch.tensor(tau), weight=weight)
        worst = max(worst, float(np.abs(np.concatenate(([float(ours.epsilon)], ours.tau.numpy())) - exact).max()))
    assert worst < 1e-12


def test_algorithm_4_as_printed_is_wrong_on_more_than_half_of_random_inputs() -> None:
    wrong = 0
    for seed in range(500):
        epsilon, tau = random_case(seed)
        wrong += np.abs(algorithm_4_as_printed(epsilon, tau) - by_quadratic_program(epsilon, tau)).max() > 1e-8
    assert wrong > 250


@given(st.floats(-5, 5), st.lists(st.floats(-5, 5), max_size=30))
def test_result_is_feasible_idempotent_and_nearer_than_a_rival(epsilon: float, tau: list[float]) -> None:
    e, t = torch.tensor(epsilon, dtype=torch.float64), torch.tensor(tau, dtype=torch.float64)
    once = project_cap(e, t)
    assert float(once.epsilon) >= 0
    assert bool((once.tau <= once.epsilon).all())
    again = project_cap(*once)
    assert torch.allclose(again.tau, once.tau, atol=1e-12)
    assert torch.allclose(again.epsilon, once.epsilon, atol=1e-12)
    rival = torch.maximum(e.clamp_min(0), t.max()) if t.numel() else e.clamp_min(0)
    ours = (once.epsilon - e) ** 2 + ((once.tau - t) ** 2).sum()
    assert ours <= (rival - e) ** 2 + 1e-9


def test_order_does_not_matter_and_ties_move_together() -> None:
    tau = torch.tensor([2.0, -1.0, 2.0, 2.0, 0.5])
    shuffle = torch.tensor([4, 2, 0, 3, 1])
    epsilon, moved = project_cap(torch.tensor(0.0), tau)
    same_epsilon, shuffled = project_cap(torch.tensor(0.0), tau[shuffle])
    assert torch.equal(moved[shuffle], shuffled)
    assert torch.equal(epsilon, same_epsilon)
    assert moved[[0, 2, 3]].tolist() == [1.5, 1.5, 1.5]


def test_projection_has_the_gradient_of_the_active_set() -> None:
    epsilon = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    tau = torch.tensor([1.0, 0.9, 0.1, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e, t: tuple(project_cap(e, t)), (epsilon, tau))
    (gradient,) = torch.autograd.grad(project_cap(epsilon, tau).epsilon, tau)
    assert gradient.tolist() == pytest.approx([1 / 3, 1 / 3, 0, 0])


def test_two_sample_rule_equals_the_projection_of_each_pair() -> None:
    epsilon, tau = torch.randn(200, dtype=torch.float64), torch.randn(200, dtype=torch.float64)
    ours = project_two(epsilon, tau)
    for i in range(200):
        exact = project_cap(epsilon[i], tau[i : i + 1])
        assert float(ours.epsilon[i]) == pytest.approx(float(exact.epsilon), abs=1e-14)
        assert float(ours.tau[i]) == pytest.approx(float(exact.tau), abs=1e-14)


@pytest.mark.parametrize("scale", [None, 1.0, 50.0])
def test_sampled_threshold_keeps_its_stated_error_at_its_stated_rate(scale: float | None) -> None:
    n = 5000
    weight = float(n) if scale is None else scale
    tau = torch.randn(n, dtype=torch.float64)
    epsilon = torch.tensor(-0.2, dtype=torch.float64)
    exact = project_cap(epsilon, tau, weight=weight)
    kept, errors = 0, []
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        drawn = project_cap_sampled(epsilon, tau, 400, weight=weight, confidence=0.9, generator=generator)
        assert bool((drawn.tau <= drawn.epsilon).all())
        kept += float((drawn.epsilon - exact.epsilon).abs()) <= drawn.error
        errors.append(drawn.error)
    assert kept >= 180
    assert max(errors) < 4.0  # smaller than the range of τ itself: the statement is not empty


def test_stated_error_shrinks_with_the_sample_and_not_with_n() -> None:
    def error(n: int, sample: int) -> float:
        tau = torch.linspace(-1, 1, n, dtype=torch.float64)
        zero = torch.zeros((), dtype=torch.float64)
        return project_cap_sampled(zero, tau, sample, weight=n, generator=torch.Generator().manual_seed(0)).error

    assert error(100_000, 6400) < 0.5 * error(100_000, 400)
    assert error(100_000, 1000) == pytest.approx(error(10_000, 1000), rel=0.1)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("sample", [40, 400])
@pytest.mark.parametrize("share", [0.25, 1.0, 3.0])
def test_stated_error_is_hoeffdings_where_every_draw_is_the_same(confidence: float, sample: int, share: float) -> None:
    """All τ at 2, ε at −1: ``share (θ + 1) − (2 − θ) = ±Δ`` has its roots at ``(2 − share ± Δ)/(1 + share)``."""
    tau, epsilon = torch.full((1000,), 2.0, dtype=torch.float64), torch.tensor(-1.0, dtype=torch.float64)
    delta = 3.0 * (np.log(2.0 / (1.0 - confidence)) / (2.0 * sample)) ** 0.5
    low, middle, high = ((2.0 - share + move) / (1.0 + share) for move in (-delta, 0.0, delta))
    low, middle, high = max(low, 0.0), max(middle, 0.0), max(min(high, 2.0), 0.0)
    drawn = project_cap_sampled(epsilon, tau, sample, weight=1000.0 * share, confidence=confidence)
    assert float(drawn.epsilon) == pytest.approx(middle, abs=1e-12)
    assert drawn.error == pytest.approx(max(high - middle, middle - low), abs=1e-12)


def test_sampling_everything_is_exact() -> None:
    tau, zero = torch.randn(50), torch.tensor(0.1)
    drawn = project_cap_sampled(zero, tau, 50)
    assert drawn.error == 0.0
    assert torch.equal(drawn.tau, project_cap(zero, tau).tau)


@pytest.mark.parametrize(
    ("epsilon", "tau", "options"),
    [
        (torch.tensor(1.0), torch.zeros(2, 2), {}),
        (torch.zeros(2), torch.zeros(2), {}),
        (torch.tensor(1.0), torch.zeros(2).double(), {}),
        (torch.tensor(1), torch.zeros(2, dtype=torch.int64), {}),
        (torch.tensor(float("nan")), torch.zeros(2), {}),
        (torch.tensor(1.0), torch.tensor([1.0, float("inf")]), {}),
        (torch.tensor(1.0), torch.zeros(2), {"weight": 0.0}),
        (1.0, torch.zeros(2), {}),
    ],
)
def test_bad_input_is_named(epsilon: object, tau: torch.Tensor, options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        project_cap(epsilon, tau, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "tau"),
    [
        (torch.zeros(3), torch.zeros(1)),
        (torch.zeros(()), torch.zeros(3)),
        (torch.zeros(2, 1), torch.zeros(2)),
        (torch.zeros(()), 1.0),
        (0.0, torch.zeros(())),
    ],
)
def test_pairs_that_are_no_pairs_are_named(epsilon: object, tau: object) -> None:
    with pytest.raises(InputError) as caught:
        project_two(epsilon, tau)  # type: ignore[arg-type]
    assert caught.value.argument == "tau"


def test_no_positives_project_to_the_half_line() -> None:
    empty = torch.zeros(0)
    assert float(project_cap(torch.tensor(-1.0), empty).epsilon) == 0.0
    assert float(project_cap(torch.tensor(2.0), empty).epsilon) == 2.0


@pytest.mark.parametrize(
    ("argument", "value"),
    [("confidence", 0.0), ("confidence", -0.5), ("confidence", 1.0), ("weight", 0.0), ("weight", -0.5), ("sample", 0)],
)
def test_a_sampled_projection_refuses_settings_out_of_range(argument: str, value: float) -> None:
    settings = {"sample": 5, "weight": 10.0, "confidence": 0.9} | {argument: value}
    with pytest.raises(InputError, match=argument):
        project_cap_sampled(torch.tensor(0.0), torch.randn(10), **settings)
