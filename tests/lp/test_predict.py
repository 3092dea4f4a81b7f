"""Learned costs: losses and rules by their papers' definitions, for our solver and for anybody's."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.lp import BlackBox, LinearProgram, Oracle, Perturbed, PerturbedFenchelYoung, SPOPlus, solve

V, K = 5, 2
#: All ways to take two of five, whose hull is 0 <= x <= 1, Σx = 2.
POINTS = torch.tensor([[float(i in pair) for i in range(V)] for pair in itertools.combinations(range(V), K)]).double()


def program(**more: Any) -> LinearProgram:
    rows = {"A_eq": torch.ones(1, V).double(), "b_eq": torch.tensor([float(K)]).double()}
    return LinearProgram(**rows, lower=0.0, upper=1.0, **more)


def brute(costs: Tensor) -> Tensor:
    """``(…, v)`` to the best of all points."""
    return POINTS[(costs.double() @ POINTS.mT).argmin(-1)]


SOLVERS: dict[str, Callable[[], Any]] = {
    "program": program,
    "function": lambda: brute,
    "lists": lambda: lambda costs: brute(costs).tolist(),
    "batched": lambda: Oracle(brute, batched=True),
}


def costs(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("solver", SOLVERS)
def test_spo_plus_is_its_definition_and_bounds_the_regret(solver: str) -> None:
    predicted, true = costs(0, 2, 6).requires_grad_(), costs(1, 2, 6)
    loss = SPOPlus(SOLVERS[solver]())(predicted, true)
    guess = predicted.detach()
    each = ((true - 2 * guess) @ POINTS.mT).amax(-1)  # the maximum in the definition, over all points
    each = each + (2 * guess * brute(true)).sum(-1) - (true * brute(true)).sum(-1)
    assert loss.item() == pytest.approx(each.mean().item(), abs=1e-9)
    loss.backward()
    expected = 2 * (brute(true) - brute(2 * guess - true)) / 12
    torch.testing.assert_close(predicted.grad, expected, rtol=0, atol=1e-9)
    regret = (true * (brute(guess) - brute(true))).sum(-1)
    assert bool((each >= regret - 1e-12).all())
    known = SPOPlus(SOLVERS[solver]())(predicted, true, brute(true))
    assert known.item() == pytest.approx(loss.item(), abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_perturbed_fenchel_young_is_its_definition_over_its_own_samples(solver: str) -> None:
    predicted, true = costs(2, 4).requires_grad_(), costs(3, 4)
    loss = PerturbedFenchelYoung(SOLVERS[solver](), samples=7, sigma=0.5, seed=9)(predicted, true)
    z = torch.randn(7, 4, V, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    noisy = predicted.detach() + 0.5 * z
    lowest = (noisy @ POINTS.mT).amin(-1).mean(0)
    assert loss.item() == pytest.approx(((predicted * brute(true)).sum(-1) - lowest).mean().item(), abs=1e-9)
    loss.backward()
    torch.testing.assert_close(predicted.grad, (brute(true) - brute(noisy).mean(0)) / 4, rtol=0, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_black_box_is_the_slope_of_the_interpolated_loss(solver: str) -> None:
    """The paper's interpolation, for a loss that is linear in x: ``(min (c + λg)·x − min c·x) / λ``."""
    strength, g = 3.0, costs(5, 3)
    c = costs(4, 3).requires_grad_()
    oracle = SOLVERS[solver]()
    oracle = Oracle(oracle.solver, BlackBox(strength), batched=True) if isinstance(oracle, Oracle) else oracle
    layer = oracle if isinstance(oracle, Oracle) else Oracle(oracle, BlackBox(strength))
    x = layer(c)
    torch.testing.assert_close(x.detach(), brute(c.detach()), rtol=0, atol=1e-9)
    (gradient,) = torch.autograd.grad((g * x).sum(), c)

    def interpolated(at: Tensor) -> Tensor:
        low = [((at + shift * g) @ POINTS.mT).amin(-1) for shift in (strength, 0.0)]
        return ((low[0] - low[1]) / strength).sum()

    way, t = costs(6, 3), 1e-7
    slope = (interpolated(c.detach() + t * way) - interpolated(c.detach() - t * way)) / (2 * t)
    assert float((gradient * way).sum()) == pytest.approx(float(slope), rel=1e-6)
    assert bool(gradient.abs().amax() > 0)


def test_perturbed_has_the_mean_and_the_jacobian_of_the_normal_law() -> None:
    """One of two: the first is taken with probability Φ((c₂ − c₁) / (σ√2)), in closed form."""
    c, sigma, n = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True), 0.4, 200_000

    def lower(both: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(both.argmin(-1), 2)

    x = Oracle(lower, Perturbed(n, sigma), batched=True)(c)
    gap = 0.2 / (sigma * math.sqrt(2))
    share = 0.5 * (1 + math.erf(gap / math.sqrt(2)))
    assert x[0].item() == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / n))
    (gradient,) = torch.autograd.grad(x[0], c)
    slope = math.exp(-gap * gap / 2) / math.sqrt(2 * math.pi) / (sigma * math.sqrt(2))
    assert gradient.tolist() == pytest.approx([-slope, slope], abs=5 / sigma / math.sqrt(n))
    # Two samples at a time: without bias, and what all solutions share (10 here) adds no noise.
    many = c.detach().repeat(n // 2, 1).requires_grad_()
    mean = Oracle(lower, Perturbed(2, sigma), batched=True)(many)
    (pairs,) = torch.autograd.grad((mean @ torch.tensor([11.0, 10.0]).double()).sum(), many)
    assert bool((pairs.std(0) < 1.5 / sigma).all())
    assert pairs.mean(0).tolist() == pytest.approx([-slope, slope], abs=5 * 1.5 / sigma / math.sqrt(len(pairs)))


def test_perturbed_takes_each_solution_less_the_mean_of_the_others() -> None:
    c, weight, n, sigma = costs(7, 3).requires_grad_(), costs(8, 3), 3, 0.7
    x = Oracle(brute, Perturbed(n, sigma, seed=3), batched=True)(c)
    z = Perturbed(n, sigma, seed=3).noise(c.detach())
    drawn = [brute(c.detach() + sigma * one) for one in z]
    torch.testing.assert_close(x.detach(), sum(drawn) / n)
    expected = torch.zeros_like(c)
    for k in range(n):
        others = sum(drawn[j] for j in range(n) if j != k) / (n - 1)
        expected += (weight * (drawn[k] - others)).sum(-1, keepdim=True) * z[k] / (n * sigma)
    torch.testing.assert_close(torch.autograd.grad((weight * x).sum(), c)[0], expected)


@pytest.mark.parametrize("rule", [BlackBox(2.0), Perturbed(6, 0.7, seed=3)], ids=lambda rule: type(rule).__name__)
def test_solve_and_oracle_share_one_rule_and_other_parts_keep_the_active_set(rule: BlackBox | Perturbed) -> None:
    c, weight = costs(7, 3).requires_grad_(), costs(8, 3)
    kept = {"A_eq": torch.ones(1, V).double(), "lower": 0.0, "upper": 1.0}
    total = torch.full((3, 1), float(K), dtype=torch.float64, requires_grad=True)
    by_layer = Oracle(program(), copy.deepcopy(rule))(c)
    by_solve = solve(c, b_eq=total, **kept, gradient=copy.deepcopy(rule))
    torch.testing.assert_close(by_solve.x, by_layer, rtol=0, atol=1e-9)
    expected = torch.autograd.grad((weight * by_layer).sum(), c)[0]
    mine, other = torch.autograd.grad((weight * by_solve.x).sum(), (c, total))
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-8)
    vertex = solve(c.detach(), b_eq=total, **kept).x
    torch.testing.assert_close(other, torch.autograd.grad((weight * vertex).sum(), total)[0], rtol=0, atol=1e-9)
    assert by_solve.value.tolist() == pytest.approx((c * brute(c.detach())).sum(-1).tolist())


def test_a_program_may_differ_from_item_to_item() -> None:
    totals = torch.tensor([[1.0], [2.0], [3.0]]).double()
    layer = LinearProgram(A_eq=torch.ones(1, V).double(), b_eq=totals, lower=0.0, upper=1.0)
    c = costs(9, 3)
    x = Oracle(layer, Perturbed(4, 1e-6))(c)
    assert x.sum(-1).tolist() == pytest.approx([1.0, 2.0, 3.0])
    with pytest.raises(aimfor.InputError, match=r"costs: got shape \(2, 5\), expected \(3, 5\) or whole copies"):
        Oracle(layer)(c[:2])


def test_training_by_spo_plus_lowers_the_regret_where_squared_error_cannot() -> None:
    """A straight line through a curve: the least squares fit decides worse than the fit for the decision."""
    g = torch.Generator().manual_seed(0)
    z = torch.rand(200, 1, generator=g, dtype=torch.float64) * 4
    true = torch.cat((z**4 / 16, 2.0 * z, torch.full_like(z, 9.0).expand(-1, V - 2)), 1)
    features = torch.cat((z, torch.ones_like(z)), 1)

    def cheapest(c: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(c.argmin(-1), V).double()

    def regret(weights: Tensor) -> float:
        return float((true * (cheapest(features @ weights) - cheapest(true))).sum(-1).mean())

    weights = torch.linalg.lstsq(features, true).solution
    start = regret(weights)
    one = {"A_eq": torch.ones(1, V).double(), "b_eq": torch.ones(1).double()}
    loss_fn = SPOPlus(LinearProgram(**one, lower=0.0))
    weights.requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        loss_fn(features @ weights, true).backward()
        optimizer.step()
    assert 0.0 < regret(weights.detach()) + 1e-9 < 0.5 * start


def raising(c: Tensor) -> Tensor:
    if c[0] > 0:
        raise ValueError("no path\nfrom a to b")
    return brute(c)


BAD_SOLVERS: dict[str, tuple[Callable[[Tensor], Any], dict[str, Any], str]] = {
    "fails": (raising, {}, r"item 1: the solver raised ValueError: no path from a to b\."),
    "returns NaN": (lambda c: brute(c) * (torch.nan if c[0] > 0 else 1.0), {}, r"item 1: .* not finite\."),
    "another shape": (lambda c: brute(c)[: V - int(c[0] > 0)], {}, r"item 1: .* shape \(4,\), expected \(5,\)\."),
    "infeasible": (
        lambda c: brute(c) * (2.0 if c[0] > 0 else 1.0),
        {"feasible": lambda x: x.sum(-1) == K},
        r"item 1: .* a point that feasible\(\) refuses\.",
    ),
}


@pytest.mark.parametrize("name", BAD_SOLVERS)
def test_a_solver_that_fails_for_one_item_is_one_line_and_the_others_are_untouched(name: str) -> None:
    solver, options, words = BAD_SOLVERS[name]
    c, true = costs(10, 3), costs(11, 3)
    c[:, 0], true[:, 0] = torch.tensor([-1.0, 1.0, -1.0]), -4.0
    with pytest.raises(aimfor.SolverError, match=f"^solver: 1 of 3 items have no solution; {words}$"):
        Oracle(solver, **options)(c)
    with pytest.warns(UserWarning, match="They are left out"):
        x = Oracle(solver, BlackBox(1.0), **options, on_failure="skip")(c)
    assert bool(x[1].isnan().all())
    torch.testing.assert_close(x[[0, 2]], brute(c[[0, 2]]))
    leaf = c.clone().requires_grad_()
    loss_fn = SPOPlus(Oracle(solver, **options, on_failure="skip"))
    predicted = (leaf + true) / 2  # so that 2ĉ − c is the leaf
    with pytest.warns(UserWarning, match="They are left out"):
        loss = loss_fn(predicted, true)
    (gradient,) = torch.autograd.grad(loss, leaf)
    rest = c[[0, 2]].requires_grad_()
    alone = SPOPlus(brute)((rest + true[[0, 2]]) / 2, true[[0, 2]])
    assert loss.item() == pytest.approx(alone.item())
    torch.testing.assert_close(gradient[[0, 2]], torch.autograd.grad(alone, rest)[0])
    assert gradient[1].tolist() == [0.0] * V


def test_a_batched_solver_fails_as_one_and_its_shape_is_that_of_the_batch() -> None:
    with pytest.raises(aimfor.SolverError, match=r"3 of 3 items .* item 0: .*shape \(5,\), expected \(3"):
        Oracle(lambda c: brute(c)[0], batched=True)(costs(0, 3))
    with pytest.raises(aimfor.SolverError, match=r"3 of 3 .* raised ZeroDivisionError"):
        Oracle(lambda c: 1 // 0, batched=True)(costs(0, 3))
    with pytest.raises(aimfor.InputError, match=r"feasible: got shape \(1,\), expected one answer for each of 3"):
        Oracle(brute, batched=True, feasible=lambda x: torch.ones(1))(costs(0, 3))


def test_a_program_without_bounds_is_named_where_a_rule_or_loss_needs_them() -> None:
    """x >= 0 alone is bounded for positive costs and not for those that a rule tries."""
    open_ended = LinearProgram(lower=0.0)
    c = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(aimfor.SolverError, match=r"1 of 2 .*item 1: the objective has no finite optimum\. Next: bound"):
        SPOPlus(open_ended)(c * torch.tensor([[1.0], [0.4]]), torch.ones(2, 3).double())
    x = solve(c, lower=0.0, gradient=BlackBox(5.0)).x
    with pytest.raises(aimfor.SolverError, match="item 0: the objective has no finite optimum at the costs that the"):
        (-x).sum().backward()
    with pytest.raises(aimfor.SolverError, match="item 1: the objective has no finite optimum at the costs that the"):
        solve(c * torch.tensor([[99.0], [1.0]]), lower=0.0, gradient=Perturbed(50, 1.0))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "infinite cost": (lambda: Oracle(brute)(torch.tensor([1.0, torch.inf])), "costs: got"),
    "nan predicted": (lambda: SPOPlus(brute)(torch.full((V,), torch.nan), costs(0)), "predicted: got"),
    "infinite true": (lambda: SPOPlus(brute)(costs(0), torch.full((V,), torch.inf)), "true: got"),
    "integer costs": (lambda: Oracle(brute)(torch.ones(V).long()), "costs: got dtype torch.int64"),
    "scalar costs": (lambda: Oracle(brute)(torch.tensor(1.0)), "costs: got a scalar"),
    "another shape": (lambda: SPOPlus(brute)(costs(0, 3), costs(0, 2)), "true: got shape"),
    "another solution": (lambda: SPOPlus(brute)(costs(0), costs(0), costs(0, 2)), "solution: got shape"),
    "no solver": (lambda: Oracle(3), "solver: got 3"),  # type: ignore[arg-type]
    "no cost rule": (lambda: Oracle(brute, aimfor.lp.ActiveSet()), "gradient: got"),  # type: ignore[arg-type]
    "strength": (lambda: BlackBox(0.0), "strength: got"),
    "samples": (lambda: Perturbed(0), "samples: got"),
    "sigma": (lambda: PerturbedFenchelYoung(brute, sigma=-1.0), "sigma: got"),
    "failure": (lambda: Oracle(brute, on_failure="ignore"), "on_failure: got"),
    "crossed in one item": (
        lambda: solve(costs(0, 2), lower=0.0, upper=torch.tensor([[1.0] * V, [1.0, 1, -2, 1, 1]]).double()),
        r"lower: got a bound above upper by 2 at variable 2 of item \[1\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_line(name: str) -> None:
    act, words = REFUSED[name]
    with pytest.raises(aimfor.InputError, match=words) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_an_oracle_without_a_rule_refuses_a_backward_pass_and_no_rule_is_differentiated_twice() -> None:
    c = costs(0).requires_grad_()
    with pytest.raises(aimfor.SolverError, match="x does not change with c"):
        Oracle(brute)(c).sum().backward()
    for rule in (BlackBox(1.0), Perturbed(3)):
        (first,) = torch.autograd.grad(Oracle(brute, rule)(c)[0], c, create_graph=True)
        with pytest.raises(aimfor.SolverError, match="no second derivative"):
            first.sum().backward()


def test_seeds_repeat_and_calls_do_not() -> None:
    c = costs(12, 2)
    first, second = Perturbed(3, 1.0, seed=1), Perturbed(3, 1.0, seed=1)
    assert Oracle(brute, first)(c).tolist() == Oracle(brute, second)(c).tolist()
    assert first.noise(c).tolist() != first.noise(c).tolist()


def test_a_program_is_scaled_anew_when_a_part_changes() -> None:
    layer = LinearProgram(A_eq=torch.ones(1, 3), b_eq=torch.ones(1), lower=0.0)
    oracle, costs = Oracle(layer), torch.tensor([[2.0, 1.0, 3.0]])
    assert oracle.optima(costs).round(decimals=9).tolist() == [[0.0, 1.0, 0.0]]
    kept = layer._scaled
    assert kept is not None
    assert oracle.optima(2.0 * costs).round(decimals=9).tolist() == [[0.0, 1.0, 0.0]]
    assert layer._scaled is kept
    layer.b_eq.data.mul_(2.0)  # leaves no trace in the version
    assert oracle.optima(costs).round(decimals=9).tolist() == [[0.0, 2.0, 0.0]]
    assert pickle.loads(pickle.dumps(layer))._scaled is None
