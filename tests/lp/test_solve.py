"""The solver against HiGHS: values, certificates, statuses, on programs of every kind."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import aimfor
from aimfor import Status
from aimfor.lp import InteriorPoint, LPSolution, Method, PenaltyNewton, solve
from aimfor.lp.operators.base import Bounds
from aimfor.lp.operators.dense import DenseOperator
from aimfor.lp.program import equilibrate, read_program, standard_form
from aimfor.lp.solvers.base import STALLED, Point, residuals

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import Parts, feasible_bounded, highs, infeasible, item, unbounded

KINDS = list(itertools.product((0, 5), (False, True), (False, True)))


def assert_duals_prove_the_value(parts: Parts, solution: LPSolution) -> None:
    """Recomputed here from the original data: feasible, complementary in sum, stationary, of the right sign."""
    s, x = solution, solution.x.double()
    A, b, c = parts["A"], parts["b"], parts["c"]
    size = 1 + x.abs().amax(-1)
    assert float((((A @ x[..., None])[..., 0] - b).amax(-1) / size).max()) < 1e-8
    balance = c + (A.mT @ s.dual_ineq[..., None])[..., 0] - s.dual_lower + s.dual_upper
    bound = -(b * s.dual_ineq).sum(-1)
    if "A_eq" in parts:
        E, f = parts["A_eq"], parts["b_eq"]
        assert float(((E @ x[..., None])[..., 0] - f).abs().amax(-1).div(size).max()) < 1e-8
        balance = balance + (E.mT @ s.dual_eq[..., None])[..., 0]
        bound = bound - (f * s.dual_eq).sum(-1)
    for name, dual, sign in (("lower", s.dual_lower, 1), ("upper", s.dual_upper, -1)):
        assert float(dual.min()) >= 0
        if name in parts:
            assert float((sign * (parts[name] - x)).amax()) < 1e-8 * float(size.max())
            bound = bound + torch.where(dual > 0, sign * dual * parts[name], 0.0).sum(-1)
        else:
            assert float(dual.abs().max()) == 0
    assert float(s.dual_ineq.min()) >= 0
    assert float((balance.abs().amax(-1) / (1 + c.abs().amax(-1))).max()) < 1e-8
    assert float(((bound - s.value).abs() / (1 + s.value.abs())).max()) < 1e-8


@pytest.mark.parametrize(("m", "v", "items"), [(50, 20, 24), (200, 50, 12), (1000, 100, 2)])
def test_300_random_programs_match_highs_with_certified_duals(m: int, v: int, items: int) -> None:
    for seed, (equalities, bounds, degenerate) in enumerate(KINDS):
        parts = feasible_bounded(items, m, v, seed, equalities=equalities, bounds=bounds, degenerate=degenerate)
        solution = solve(**parts)
        assert solution.statuses == (Status.ok,) * items, (equalities, bounds, degenerate)
        assert float(solution.residuals.worst().max()) <= 1e-9
        assert_duals_prove_the_value(parts, solution)
        for i in range(items):
            reference = highs(item(parts, i))
            assert reference.status == 0
            assert float(solution.value[i]) == pytest.approx(reference.fun, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(
    ("m", "v", "method"), [(50, 20, InteriorPoint()), (200, 50, InteriorPoint()), (20, 6, PenaltyNewton())]
)
def test_infeasible_programs_are_named_with_a_farkas_certificate(m: int, v: int, method: Method) -> None:
    for seed in range(5):
        parts = infeasible(6, m, v, seed)
        s = solve(**parts, method=method)
        assert s.statuses == (Status.infeasible,) * 6
        zero = (parts["A"].mT @ s.dual_ineq[..., None])[..., 0] - s.dual_lower + s.dual_upper
        total = (parts["b"] * s.dual_ineq).sum(1)
        for name, dual, sign in (("lower", s.dual_lower, -1), ("upper", s.dual_upper, 1)):
            if name in parts:
                total = total + torch.where(dual > 0, sign * dual * parts[name], 0.0).sum(1)
        if "A_eq" in parts:
            zero = zero + (parts["A_eq"].mT @ s.dual_eq[..., None])[..., 0]
            total = total + (parts["b_eq"] * s.dual_eq).sum(1)
        assert float(s.dual_ineq.min()) >= 0
        assert float(zero.abs().max()) < 1e-6
        assert torch.allclose(total, -torch.ones(6, dtype=torch.float64), atol=1e-6)
        assert bool(s.value.isposinf().all())
        assert bool(s.x.isnan().all())


@pytest.mark.parametrize(
    ("m", "v", "method"), [(50, 20, InteriorPoint()), (200, 50, InteriorPoint()), (20, 6, PenaltyNewton())]
)
def test_unbounded_programs_are_named_with_a_ray(m: int, v: int, method: Method) -> None:
    for seed in range(5):
        parts = unbounded(6, m, v, seed)
        s = solve(**parts, method=method)
        assert s.statuses == (Status.unbounded,) * 6
        assert float((parts["A"] @ s.ray[..., None]).max()) < 1e-6
        assert float((parts["c"] * s.ray).sum(1).max()) < -1e-3
        if "A_eq" in parts:
            assert float((parts["A_eq"] @ s.ray[..., None]).abs().max()) < 1e-6
        assert bool(s.value.isneginf().all())


@pytest.mark.parametrize("gap", [1.0, 0.01, 1e-4])
def test_a_program_that_is_infeasible_with_a_ray_is_infeasible(gap: float) -> None:
    """A ray alone proves nothing: with a small gap the solver meets it long before the contradiction."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(5):
        ray, side, *rows = torch.randn(5, 3, generator=draw, dtype=torch.float64)
        side = side - (side @ ray) / (ray @ ray) * ray
        A = torch.stack([*(row * -torch.sign(row @ ray) for row in rows), side, -side])
        b = torch.tensor([1.0, 1.0, 1.0, 0.0, -gap]).double()
        c = -ray
        assert float(c @ ray) < 0
        assert float((A @ ray).max()) < 1e-12
        s = solve(c, A, b)
        assert s.status is Status.infeasible
        assert float((A.T @ s.dual_ineq).abs().max()) < 1e-6
        assert float(b @ s.dual_ineq) == pytest.approx(-1.0)


@pytest.mark.parametrize(("m", "v"), [(50, 20), (200, 50)])
def test_the_interior_point_proves_what_is_impossible_by_itself_in_few_steps(m: int, v: int) -> None:
    for make, status in ((infeasible, Status.infeasible), (unbounded, Status.unbounded)):
        for seed in range(3):
            s = solve(**make(6, m, v, seed), on_failure="status")
            assert s.statuses == (status,) * 6
            assert 1 <= int(s.iterations.min()) <= int(s.iterations.max()) <= 15


PLANE = {"A_eq": [[1.0, -1.0]], "b_eq": [0.0]}
ONE_ROW = {
    "optimal": ({"c": [1.0], "A": [[-1.0]], "b": [-2.0]}, Status.ok),
    "unbounded": ({"c": [-1.0], "A": [[-1.0]], "b": [-2.0]}, Status.unbounded),
    "infeasible": ({"c": [1.0], "A": [[-1.0]], "b": [-2.0], "A_eq": [[1.0]], "b_eq": [1.0]}, Status.infeasible),
    "ray in the plane": ({"c": [-1.0, 0.0], "A": [[-1.0, 0.0]], "b": [1.0], **PLANE}, Status.unbounded),
    "ray beside it": ({"c": [-1.0, 0.0], "A": [[-1.0, 0.0]], "b": [1.0], **PLANE, "b_eq": [3.0]}, Status.unbounded),
    "no ray in the plane": ({"c": [-1.0, 0.0], "A": [[0.0, 1.0]], "b": [1.0], **PLANE}, Status.ok),
}


@pytest.mark.parametrize("name", ONE_ROW)
def test_a_single_inequality_is_enough_for_the_interior_point(name: str) -> None:
    given, status = ONE_ROW[name]
    parts = {key: torch.tensor(part).double() for key, part in given.items()}
    s, reference = solve(**parts, on_failure="status"), highs(parts)
    assert reference.status == {Status.ok: 0, Status.infeasible: 2, Status.unbounded: 3}[status]
    assert s.status is status
    if status is Status.ok:
        assert float(s.value) == pytest.approx(reference.fun)


def test_only_an_unbounded_item_has_a_ray() -> None:
    """x <= 1 and x >= b: an optimum at 1 for b = 0, none for b = 2; and without the first row, no end."""
    A = torch.tensor([[[1.0], [-1.0]], [[1.0], [-1.0]], [[0.0], [-1.0]]])
    s = solve(torch.tensor([-1.0]).expand(3, 1), A, torch.tensor([[1.0, 0.0], [1.0, -2.0], [1.0, 0.0]]))
    assert s.statuses == (Status.ok, Status.infeasible, Status.unbounded)
    assert s.ray.tolist() == [[0.0], [0.0], [1.0]]
    assert s.value.tolist() == [-1.0, torch.inf, -torch.inf]


def test_what_the_penalty_cannot_certify_goes_to_the_interior_point() -> None:
    hasty = PenaltyNewton(outer=1)
    parts = feasible_bounded(4, 50, 20, 0, equalities=2, bounds=True)
    scaled, _ = equilibrate(standard_form(read_program(**parts))[0])
    assert hasty.run(scaled, 1e-9).outcome.tolist() == [STALLED] * 4
    for on_failure in ("fallback", "status"):
        s = solve(**parts, method=hasty, on_failure=on_failure)
        assert s.statuses == (Status.ok,) * 4
        assert_duals_prove_the_value(parts, s)


def test_penalty_newton_agrees_with_interior_point() -> None:
    for seed, (equalities, bounds, degenerate) in enumerate(KINDS):
        parts = feasible_bounded(6, 50, 20, seed, equalities=equalities, bounds=bounds, degenerate=degenerate)
        first, second = solve(**parts), solve(**parts, method=PenaltyNewton())
        assert second.status is Status.ok
        assert torch.allclose(first.value, second.value, rtol=1e-10, atol=1e-10)


def test_float32_gives_the_float64_answer_rounded() -> None:
    parts = {k: p.float() for k, p in feasible_bounded(4, 50, 20, 3, bounds=True, equalities=2).items()}
    single, double = solve(**parts), solve(**{k: p.double() for k, p in parts.items()})
    for name in ("x", "value", "dual_ineq", "dual_eq", "dual_lower", "dual_upper"):
        assert torch.equal(getattr(single, name), getattr(double, name).float()), name


def test_batched_equals_one_by_one_and_unbatched_parts_are_shared() -> None:
    parts = feasible_bounded(6, 40, 10, 1, bounds=True)
    A = parts["A"][0]
    shared = {**parts, "A": A}
    shared["b"] = (A @ torch.zeros(10, dtype=torch.float64)) + parts["b"].abs()
    shared["lower"], shared["upper"] = -torch.ones(10).double(), torch.ones(10).double()
    together = solve(**{k: p.reshape(2, 3, *p.shape[1:]) if p.shape[0] == 6 else p for k, p in shared.items()})
    assert together.x.shape == (2, 3, 10)
    for i in range(6):
        one = solve(shared["c"][i], A, shared["b"][i], lower=shared["lower"], upper=shared["upper"])
        assert torch.allclose(together.x.reshape(6, 10)[i], one.x, atol=1e-12)


@pytest.mark.parametrize("spread", [1e3, 1e6])
def test_rows_and_columns_of_wildly_different_size(spread: float) -> None:
    parts = feasible_bounded(8, 50, 20, 5, equalities=3)
    plain = solve(**parts)
    power = torch.linspace(-1, 1, 50, dtype=torch.float64)
    rows = spread ** power[torch.randperm(50)]
    columns = spread ** power[torch.randperm(20) * 2]
    scaled = {
        "c": parts["c"] * columns,
        "A": parts["A"] * rows[:, None] * columns,
        "b": parts["b"] * rows,
        "A_eq": parts["A_eq"] * columns * 1e-6,
        "b_eq": parts["b_eq"] * 1e-6,
    }
    s = solve(**scaled)
    assert s.status is Status.ok
    assert torch.allclose(s.value, plain.value, rtol=1e-8)
    assert torch.allclose(s.x * columns, plain.x, rtol=1e-6, atol=1e-8)


def test_redundant_zero_and_repeated_rows_and_zero_columns_do_not_break_it() -> None:
    parts = feasible_bounded(1, 30, 8, 2)
    c, A, b = parts["c"][0], parts["A"][0], parts["b"][0]
    plain = solve(c, A, b)
    A2 = torch.cat((A, A, torch.zeros(2, 8).double(), A[:1] + A[1:2]))
    b2 = torch.cat((b, b, torch.tensor([0.0, 3.0]).double(), b[:1] + b[1:2] + 5))
    wide = torch.cat((A2, torch.zeros(len(A2), 1).double()), 1)
    s = solve(torch.cat((c, torch.zeros(1).double())), wide, b2)
    assert s.status is Status.ok
    assert float(s.value) == pytest.approx(float(plain.value), rel=1e-9)
    assert solve(c, A2, b2 - torch.tensor([0.0] * 60 + [1.0, 0.0, 0.0]).double()).status is Status.infeasible
    falls = solve(torch.cat((c, torch.ones(1).double())), wide, b2)
    assert falls.status is Status.unbounded
    assert float(falls.ray[-1]) == -1.0


def test_equalities_written_as_two_inequalities() -> None:
    parts = feasible_bounded(4, 50, 20, 4, equalities=5)
    both = torch.cat((parts["A"], parts["A_eq"], -parts["A_eq"]), 1)
    rhs = torch.cat((parts["b"], parts["b_eq"], -parts["b_eq"]), 1)
    s = solve(parts["c"], both, rhs)
    assert s.status in (Status.ok, Status.fallback)
    assert torch.allclose(s.value, solve(**parts).value, rtol=1e-8)


def test_empty_constraint_sets() -> None:
    v = torch.tensor([1.0, -2.0])
    assert solve(v, lower=-1.0, upper=1.0).x.tolist() == [-1.0, 1.0]
    assert solve(v).status is Status.unbounded
    assert float(solve(torch.zeros(2)).value) == 0.0
    assert solve(v, torch.zeros(0, 2), torch.zeros(0), lower=0.0, upper=3.0).value.item() == -6.0
    only = solve(v, A_eq=torch.tensor([[1.0, 0.0], [0.0, 1.0]]), b_eq=torch.tensor([3.0, 4.0]))
    assert only.x.tolist() == [3.0, 4.0]
    assert only.dual_eq.tolist() == [-1.0, 2.0]


def test_what_the_solver_cannot_certify_goes_to_highs_and_says_so() -> None:
    parts = feasible_bounded(3, 50, 20, 0, equalities=2, bounds=True)
    hasty = InteriorPoint(limit=1, stages=())
    s = solve(**parts, method=hasty)
    assert s.statuses == (Status.fallback,) * 3
    assert torch.allclose(s.value, solve(**parts).value, rtol=1e-9)
    assert_duals_prove_the_value(parts, s)
    assert solve(**parts, method=hasty, on_failure="status").status is Status.not_converged


def test_highs_certificates_for_infeasible_and_unbounded() -> None:
    hasty = InteriorPoint(limit=1, stages=())
    s = solve(**infeasible(2, 30, 8, 1), method=hasty)
    assert s.statuses == (Status.infeasible,) * 2
    s = solve(**unbounded(2, 30, 8, 1), method=hasty)
    assert s.statuses == (Status.unbounded,) * 2
    assert float(s.ray.abs().amax()) == 1.0


def test_on_failure_raise_names_the_item_and_the_remedy() -> None:
    with pytest.raises(aimfor.SolverError, match=r"1 of 1 programs .* no point satisfies"):
        solve(torch.ones(1), torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, -1.0]), on_failure="raise")


BAD = {
    "c": ({"c": torch.tensor([1, 2])}, "c: got dtype torch.int64"),
    "c scalar": ({"c": torch.tensor(1.0)}, "c: got a scalar"),
    "c empty": ({"c": torch.zeros(0)}, "c: got no variables"),
    "nan": ({"A": torch.tensor([[torch.nan, 1.0]])}, "A: got 1 of 2 values not finite"),
    "inf": ({"b": torch.tensor([torch.inf])}, "b: got 1 of 1 values not finite"),
    "columns": ({"A": torch.ones(1, 3)}, r"A: got shape \(1, 3\)"),
    "rows": ({"b": torch.ones(2)}, r"b: got shape \(2,\)"),
    "half": ({"A": None}, "A: got None"),
    "bounds": ({"lower": 2.0, "upper": 1.0}, "lower: got a bound above upper by 1"),
    "lower nan": ({"lower": torch.tensor([torch.nan, 0.0])}, "lower: got nan"),
    "lower inf": ({"lower": torch.inf}, "lower: got inf"),
    "bound shape": ({"upper": torch.ones(3)}, r"upper: got shape \(3,\)"),
    "batch": ({"b": torch.ones(3, 1), "c": torch.ones(2, 2)}, r"batch dimensions"),
    "broadcast": ({"b": torch.ones(3, 1), "c": torch.ones(1, 2)}, "nothing of size 1 is broadcast"),
    "list": ({"c": [1.0, 2.0]}, "c: got a list"),
    "coo": ({"A": torch.ones(1, 2).to_sparse()}, "to_sparse_csr"),
    "tol": ({"tol": 0.0}, "tol: got 0.0"),
    "on_failure": ({"on_failure": "shrug"}, "on_failure: got 'shrug'"),
    "gradient": ({"gradient": "envelope"}, "gradient: got 'envelope'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_the_argument_named(name: str) -> None:
    changes, message = BAD[name]
    arguments: dict[str, object] = {"c": torch.ones(2), "A": torch.ones(1, 2), "b": torch.ones(1)}
    with pytest.raises(aimfor.InputError, match=message):
        solve(**{**arguments, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: InteriorPoint(limit=0), "limit"),
        (lambda: PenaltyNewton(epsilon=0.0), "epsilon"),
        (lambda: PenaltyNewton(factor=0.0), "factor"),
        (lambda: PenaltyNewton(factor=-0.5), "factor"),
        (lambda: PenaltyNewton(factor=1.0), "factor"),
        (lambda: PenaltyNewton(smallest=0.0), "smallest"),
        (lambda: PenaltyNewton(outer=0), "outer"),
    ],
)
def test_bad_settings_of_a_method_are_named(make: Callable[[], Method], argument: str) -> None:
    with pytest.raises(aimfor.InputError) as caught:
        make()
    assert caught.value.argument == argument


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
def test_sparse_rows_give_the_dense_answer() -> None:
    parts = feasible_bounded(1, 60, 20, 7, equalities=4, bounds=True, degenerate=True, density=0.4)
    one = {k: p[0] for k, p in parts.items()}
    dense = solve(**one)
    sparse = solve(**{**one, "A": one["A"].to_sparse_csr(), "A_eq": one["A_eq"].to_sparse_csr()})
    assert dense.status is sparse.status is Status.ok
    assert float(sparse.value) == pytest.approx(float(dense.value), rel=1e-9)
    several = solve(
        torch.stack((one["c"], one["c"] * 2)),
        **{**{k: p for k, p in one.items() if k != "c"}, "A": one["A"].to_sparse_csr()},
    )
    assert torch.allclose(several.value, dense.value * torch.tensor([1.0, 2.0]).double(), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_the_sparse_gram_solve_inverts_the_gram_matrix_of_any_size(size: float) -> None:
    parts = feasible_bounded(1, 30, 6, 2, density=0.5)
    program, _ = standard_form(read_program(parts["c"].expand(2, -1), parts["A"][0].to_sparse_csr(), parts["b"][0]))
    weights = size * (torch.rand(2, 30, dtype=torch.float64) + 0.1)
    gram = parts["A"].mT @ (weights[:, :, None] * parts["A"])
    identity = torch.eye(6, dtype=torch.float64)[:, None].expand(-1, 2, -1)
    columns = gram.permute(2, 0, 1)
    torch.testing.assert_close(program.operator.factor(weights).solve(columns), identity, rtol=0.0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks")
@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
def test_an_operator_knows_how_many_programs_it_stands_for(kind: str) -> None:
    pairs = aimfor.lp.PairRows(torch.tensor([[1.0], [2.0], [3.0]]).double(), positives=1)
    rows = {"dense": pairs.dense(), "sparse": pairs.dense().to_sparse_csr(), "pairs": pairs}[kind]
    program, _ = standard_form(read_program(torch.ones(5, 3).double(), rows, torch.ones(2).double()))
    scaled, _ = equilibrate(program)
    for operator, batch in ((program.operator, 5), (scaled.operator, 5), (scaled.operator.take(torch.arange(2)), 2)):
        assert operator.batch == batch
        assert operator.inequality(torch.ones(batch, 3).double()).shape == (batch, 2)


def test_an_operator_that_items_share_is_shared_by_any_of_them() -> None:
    rows, equal = torch.randn(1, 4, 3, dtype=torch.float64), torch.randn(1, 2, 3, dtype=torch.float64)
    none = Bounds(torch.zeros(0, dtype=torch.int64), torch.zeros(1, 0, dtype=torch.float64))
    part = DenseOperator(rows, equal, none, none, 5).take(torch.tensor([4, 2]))
    assert part.batch == 2
    x = torch.randn(2, 3, dtype=torch.float64)
    torch.testing.assert_close(part.equality(x), x @ equal[0].mT)
    torch.testing.assert_close(part.general_rows(x), x @ rows[0].mT)


@pytest.mark.parametrize("positives", [0, 3, 4])
def test_pairs_need_both_classes(positives: int) -> None:
    with pytest.raises(aimfor.InputError, match="1 to 2"):
        aimfor.lp.PairRows(torch.zeros(3, 1), positives=positives)


def test_the_origin_has_finite_residuals() -> None:
    parts = {"c": torch.ones(2).double(), "A": torch.eye(2).double(), "b": torch.ones(2).double()}
    program, _ = standard_form(read_program(**parts))
    nothing = torch.zeros(1, 2, dtype=torch.float64)
    found = residuals(program, Point(nothing, nothing[:, :0], nothing, nothing > 0))
    assert (found.primal.tolist(), found.dual.tolist(), found.gap.tolist()) == ([0.0], [1.0], [0.0])
