"""The plain scheme, Mangasarian's rule, sketches, the layer and the head."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import aimfor
from aimfor import Status
from aimfor.lp import (
    Implicit,
    LinearProgram,
    LPHead,
    PenaltyNewton,
    Sketch,
    Unrolled,
    choose_epsilon,
    plain_scheme,
    solve,
)
from aimfor.lp.operators.dense import CholeskyFactor
from aimfor.lp.operators.sketched import SketchedOperator
from aimfor.lp.program import Standard, equilibrate, read_program, standard_form
from aimfor.lp.solvers import highs, penalty
from aimfor.lp.solvers.base import OPTIMAL, UNBOUNDED, residuals
from aimfor.lp.solvers.penalty import Penalised, mangasarian_epsilon, minimise_penalty

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import feasible_bounded
from random_programs import highs as random_highs


def test_plain_scheme_solves_the_separable_auc_program_and_not_a_coupled_one() -> None:
    gaps = torch.randn(40, dtype=torch.float64)
    A, b = torch.cat((-torch.eye(40), -torch.eye(40))).double(), torch.cat((gaps, torch.zeros(40).double()))
    r = plain_scheme(torch.ones(40).double(), A, b, final_ridge=0.0)
    assert torch.allclose(r.x, (-gaps).clamp_min(0.0), atol=1e-9)
    p = feasible_bounded(20, 50, 20, 0)
    coupled = plain_scheme(p["c"], p["A"], p["b"])
    assert int((coupled.gradient_norm > 1e-3 * p["c"].abs().amax(1)).sum()) == 20


def test_plain_scheme_ridge_biases_x_and_unrolling_reaches_the_costs() -> None:
    r = plain_scheme(torch.ones(1).double(), -torch.ones(1, 1).double(), torch.tensor([-2.0]).double())
    assert r.x.item() == pytest.approx(2.0 / 1.01)
    c = torch.ones(1).double().requires_grad_()
    y = plain_scheme(c, -torch.ones(1, 1).double(), torch.tensor([-2.0]).double(), unroll=True, ridge=0.0).y
    y.sum().backward()
    assert c.grad is not None
    assert c.grad.item() == pytest.approx(-1e-3)


def test_newton_minimises_the_penalty() -> None:
    """Against L-BFGS on the same function."""
    p = feasible_bounded(1, 30, 8, 1)
    scaled, _ = equilibrate(standard_form(read_program(**p))[0])
    epsilon = torch.full((1, 1), 0.1).double()
    found = minimise_penalty(scaled, epsilon, torch.zeros(1, 8).double())
    assert bool(found.converged.all())

    def g(y: torch.Tensor) -> torch.Tensor:
        over = (scaled.operator.inequality(y) - scaled.h).clamp_min(0.0)
        return 0.5 * over.square().sum() + 0.1 * (scaled.c * y).sum()

    y = torch.zeros(1, 8).double().requires_grad_()
    optimizer = torch.optim.LBFGS([y], max_iter=2000, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = g(y)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert float(g(found.y)) <= float(g(y).detach()) + 1e-14
    assert float(g(found.y)) == pytest.approx(float(g(y).detach()), abs=1e-7)


def test_newton_gives_up_after_two_hundred_steps_and_says_so() -> None:
    scaled, _ = equilibrate(standard_form(read_program(**feasible_bounded(3, 30, 8, 1)))[0])
    found = minimise_penalty(scaled, torch.full((3, 1), 0.1).double(), torch.zeros(3, 8).double(), tol=-1.0)
    assert not bool(found.converged.any())
    assert found.steps.tolist() == [200] * 3
    assert bool(found.y.isfinite().all())


def test_mangasarians_rule_finds_the_exact_least_norm_dual() -> None:
    p = feasible_bounded(6, 50, 20, 2, equalities=2)
    scaled, scaling = equilibrate(standard_form(read_program(**p))[0])
    epsilon, dual, dual_equality = mangasarian_epsilon(scaled)
    assert bool((epsilon > 0).all())
    s = solve(**p)
    assert torch.allclose(scaling.dual(dual), s.dual_ineq, atol=1e-5 * float(s.dual_ineq.max()))
    assert torch.allclose(scaling.dual_equality(dual_equality), s.dual_eq, atol=1e-5 * float(s.dual_ineq.max()))


def test_the_rule_also_sets_the_epsilon_of_the_implicit_gradient() -> None:
    p = feasible_bounded(3, 30, 8, 5)
    epsilon = choose_epsilon(**p)
    assert epsilon.shape == (3,)
    assert bool((epsilon > 0).all())
    gradients = []
    for rule in (Implicit(None), None):
        b = p["b"].clone().requires_grad_()
        solve(p["c"], p["A"], b, gradient=rule).x.sum().backward()
        gradients.append(b.grad)
    # At an ε with the exact dual the active rows are the right ones, and ∂x/∂b does not depend on ε.
    assert torch.allclose(*gradients, atol=1e-8)


@pytest.mark.parametrize("kind", ["rows", "count", "leverage"])
def test_a_sketched_hessian_still_gives_the_exact_answer(kind: str) -> None:
    p = feasible_bounded(2, 200, 10, 4)
    s = solve(**p, method=PenaltyNewton(sketch=Sketch(kind, 60)))
    assert s.status is Status.ok
    assert torch.allclose(s.value, solve(**p).value, rtol=1e-9)


@pytest.mark.parametrize("kind", ["rows", "count", "leverage"])
def test_a_reduced_program_is_a_relaxation_that_gets_better_with_size(kind: str) -> None:
    p = {k: part[0] for k, part in feasible_bounded(1, 200, 6, 4).items()}
    exact = float(solve(**p, lower=-50.0, upper=50.0).value)
    values = []
    for size in (20, 100, 200):
        A, b = Sketch(kind, size).reduce(p["A"], p["b"])
        assert len(A) == size
        values.append(float(solve(p["c"], A, b, lower=-50.0, upper=50.0).value))
    assert values[0] <= values[1] + 1e-9
    assert values[1] <= exact + 1e-9
    assert values[2] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("items", [1, 3])
def test_leverage_is_the_diagonal_of_the_projection_on_the_columns(items: int) -> None:
    program, _ = standard_form(read_program(**feasible_bounded(items, 30, 4, 0)))
    rows = program.operator.rows
    sketched = SketchedOperator(program.operator, "leverage", 10, torch.Generator())
    projection = rows @ torch.linalg.inv(rows.mT @ rows) @ rows.mT
    expected = projection.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(sketched.leverage, expected, rtol=0.0, atol=1e-11)
    assert sketched.leverage.sum(1).tolist() == pytest.approx([4.0] * items, abs=1e-9)


ONE = (torch.ones(1), -torch.ones(1, 1), -torch.ones(1))
BOUNDARIES: dict[str, tuple[Callable[..., object], str, list[float], list[float]]] = {
    "sketch size": (Sketch, "size", [0, -1], [1]),
    "sketch seed": (Sketch, "seed", [-1], [0]),
    "plain epsilon": (partial(plain_scheme, *ONE), "epsilon", [0.0, -1e-3], [1e-3]),
    "plain ridge": (partial(plain_scheme, *ONE), "ridge", [-1e-9], [0.0]),
    "plain step": (partial(plain_scheme, *ONE), "step", [0.0, -1.0], [1e-3]),
    "plain iterations": (partial(plain_scheme, *ONE), "iterations", [0, -1], [1]),
    "plain final ridge": (partial(plain_scheme, *ONE), "final_ridge", [-1e-9], [0.0]),
    "head beta": (LPHead, "beta", [0.0, -0.5], [1e-3]),
    "head limit": (LPHead, "limit", [0.0, -0.5], [1e-3]),
    "implicit epsilon": (Implicit, "epsilon", [0.0, -1e-3], [1e-3]),
    "implicit ridge": (Implicit, "ridge", [-1e-9], [0.0]),
    "unrolled steps": (Unrolled, "steps", [0, -1], [1]),
    "unrolled epsilon": (Unrolled, "epsilon", [0.0, -1e-3], [1e-3]),
    "unrolled ridge": (Unrolled, "ridge", [-1e-9], [0.0]),
    "engine margin": (aimfor.LPEngine, "margin", [0.0, -0.5], [1e-3]),
    "engine tol": (aimfor.LPEngine, "tol", [0.0, -1e-9, 1e-2], [1e-12, 9e-3]),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_a_number_beyond_its_boundary_is_refused_by_name_and_one_within_is_not(name: str) -> None:
    make, argument, beyond, within = BOUNDARIES[name]
    for number in beyond:
        with pytest.raises(aimfor.InputError) as caught:
            make(**{argument: number})
        assert caught.value.argument == argument
    for number in within:
        assert make(**{argument: number}) is not None


def test_layer_keeps_learns_and_saves_its_parts() -> None:
    A = torch.nn.Parameter(torch.tensor([[1.0, 1.0]]))
    layer = LinearProgram(A=A, b=torch.tensor([1.0]), lower=0.0)
    s = layer(c=torch.tensor([-1.0, -2.0]))
    assert s.x.tolist() == [0.0, 1.0]
    s.value.backward()
    assert A.grad is not None
    assert A.grad.tolist() == [[0.0, 2.0]]
    other = LinearProgram(A=torch.nn.Parameter(torch.zeros(1, 2)), b=torch.zeros(1), lower=0.0)
    other.load_state_dict(layer.state_dict())
    assert other(c=torch.tensor([-1.0, -2.0])).x.tolist() == [0.0, 1.0]
    assert "A" in repr(layer)
    with pytest.raises(aimfor.InputError, match="c: got nothing"):
        layer()
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        layer(d=torch.ones(1))
    with pytest.raises(aimfor.InputError, match="A: got a list"):
        LinearProgram(A=[[1.0]])


def test_auroc_head_is_optimal_among_scorers_and_has_the_envelope_gradient() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(12, 3, generator=g, dtype=torch.float64)
    y = torch.arange(12) % 2
    x[y == 1] += 0.4
    x.requires_grad_()
    out = LPHead("auroc", limit=2.0)(x, y)
    assert out.status is Status.ok

    def hinge(features: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        scores = features @ w
        return (1 - (scores[y == 1][:, None] - scores[y == 0])).clamp_min(0).mean()

    assert out.loss.item() == pytest.approx(hinge(x, out.weight).item(), abs=1e-9)
    for _ in range(200):
        w = (out.weight.detach() + 0.2 * torch.randn(3, generator=g, dtype=torch.float64)).clamp(-2, 2)
        assert hinge(x.detach(), w).item() >= out.loss.item() - 1e-9
    (gradient,) = torch.autograd.grad(out.loss, x)
    move = torch.randn(12, 3, generator=g, dtype=torch.float64)
    ends = [LPHead("auroc", limit=2.0)(x.detach() + t * move, y).loss.item() for t in (1e-6, -1e-6)]
    assert float((gradient * move).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-5)


def test_fbeta_head_bounds_its_own_scorer_and_learns_features() -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(14, 3, generator=g, dtype=torch.float64)
    y = (torch.arange(14) % 3 == 0).long()
    for beta in (1.0, 2.0):
        out = LPHead("fbeta", beta=beta)(x, y)
        assert out.status is Status.ok
        assert 1 - float(out.loss) <= float(aimfor.FBeta(beta).value(out.scores, y)) + 1e-9
        # The bound is the threshold-0 bound of the scorer it returns.
        zero = float(aimfor.MetricLoss(aimfor.FBeta(beta), aimfor.LPEngine())(out.scores, y))
        assert zero == pytest.approx(float(out.loss), abs=1e-7)
    features = x.clone().requires_grad_()
    losses = []
    for _ in range(30):
        loss = LPHead("fbeta")(features, y).loss
        losses.append(loss.item())
        (gradient,) = torch.autograd.grad(loss, features)
        features = (features - 0.5 * gradient).detach().requires_grad_()
    assert losses[-1] < losses[0] - 0.05


def test_head_on_one_class_is_undefined_and_attached() -> None:
    x = torch.randn(4, 2, requires_grad=True)
    out = LPHead()(x, torch.ones(4))
    assert out.status is Status.undefined_batch
    out.loss.backward()
    assert x.grad is not None
    assert not x.grad.any()
    with pytest.raises(aimfor.InputError, match="features"):
        LPHead()(torch.ones(3), torch.ones(3))


@pytest.mark.parametrize(("kind", "other"), [("count", "_sample"), ("rows", "_count"), ("leverage", "_count")])
def test_every_kind_of_sketch_is_made_its_own_way(kind: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = standard_form(read_program(**feasible_bounded(2, 30, 4, 0)))
    sketched = SketchedOperator(program.operator, kind, 10, torch.Generator().manual_seed(0))
    monkeypatch.delattr(SketchedOperator, other)
    step = sketched.factor(torch.ones_like(program.h)).solve(torch.ones(2, 4, dtype=torch.float64))
    assert bool(step.isfinite().all())


def test_equilibrated_rows_end_at_exactly_one() -> None:
    p = feasible_bounded(2, 12, 5, 0, equalities=2)
    p["A"] = p["A"] * torch.logspace(-3, 3, 12, dtype=torch.float64)[:, None]
    scaled, _ = equilibrate(standard_form(read_program(**p))[0])
    rows, equal, columns = scaled.operator.largest()
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=1e-12, atol=0.0)
    torch.testing.assert_close(equal, torch.ones_like(equal), rtol=1e-12, atol=0.0)
    assert 0.1 < float(columns.min()) <= float(columns.max()) <= 1.0 + 1e-12


def test_a_bound_that_an_item_lacks_stays_a_row_with_room() -> None:
    """0·x <= 1 whatever the units: a row without room would leave the interior empty."""
    lower = torch.tensor([[0.0, -2.0], [-torch.inf, -3.0]]).double()
    c, rows = torch.tensor([[1.0, 5.0], [2.0, 1.0]]).double(), torch.tensor([[-30.0, 4.0], [-1.0, -7.0]]).double()
    program, _ = standard_form(read_program(c=c, A=rows, b=torch.tensor([40.0, 9.0]).double(), lower=lower))
    scaled, scaling = equilibrate(program)
    lacking = scaled.operator.bounds.coefficients == 0
    assert lacking.tolist() == [[False, False], [True, False]]
    assert bool((scaling.row > 0).all())
    assert float((scaled.h * scaling.size)[:, 2:][lacking]) == pytest.approx(1.0)


def test_a_diagonal_below_zero_by_rounding_alone_is_solved_as_zero() -> None:
    right = torch.tensor([[8.0, 0.0]]).double()
    for corner in (0.0, -1e-18):
        gram = torch.tensor([[[4.0, 0.0], [0.0, corner]]]).double()
        assert CholeskyFactor(gram).solve(right).flatten().tolist() == pytest.approx([2.0, 0.0])


def test_highs_own_duals_prove_the_value_before_they_are_polished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "certified", lambda program, rough, tol: (rough, residuals(program, rough)))
    program, _ = standard_form(read_program(**feasible_bounded(3, 30, 8, 0, equalities=2, bounds=True)))
    found = highs.solve_by_highs(program, 1e-7)
    assert found.outcome.tolist() == [OPTIMAL] * 3
    assert float(found.point.y.abs().min()) > 1e-6  # the equalities matter
    assert float(found.point.z.min()) >= 0.0


@pytest.mark.parametrize(("size", "steps"), [(2e6, 1), (0.5e6, 3)])
@pytest.mark.parametrize("runaway", ["y", "rows"])
def test_runaway_iterates_end_the_outer_steps(
    runaway: str, size: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inner minimiser beyond a million is taken for a program without an optimum, though it converged."""
    calls = []

    def far_away(program: Standard, epsilon: torch.Tensor, *rest: object, **options: object) -> Penalised:
        calls.append(float(epsilon))
        found = minimise_penalty(program, epsilon, *rest, **options)
        return replace(found, **{runaway: torch.full_like(getattr(found, runaway), size)})

    monkeypatch.setattr(penalty, "minimise_penalty", far_away)
    program, _ = standard_form(read_program(torch.ones(2).double(), -torch.eye(2).double(), -torch.ones(2).double()))
    PenaltyNewton(epsilon=1.0, smallest=1.0, outer=3).run(program, tol=-1.0)  # nothing is ever good enough
    assert calls == [1.0] * steps


def test_duals_of_highs_with_a_wrong_sign_in_the_last_digits_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """x >= 1 is the row that holds, with a dual of 1; x <= 5 does not hold, and rounding may leave it any sign."""
    rows, bounds = torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([-1.0, 5.0]).double()
    program, _ = standard_form(read_program(torch.ones(1).double(), rows, bounds))
    item = highs._numpy(program)
    result = highs._linprog(item)
    assert result.ineqlin.marginals.tolist() == [-1.0, 0.0]
    result.ineqlin.marginals[1] = 1e-12
    monkeypatch.setattr(highs, "certified", lambda program, rough, tol: (rough, residuals(program, rough)))
    assert highs._certify(program, [highs._answer(result)], 1e-9).point.z.tolist() == [[1.0, 0.0]]


def test_the_ray_of_highs_is_the_steepest_of_the_directions_with_entries_up_to_one() -> None:
    """A bound leaves a variable one sign or, with its twin, none: the corners of what is left, tried one by one."""
    lower = torch.tensor([-torch.inf, -torch.inf, -1.0, -torch.inf, -1.0]).double()
    upper = torch.tensor([torch.inf, torch.inf, torch.inf, 1.0, 1.0]).double()
    draw = torch.Generator().manual_seed(0)
    for _ in range(5):
        c = torch.randn(5, generator=draw, dtype=torch.float64)
        program, _ = standard_form(read_program(c, None, None, lower=lower, upper=upper))
        found = highs.solve_by_highs(program, 1e-9)
        assert found.outcome.tolist() == [UNBOUNDED]
        corners = torch.tensor(list(itertools.product((-1.0, 0.0, 1.0), repeat=5))).double()
        outside = ((corners < 0) & lower.isfinite()) | ((corners > 0) & upper.isfinite())
        corners = corners[~outside.any(1)]
        best = corners[(corners @ c).argmin()]
        ray = found.point.x[0]
        assert (ray / ray.abs().max()).tolist() == pytest.approx(best.tolist(), abs=1e-12)


def test_noise_on_the_costs_leaves_one_optimum_of_a_face() -> None:
    """Meng's Theorem 2. HiGHS looks how far apart two optima are, along a direction; `unique` must say the same."""
    draw = torch.Generator().manual_seed(3)
    A = torch.randn(60, 8, generator=draw, dtype=torch.float64)
    dual = torch.zeros(60, dtype=torch.float64)
    dual[:4] = 1.0
    c, b = -A.T @ dual, A @ torch.randn(8, generator=draw, dtype=torch.float64)
    b[4:] += torch.rand(56, generator=draw, dtype=torch.float64)
    along = torch.randn(8, generator=draw, dtype=torch.float64)

    def spread(costs: torch.Tensor) -> float:
        low, high = -20.0 * torch.ones(8).double(), 20.0 * torch.ones(8).double()
        value = float(solve(costs, A, b, lower=low, upper=high).value)
        held = {"A": torch.cat((A, costs[None])), "b": torch.cat((b, torch.tensor([value + 1e-7]).double()))}
        ends = [random_highs({"c": sign * along, **held, "lower": low, "upper": high}).fun for sign in (1.0, -1.0)]
        return float(-ends[0] - ends[1])

    shaken = c + 0.03 * torch.randn(8, generator=draw, dtype=torch.float64)
    before, after = (solve(costs, A, b, lower=-20.0, upper=20.0) for costs in (c, shaken))
    assert not bool(before.unique)
    assert spread(c) > 0.05
    assert bool(after.unique)
    assert abs(spread(shaken)) < 1e-4  # HiGHS keeps rows to 1e-7, over costs that differ by about 1e-2
    assert float((c * after.x).sum()) == pytest.approx(float(before.value), abs=1e-9)
