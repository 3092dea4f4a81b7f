"""Programs with more variables than rows are solved rows × rows: the same answers by another route."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse.linalg
import torch
from torch import Tensor

import aimfor
from aimfor.lp import ActiveSet, GradientRule, Implicit, PenaltyNewton, solve
from aimfor.lp.operators import sparse as sparse_module
from aimfor.lp.operators.base import Operator
from aimfor.lp.operators.systems import GramKkt, RowKkt, product
from aimfor.lp.program import Standard, equilibrate, read_program, standard_form

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import Parts, feasible_bounded, highs, infeasible, item, unbounded

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")


def wide(seed: int, m: int = 6, v: int = 30, equalities: int = 2, *, loose: bool = True, items: int = 3) -> Parts:
    """Few rows, many variables; with ``loose`` some are free, in all items or in one, and one is fixed in one item."""
    parts = feasible_bounded(items, m, v, seed, equalities=equalities, bounds=True)
    if loose:
        parts["lower"][0, -1], parts["upper"][0, -1] = -torch.inf, torch.inf
        middle = (parts["lower"][1, 0].clamp(-5, 5) + parts["upper"][1, 0].clamp(-5, 5)) / 2
        parts["lower"][1, 0] = parts["upper"][1, 0] = middle
    else:
        parts["lower"], parts["upper"] = parts["lower"].clamp_min(-9.0), parts["upper"].clamp_max(9.0)
    # Costs of their own make the optimum a vertex; each presses its variable against a bound, or it would run away.
    noise = torch.randn(items, v, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    below, above = parts["lower"].isfinite(), parts["upper"].isfinite()
    press = torch.where(below & above, noise, noise.abs() * (below.double() - above.double()))
    parts["c"] = parts["c"] + press
    return parts


def standard(parts: Parts) -> Standard:
    names = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")
    return equilibrate(standard_form(read_program(*(parts.get(name) for name in names)))[0])[0]


@pytest.mark.parametrize("degenerate", [False, True])
@pytest.mark.parametrize(("m", "v", "equalities"), [(2, 9, 0), (4, 40, 3), (11, 60, 1), (30, 90, 0)])
def test_wide_programs_match_highs_with_certified_duals(m: int, v: int, equalities: int, degenerate: bool) -> None:
    for seed in range(4):
        parts = feasible_bounded(4, m, v, seed, equalities=equalities, bounds=True, degenerate=degenerate)
        assert standard(parts).operator.wide
        solution = solve(**parts, on_failure="status")
        assert solution.status is aimfor.Status.ok
        assert float(solution.residuals.worst().max()) <= 1e-9
        for i in range(4):
            assert solution.value[i].item() == pytest.approx(highs(item(parts, i)).fun, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("loose", [False, True])
def test_the_system_of_a_step_is_solved_by_rows_as_by_variables(loose: bool) -> None:
    program = standard(wide(5, loose=loose))
    g = program.operator
    assert bool(g.loose.numel()) is loose
    cone, rows = g.inequalities, g.general + g.equal
    weights = torch.rand(3, cone, dtype=torch.float64) + 0.1
    right = torch.randn(2, 3, cone + g.equalities + g.variables, dtype=torch.float64)
    # A row that reads 0·x = q has no solution: the item does not fix that variable.
    bounds = cone - g.general
    right[..., bounds + rows : -g.variables] *= g.pinned.coefficients != 0
    u = RowKkt(g, weights).solve(right, refine=False)
    slacks = torch.zeros_like(u)
    slacks[..., :cone] = u[..., :cone] / weights
    torch.testing.assert_close(product(g, u) - slacks, right, rtol=0, atol=1e-9)
    x, z = u[..., -g.variables :], torch.cat((u[..., bounds:cone], u[..., :bounds]), -1)
    torch.testing.assert_close(product(g, u)[..., bounds:cone], g.general_rows(x), rtol=0, atol=1e-12)
    y, last = u[..., cone : -g.variables], product(g, u)[..., -g.variables :]
    torch.testing.assert_close(last, g.inequality_t(z) + g.equality_t(y), rtol=0, atol=1e-9)
    torch.testing.assert_close(GramKkt(g, weights).solve(right, refine=True)[..., -g.variables :], x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("rule", [ActiveSet(), Implicit(1e-5)], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("loose", [False, True])
def test_rows_and_variables_give_one_answer_and_one_gradient(
    rule: GradientRule, loose: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = wide(7, loose=loose)
    weight = torch.randn(3, 30, dtype=torch.float64)

    def run() -> tuple[Tensor, ...]:
        leaves = {name: part.clone().requires_grad_() for name, part in parts.items()}
        solution = solve(**leaves, gradient=rule)
        gradients = torch.autograd.grad((weight * solution.x).sum(), list(leaves.values()))
        return solution.x.detach(), solution.dual_ineq, solution.dual_eq, solution.dual_lower, *gradients

    by_rows = run()
    monkeypatch.setattr(Operator, "wide", False)
    for mine, other in zip(by_rows, run(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


def test_the_penalty_of_a_wide_program_is_minimised_by_rows() -> None:
    parts = wide(3, loose=False)
    ours, newton = solve(**parts), solve(**parts, method=PenaltyNewton(), on_failure="status")
    assert newton.status is aimfor.Status.ok
    torch.testing.assert_close(newton.x, ours.x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["b", "A", "b_eq", "A_eq", "lower", "upper"])
def test_gradients_of_a_wide_program_match_finite_differences(name: str) -> None:
    parts = wide(11, loose=False)
    weight = torch.randn(3, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    way = torch.randn(parts[name].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    leaf = parts[name].clone().requires_grad_()
    (gradient,) = torch.autograd.grad((weight * solve(**parts | {name: leaf}).x).sum(), leaf)
    ends = [(weight * solve(**parts | {name: parts[name] + t * way}).x).sum() for t in (1e-6, -1e-6)]
    assert float((gradient * way).sum()) == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)


def test_wide_programs_without_an_optimum_are_named() -> None:
    for seed in range(4):
        assert set(solve(**infeasible(2, 5, 12, seed), on_failure="status").statuses) == {aimfor.Status.infeasible}
    names = {0: aimfor.Status.ok, 2: aimfor.Status.infeasible, 3: aimfor.Status.unbounded}
    seen = set()
    for seed in range(4):
        parts = unbounded(2, 5, 20, seed)
        parts["lower"] = torch.where(parts["c"] > 0, -torch.inf, -9.0)
        parts["upper"] = torch.where(parts["c"] > 0, 9.0, torch.inf)
        assert standard(parts).operator.wide
        for i, status in enumerate(solve(**parts, on_failure="status").statuses):
            assert status is names[highs(item(parts, i)).status]
            seen.add(status)
    assert aimfor.Status.unbounded in seen


@pytest.mark.parametrize("full", [0.0, 2.0], ids=["dense square", "sparse square"])
@pytest.mark.parametrize(("m", "v"), [(8, 40), (40, 12)], ids=["wide", "tall"])
def test_a_sparse_batch_is_one_factorisation_and_the_dense_answer(
    m: int, v: int, full: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pattern, many weights: SuperLU sees the block-diagonal matrix of the batch, never one item after another."""
    monkeypatch.setattr(sparse_module, "FULL", full)
    sizes: list[int] = []
    splu = scipy.sparse.linalg.splu

    def counted(matrix: object, **options: object) -> object:
        sizes.append(matrix.shape[0])  # type: ignore[attr-defined]
        return splu(matrix, **options)

    monkeypatch.setattr(scipy.sparse.linalg, "splu", counted)
    first = feasible_bounded(1, m, v, 3, equalities=2, bounds=True, density=0.2)
    g = torch.Generator().manual_seed(0)
    c = first["c"] + torch.randn(5, v, generator=g, dtype=torch.float64)
    shared = {name: part[0] for name, part in first.items()} | {"c": c}
    shared["lower"], shared["upper"] = shared["lower"].clamp_min(-9.0), shared["upper"].clamp_max(9.0)
    sparse = shared | {name: shared[name].to_sparse_csr() for name in ("A", "A_eq")}
    solution, dense = solve(**sparse, on_failure="status"), solve(**shared)
    assert solution.status is aimfor.Status.ok
    torch.testing.assert_close(solution.value, dense.value, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(solution.x, dense.x, rtol=0, atol=1e-8)
    assert bool(sizes) is bool(full)
    assert not sizes or sizes[0] == 5 * min(v, m + 2)


def test_optimal_transport_is_solved_by_its_rows() -> None:
    n, g = 12, torch.Generator().manual_seed(4)
    cost = torch.rand(2, n * n, generator=g, dtype=torch.float64)
    supply = torch.rand(n, generator=g, dtype=torch.float64) + 0.1
    eye = torch.eye(n, dtype=torch.float64)
    rows = torch.cat((torch.kron(eye, torch.ones(1, n)), torch.kron(torch.ones(1, n), eye))).double()
    rhs = torch.cat((supply, supply.flip(0)))
    solution = solve(cost, A_eq=rows.to_sparse_csr(), b_eq=rhs, lower=0.0, on_failure="status")
    assert solution.status is aimfor.Status.ok
    for i in range(2):
        expected = highs({"c": cost[i], "A_eq": rows, "b_eq": rhs, "lower": torch.zeros(n * n)}).fun
        assert solution.value[i].item() == pytest.approx(expected, rel=1e-9)


def test_a_small_program_takes_few_operations() -> None:
    """What a solve of eight programs of 5 × 20 hands to torch: with so little to compute, that is what it costs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    count = 0

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            count += 1
            return function(*args, **(kwargs or {}))

    g = torch.Generator().manual_seed(25)
    rows = torch.randn(5, 20, generator=g, dtype=torch.float64)
    b = torch.rand(8, 20, generator=g, dtype=torch.float64) @ rows.mT + 0.05
    c = torch.randn(8, 20, generator=g, dtype=torch.float64)
    solve(c, rows, b, lower=0.0, upper=1.0)  # what is imported and cached
    with Counted():
        solution = solve(c, rows, b, lower=0.0, upper=1.0)
    assert solution.status is aimfor.Status.ok
    assert count <= 2200 * int(solution.iterations.max()) / 7
