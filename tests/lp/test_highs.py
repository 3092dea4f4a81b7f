"""`Highs`, the warm simplex, against the interior point; and ``method="auto"``, with it and without."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import aimfor
from aimfor.lp import ActiveSet, Highs, InteriorPoint, LinearProgram, LPSolution, SPOPlus, solve
from aimfor.lp.program import Standard, equilibrate, read_program, standard_form
from aimfor.lp.solvers import highs
from aimfor.lp.solvers.chain import Auto

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import feasible_bounded

pytest.importorskip("highspy")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")


def shared(seed: int, items: int = 4, m: int = 12, v: int = 20) -> dict[str, Any]:
    """One matrix; costs, right-hand sides and bounds that differ; half-bounded and fixed variables."""
    parts: dict[str, Any] = feasible_bounded(items, m, v, seed, equalities=2, bounds=True)
    g = torch.Generator().manual_seed(seed)
    rows, equal = parts["A"][0], parts["A_eq"][0]
    x = torch.randn(items, v, generator=g, dtype=torch.float64)
    parts |= {"A": rows, "A_eq": equal, "b_eq": x @ equal.mT}
    parts["b"] = x @ rows.mT + torch.rand(items, m, generator=g, dtype=torch.float64)
    parts["lower"], parts["upper"] = x - 1.0, x + torch.rand(items, v, generator=g, dtype=torch.float64)
    parts["lower"][:, 3], parts["upper"][:, 4], parts["lower"][1, 5] = -torch.inf, torch.inf, -torch.inf
    # Costs of their own make the optimum a vertex; where a bound is missing they press against the other.
    c = parts["c"] = torch.randn(items, v, generator=g, dtype=torch.float64)
    c[:, 3], c[:, 4], c[1, 5] = -c[:, 3].abs(), c[:, 4].abs(), -c[1, 5].abs()
    parts["lower"][:, 6] = parts["upper"][:, 6] = x[:, 6]
    return parts


def kind(name: str, seed: int) -> dict[str, Any]:
    parts = shared(seed)
    if name == "sparse":
        parts["A"] = parts["A"].to_sparse_csr()
    if name == "own rows":
        parts["A"] = parts["A"] + 0.001 * torch.arange(4.0).double()[:, None, None]
    if name == "fixed in one item":
        parts["lower"][2, 7] = parts["upper"][2, 7]
    return parts


def assert_alike(one: LPSolution, two: LPSolution) -> None:
    assert one.statuses == two.statuses
    for name in ("x", "value", "dual_ineq", "dual_eq", "dual_lower", "dual_upper", "active", "unique"):
        torch.testing.assert_close(
            getattr(one, name), getattr(two, name), rtol=1e-8, atol=1e-8, equal_nan=True, msg=name
        )


@pytest.mark.parametrize("name", ["dense", "sparse", "own rows", "fixed in one item"])
def test_highs_returns_what_the_interior_point_does(name: str) -> None:
    method = Highs()
    for seed in range(6):
        parts = kind(name, seed)
        found = solve(**parts, method=method, on_failure="status")
        assert found.status is aimfor.Status.ok
        assert bool(found.unique.all())
        assert float(found.residuals.worst().max()) <= 1e-9
        assert_alike(found, solve(**parts))


def test_gradients_do_not_depend_on_the_method() -> None:
    parts = shared(0)
    found = []
    for method in (Highs(), InteriorPoint()):
        leaves = {name: part.clone().requires_grad_() for name, part in parts.items()}
        solution = solve(**leaves, gradient=ActiveSet(), method=method)
        (solution.x.square().sum() + solution.value.sum()).backward()
        found.append([leaf.grad for leaf in leaves.values()])
    torch.testing.assert_close(found[0], found[1], rtol=1e-7, atol=1e-7)


def test_items_without_an_optimum_are_named_and_leave_the_others_alone() -> None:
    A, b = (
        torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).double(),
        torch.tensor([[2.0, 0.0], [1.0, -2.0], [2.0, 0.0]]).double(),
    )
    c = torch.tensor([[-1.0, -2.0], [1.0, 1.0], [1.0, -1.0]]).double()
    lower = torch.tensor([[0.0, 0.0], [0.0, 0.0], [-torch.inf, 0.0]]).double()
    found, expected = (solve(c, A, b, lower=lower, method=method) for method in (Highs(), None))
    assert [status.name for status in found.statuses] == ["ok", "infeasible", "unbounded"]
    assert_alike(found, expected)


def test_several_optima_are_flagged() -> None:
    one = {"A_eq": torch.ones(1, 3), "b_eq": torch.ones(1), "lower": 0.0, "method": Highs()}
    flat = solve(torch.tensor([1.0, 1.0, 2.0]), **one)
    assert (flat.value.item(), flat.unique.item()) == (1.0, False)
    assert solve(torch.tensor([1.0, 1.5, 2.0]), **one).unique.item() is True


def test_the_model_is_kept_while_the_rows_are_the_same() -> None:
    method, parts = Highs(), shared(1)
    first = solve(**parts, method=method)
    model = method._kept
    again = solve(**{name: part[-1] if part.shape[0] == 4 else part for name, part in parts.items()}, method=method)
    assert method._kept is model
    assert again.iterations.item() == 0  # it stood at this optimum
    assert torch.equal(again.x, first.x[-1])
    other = {**parts, "A": 1.5 * parts["A"] + 0.1}
    assert_alike(solve(**other, method=method), solve(**other))
    assert method._kept is not model


@pytest.mark.parametrize("again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_layer_with_highs_can_be_copied_and_learned_through(again: Any) -> None:
    parts = {name: part for name, part in shared(2).items() if name in ("A", "A_eq")}
    parts |= {"b": torch.full((12,), 3.0).double(), "b_eq": torch.zeros(2).double(), "lower": -1.0, "upper": 1.0}
    c = torch.randn(5, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = LinearProgram(**parts, method=Highs())
    x = layer(c=c).x
    torch.testing.assert_close(again(layer)(c=c).x, x)
    predicted = (c + 0.3).requires_grad_()
    loss = SPOPlus(layer)(predicted, c)
    assert loss.item() == pytest.approx(SPOPlus(LinearProgram(**parts))(predicted, c).item(), abs=1e-9)


def standard(parts: dict[str, Any]) -> Standard:
    names = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")
    return equilibrate(standard_form(read_program(*(parts.get(name) for name in names)))[0])[0]


def test_auto_takes_the_method_that_the_rule_names() -> None:
    auto = Auto()
    tall = feasible_bounded(16, 200, 20, 0)
    few = {**tall, "c": tall["c"][:2], "A": tall["A"][0, :5], "b": tall["b"][:2, :5]}
    assert isinstance(auto.choose(standard(few)), Highs)
    assert isinstance(auto.choose(standard(tall)), InteriorPoint)  # rows of their own
    assert isinstance(auto.choose(standard({**tall, "A": tall["A"][0]})), InteriorPoint)
    empty = tall["A"][0] * (torch.arange(20) < 1)  # a pivot touches what is not zero
    assert isinstance(auto.choose(standard({**tall, "A": empty})), Highs)
    parts = shared(3)
    assert_alike(solve(**parts, method="auto"), solve(**parts))
    layer = LinearProgram(method="auto", **{name: parts[name] for name in ("A", "A_eq")})
    assert isinstance(layer.method, Auto)


def test_auto_works_without_highspy_and_highs_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = shared(4)

    def missing() -> Any:
        raise ImportError("no module named highspy")

    monkeypatch.setattr(highs, "highspy", missing)
    assert torch.equal(solve(**parts, method="auto").x, solve(**parts).x)
    with pytest.raises(aimfor.InputError, match=r"method: got Highs\(\) without highspy .*pip install highspy"):
        Highs()
    with pytest.raises(aimfor.InputError, match="method: got 'fast', expected a Method object"):
        solve(**parts, method="fast")
