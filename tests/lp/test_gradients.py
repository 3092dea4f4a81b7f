"""Gradient rules against finite differences of HiGHS-grade solutions, on x and on the value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.lp import ActiveSet, Envelope, GradientRule, Implicit, Unrolled, solve

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import Parts, feasible_bounded

NAMES = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")


def nondegenerate(seed: int, items: int = 2) -> Parts:
    return feasible_bounded(items, 16, 6, seed, equalities=1, bounds=True)


def directional(parts: Parts, name: str, direction: Tensor, readout: str, step: float = 1e-6) -> Tensor:
    """Central difference of x or value along a direction in one argument."""
    ends = []
    for sign in (1.0, -1.0):
        moved = {**parts, name: parts[name] + sign * step * direction}
        ends.append(getattr(solve(**moved), readout))
    return (ends[0] - ends[1]) / (2 * step)


def analytic(parts: Parts, readout: str, weight: Tensor, rule: GradientRule) -> dict[str, Tensor]:
    leaves = {name: part.clone().requires_grad_() for name, part in parts.items()}
    (getattr(solve(**leaves, gradient=rule), readout) * weight).sum().backward()
    return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def direction_for(part: Tensor) -> Tensor:
    direction = torch.randn_like(part)
    return torch.where(part.isfinite(), direction, 0.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", [Envelope(), ActiveSet(), Implicit(), Unrolled()], ids=lambda r: type(r).__name__)
def test_value_gradient_matches_finite_differences_under_every_rule(name: str, rule: GradientRule) -> None:
    for seed in range(3):
        parts = nondegenerate(seed)
        weight = torch.tensor([1.0, -2.0], dtype=torch.float64)
        gradient = analytic(parts, "value", weight, rule)[name]
        direction = direction_for(parts[name])
        numeric = float((directional(parts, name, direction, "value") * weight).sum())
        assert float((gradient * direction).sum()) == pytest.approx(numeric, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_active_set_gradient_of_x_matches_finite_differences(name: str) -> None:
    for seed in range(3):
        parts = nondegenerate(seed)
        weight = torch.randn(2, 6, dtype=torch.float64)
        gradient = analytic(parts, "x", weight, ActiveSet())[name]
        direction = direction_for(parts[name])
        numeric = float((directional(parts, name, direction, "x") * weight).sum())
        assert float((gradient * direction).sum()) == pytest.approx(numeric, rel=1e-5, abs=1e-6)


MAKERS = [lambda epsilon: Implicit(epsilon, 0.0), lambda epsilon: Unrolled(1, epsilon, 0.0)]


@pytest.mark.parametrize("make", MAKERS, ids=["implicit", "unrolled"])
@pytest.mark.parametrize("name", NAMES)
def test_implicit_and_unrolled_differ_from_the_truth_by_epsilon(name: str, make: object) -> None:
    """The error is linear in ε: a hundredth of ε leaves a hundredth of the error (down to rounding)."""
    parts = nondegenerate(1)
    weight = torch.randn(2, 6, dtype=torch.float64)
    exact = analytic(parts, "x", weight, ActiveSet())[name]
    scale = float(exact.abs().max()) + 1.0
    errors = []
    for epsilon in (1e-4, 1e-6):
        found = analytic(parts, "x", weight, make(epsilon))[name]  # type: ignore[operator]
        errors.append(float((found - exact).abs().max()) / scale)
    assert errors[0] < 1e-1
    assert errors[1] <= 0.02 * errors[0] + 1e-7


def test_unrolled_steps_sum_the_neumann_series_of_the_ridge() -> None:
    parts = nondegenerate(2)
    weight = torch.randn(2, 6, dtype=torch.float64)
    exact = analytic(parts, "x", weight, Unrolled(1, 1e-6, 0.0))["b"]
    found = [analytic(parts, "x", weight, Unrolled(steps, 1e-6, 1e-2))["b"] for steps in (1, 4, 40)]
    errors = [float((gradient - exact).abs().max()) for gradient in found]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3 * errors[0]


def test_implicit_gives_costs_a_gradient_that_lowers_a_loss() -> None:
    """Learning costs: the true ∂x/∂c is zero, the penalised one moves x to where it should be."""
    target = torch.tensor([1.0, 0.0], dtype=torch.float64)
    c = torch.tensor([-1.0, -1.2], dtype=torch.float64, requires_grad=True)
    A, b = torch.ones(1, 2).double(), torch.ones(1).double()
    loss = (solve(c, A, b, lower=0.0, gradient=ActiveSet()).x - target).square().sum()
    assert loss.item() == pytest.approx(2.0)
    (active,) = torch.autograd.grad(loss, c)
    assert float(active.abs().max()) == 0.0
    for _ in range(50):
        x = solve(c, A, b, lower=0.0, gradient=Implicit(0.5)).x
        (gradient,) = torch.autograd.grad((x - target).square().sum(), c)
        c = (c - 0.2 * gradient).detach().requires_grad_()
    assert solve(c, A, b, lower=0.0).x.tolist() == pytest.approx([1.0, 0.0], abs=1e-9)


def test_where_no_row_holds_the_penalised_optimum_the_ridge_alone_does() -> None:
    """Costs of zero leave every direction free: ∂y/∂c is −ε/ρ there, and learning can begin."""
    for rows in (1, 4):  # by rows and by variables
        c = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        A, b = torch.ones(rows, 3).double(), torch.ones(rows).double()
        x = solve(c, A, b, lower=-1.0, upper=1.0, gradient=Implicit(0.5, ridge=1e-6)).x
        (gradient,) = torch.autograd.grad(x[0], c)
        assert gradient.tolist() == pytest.approx([-0.5e6, 0.0, 0.0], rel=1e-6, abs=1e-3)


@pytest.mark.parametrize(
    "rule", [ActiveSet(), Implicit(ridge=0.0), Unrolled(ridge=0.0)], ids=lambda r: type(r).__name__
)
@pytest.mark.parametrize(("cost", "leaning"), [(-3.0, "upper"), (3.0, "lower")])
def test_a_pinned_variable_follows_the_bound_it_leans_on(cost: float, leaning: str, rule: GradientRule) -> None:
    """With lower = upper the cost pulls x to one of them: moving that one outwards moves x, the other one nothing."""
    outwards = {"lower": -1e-3, "upper": 1e-3}
    bounds = {name: torch.tensor([2.0]).double().requires_grad_() for name in outwards}
    c = torch.tensor([cost]).double()
    s = solve(c, **bounds, gradient=rule)
    for readout, answer in (("value", s.value), ("x", s.x.sum())):
        gradients = torch.autograd.grad(answer, list(bounds.values()), retain_graph=True)
        for (name, step), gradient in zip(outwards.items(), gradients, strict=True):
            moved = solve(c, **{**bounds, name: bounds[name].detach() + step})
            numeric = float((getattr(moved, readout).sum() - answer).detach()) / step
            assert float(gradient) == pytest.approx(numeric, abs=1e-6)
            assert (numeric != pytest.approx(0.0, abs=1e-6)) == (name == leaning)


def test_a_pin_given_as_lower_bounds_alone_moves_with_them() -> None:
    """Where a user's upper bound is a number, the lower one carries the gradient of what leans on it."""
    lower = torch.tensor([2.0, 0.0]).double().requires_grad_()
    s = solve(torch.tensor([3.0, 1.0]).double(), lower=lower, upper=2.0)
    s.value.backward()
    assert lower.grad is not None
    assert lower.grad.tolist() == pytest.approx([3.0, 1.0])


def test_gradients_are_summed_over_the_batch_for_shared_parts() -> None:
    parts = nondegenerate(0, items=3)
    weight = torch.randn(3, 6, dtype=torch.float64)
    A = parts["A"][0]
    inside = 0.5 * (parts["lower"].clamp_min(-9) + parts["upper"].clamp_max(9))
    shared = {**parts, "A": A, "b": (A @ inside[:, :, None])[:, :, 0] + 1.0}
    shared["b_eq"] = (parts["A_eq"] @ inside[:, :, None])[:, :, 0]
    one = shared["A"].clone().requires_grad_()
    each = shared["A"].expand(3, -1, -1).clone().requires_grad_()
    for rule in (ActiveSet(), Implicit(), Unrolled()):
        for leaf in (one, each):
            leaf.grad = None
            s = solve(**{**shared, "A": leaf}, gradient=rule)
            ((s.x * weight).sum() + s.value.sum()).backward()
        assert one.grad is not None
        assert each.grad is not None
        assert torch.allclose(one.grad, each.grad.sum(0), atol=1e-10)


def test_envelope_refuses_a_backward_pass_through_x() -> None:
    b = torch.ones(1, requires_grad=True)
    s = solve(torch.tensor([-1.0]), torch.ones(1, 1), b, gradient=Envelope())
    s.value.backward()
    assert b.grad is not None
    assert b.grad.tolist() == [-1.0]
    with pytest.raises(aimfor.SolverError, match="no gradient under the rule Envelope"):
        s.x.sum().backward()


def test_the_default_rule_refuses_a_gradient_that_reaches_costs_alone() -> None:
    """Zero is the truth at a vertex, and useless: only who asks for it by name gets it."""
    c, b = torch.tensor([-1.0, -2.0], requires_grad=True), torch.tensor([1.0])
    solution = solve(c, torch.ones(1, 2), b, lower=0.0)
    with pytest.raises(aimfor.SolverError, match=r"x does not change with c.*Implicit.*ActiveSet\(\) keeps"):
        solution.x.sum().backward()
    assert torch.autograd.grad(solution.value, c)[0].tolist() == [0.0, 1.0]
    b.requires_grad_()
    both = torch.autograd.grad(solve(c, torch.ones(1, 2), b, lower=0.0).x[1], (c, b))
    assert [part.tolist() for part in both] == [[0.0, 0.0], [1.0]]
    zero = solve(c, torch.ones(1, 2), b.detach(), lower=0.0, gradient=ActiveSet()).x
    assert torch.autograd.grad(zero.sum(), c)[0].tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("sparse", [False, True])
def test_costs_alone_are_refused_even_where_constraints_could_have_had_a_gradient(sparse: bool) -> None:
    """Which inputs a pass asks for is seen pass by pass, whatever the passes before it asked for."""
    c, b = torch.tensor([-1.0, -2.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    rows = (torch.ones(1, 2).to_sparse_csr() if sparse else torch.ones(1, 2)).requires_grad_()
    x = solve(c, rows, b, lower=0.0).x[1]

    def ask(*inputs: Tensor) -> list[Tensor]:
        return [part.to_dense() for part in torch.autograd.grad(x, inputs, retain_graph=True)]

    for _ in range(2):
        with pytest.raises(aimfor.SolverError, match="x does not change with c"):
            ask(c)
        for others in ((b,), (rows,), (rows, b)):
            zero, *found = ask(c, *others)
            assert zero.tolist() == [0.0, 0.0]
            assert all(torch.equal(one, two) for one, two in zip(found, ask(*others), strict=True))
            assert all(bool(one.any()) for one in found)
    x.backward()
    assert c.grad is not None
    assert b.grad is not None
    assert (c.grad.tolist(), b.grad.tolist()) == ([0.0, 0.0], [1.0])


def test_items_without_an_optimum_get_gradient_zero_and_leave_the_others_alone() -> None:
    b = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    A = torch.tensor([[1.0], [-1.0]])
    for rule in (ActiveSet(), Implicit(), Unrolled()):
        b.grad = None
        s = solve(torch.tensor([-1.0]), A, b, gradient=rule)
        assert [status.name for status in s.statuses] == ["ok", "infeasible"]
        (s.x[0].sum() + s.value[0]).backward()
        assert b.grad is not None
        assert torch.allclose(b.grad, torch.zeros(2, 2), atol=2e-4)


def test_degenerate_optimum_is_flagged_and_its_envelope_gradient_is_a_subgradient() -> None:
    """Three rows meet in the plane: the value is not differentiable, any dual gives a subgradient."""
    A = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).double()
    b = torch.tensor([1.0, 1.0, 2.0]).double().requires_grad_()
    c = torch.tensor([-1.0, -1.0]).double()
    s = solve(c, A, b)
    assert not bool(s.unique)
    s.value.backward()
    assert b.grad is not None
    for _ in range(20):
        move = torch.randn(3).double()
        lower_bound = s.value.detach() + (b.grad * move).sum()
        assert float(solve(c, A, (b + move).detach()).value) >= float(lower_bound) - 1e-9


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
def test_sparse_gradients_are_the_dense_ones_on_the_pattern() -> None:
    parts = {k: p[0] for k, p in feasible_bounded(1, 20, 6, 3, density=0.6).items()}
    A = parts["A"]
    weight = torch.randn(6).double()
    dense = A.clone().requires_grad_()
    s = solve(parts["c"], dense, parts["b"])
    ((s.x * weight).sum() + s.value).backward()
    csr = A.to_sparse_csr()
    values = csr.values().clone().requires_grad_()
    sparse = torch.sparse_csr_tensor(csr.crow_indices(), csr.col_indices(), values, A.shape)
    s = solve(parts["c"], sparse, parts["b"])
    ((s.x * weight).sum() + s.value).backward()
    assert dense.grad is not None
    assert values.grad is not None
    assert torch.allclose(values.grad, dense.grad[A != 0], atol=1e-8)


@pytest.mark.parametrize(("m", "v"), [(100, 100), (500, 100), (5, 60)])
def test_the_default_implicit_gradient_uses_the_rows_of_the_optimum(m: int, v: int) -> None:
    """Against the program itself, moved: with a fixed ε other rows were active, and ∂x/∂b was off by half and more."""
    parts = feasible_bounded(2, m, v, 4)
    parts["lower"], parts["upper"] = torch.full((2, v), -9.0).double(), torch.full((2, v), 9.0).double()
    parts["c"] = parts["c"] + torch.randn(2, v, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = torch.Generator().manual_seed(1)
    weight, way = (torch.randn(size, generator=g, dtype=torch.float64) for size in ((2, v), (2, m)))
    b = parts["b"].clone().requires_grad_()
    solution = solve(**parts | {"b": b}, gradient=Implicit())
    assert bool(solution.unique.all())
    (gradient,) = torch.autograd.grad((weight * solution.x).sum(), b)
    ends = [(weight * solve(**parts | {"b": parts["b"] + t * way}).x).sum() for t in (1e-7, -1e-7)]
    assert float((gradient * way).sum()) == pytest.approx(float(ends[0] - ends[1]) / 2e-7, rel=1e-4)


def test_an_epsilon_that_changes_the_rows_is_reported_once_where_rows_are_learned() -> None:
    c, A, b = -torch.ones(1).double(), torch.ones(1, 1).double(), torch.ones(1).double()  # y(ε) = 1 + ε up to 1.2
    rule, attached = Implicit(0.5), b.clone().requires_grad_()
    with pytest.warns(UserWarning, match=r"epsilon=0.5\): in 1 of 1 programs other rows count .* Next: a smaller"):
        solve(c, A, attached, upper=1.2, gradient=rule).x.sum().backward()
    solve(c, A, attached, upper=1.2, gradient=rule).x.sum().backward()  # once
    for quiet in (Implicit(0.1), Implicit()):
        solve(c, A, attached, upper=1.2, gradient=quiet).x.sum().backward()
    solve(c.requires_grad_(), A, b, upper=1.2, gradient=Implicit(0.5)).x.sum().backward()  # smoothing is what it is for


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_epsilon_is_in_the_units_of_the_formula(size: float) -> None:
    """``∂x/∂c = −ε (ÃᵀÃ)⁻¹`` over the rows as they were given, whatever their sizes."""
    A = torch.tensor([[2.0, 1.0], [1.0, 3.0]]).double() * torch.tensor([[size], [1.0]]).double()
    b, c = torch.tensor([4.0 * size, 6.0]).double(), torch.tensor([-1.0, -2.0]).double().requires_grad_()
    for epsilon in (1e-3, 1e-2):
        x = solve(c, A, b, gradient=Implicit(epsilon)).x
        jacobian = torch.stack([torch.autograd.grad(one, c, retain_graph=True)[0] for one in x])
        # The factor's ridge of 1e-13 counts by the condition of ÃᵀÃ, some 1e6 for rows of such sizes.
        torch.testing.assert_close(jacobian, -epsilon * torch.linalg.inv(A.mT @ A), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("more", [0, 6], ids=["by variables", "by rows"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
def test_rows_that_are_nearly_parallel_are_flagged(more: int, sparse: bool) -> None:
    """Two rows that differ by 1e-9 make a vertex that a breath on b sends anywhere; two at an angle do not."""
    for angle, single in ((1e-9, False), (1e-2, True)):
        A = torch.zeros(2, 2 + more).double()
        A[:, :2] = torch.tensor([[1.0, 1.0], [1.0, 1.0 + angle]])
        c = torch.ones(2 + more).double()
        c[:2] = torch.tensor([-1.0, -1.0 - angle / 2])
        b, rows = torch.tensor([1.0, 1.0 + angle / 2]).double(), A.to_sparse_csr() if sparse else A
        assert (
            solve(c, rows, b, lower=torch.tensor([-9.0] * 2 + [0.0] * more).double(), upper=9.0).unique.item() is single
        )
