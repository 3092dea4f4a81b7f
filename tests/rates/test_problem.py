"""RateProblem: the loss is the Lagrangian, its saddle point is the solver's, and its state survives a new process."""

from __future__ import annotations

import copy
import inspect
import textwrap
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

import aimfor
from aimfor.constraints.counts import Counts
from aimfor.errors import InputError
from aimfor.rates import (
    Ascent,
    MomentumAscent,
    NuPI,
    RateProblem,
    accuracy,
    error_rate,
    fpr,
    precision,
    recall,
)
from aimfor.rates.saved import from_tensor
from programs import Program, finished


def data(n: int = 80, seed: int = 0) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 0.4
    sex = (torch.rand(n, generator=generator) < 0.5).long()
    x = torch.randn(n, 2, generator=generator, dtype=torch.float64) + y[:, None] * 1.0 + sex[:, None] * 0.3
    return x, y, {"sex": sex}


def phi(scores: Tensor, kind: str) -> Tensor:
    if kind == "sigmoid":
        return scores.sigmoid()
    if kind == "hinge":
        return (1 + scores).clamp_min(0)
    return torch.nn.functional.softplus(scores) / np.log(2)


# ---------------------------------------------------------------- the loss


@pytest.mark.parametrize("kind", ["sigmoid", "logistic", "hinge"])
def test_the_loss_is_the_lagrangian_written_out_by_hand(kind: str) -> None:
    x, y, groups = data()
    scores, sex = x.sum(1) - 1.0, groups["sex"]
    problem = aimfor.maximize(recall, [precision >= 0.7, fpr.on(sex=1) <= 0.2], proxy=kind, initial=2.0)
    loss = problem(scores, y, groups=groups)
    high, low = phi(scores, kind), phi(-scores, kind)
    p, negative_men = y.sum(), ~y & (sex == 1)
    soft_recall = 1 - low[y].sum() / p
    soft_precision_slack = 0.3 * (p - low[y].sum()) / p - 0.7 * high[~y].sum() / p
    soft_fpr_slack = 0.2 - high[negative_men].sum() / negative_men.sum()
    expected = 1 - soft_recall - 2.0 * soft_precision_slack - 2.0 * soft_fpr_slack
    assert float(loss) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("kind", ["sigmoid", "logistic"])
def test_gradient_is_the_derivative_of_the_loss_and_scales_with_it(kind: str) -> None:
    x, y, groups = data(20)
    problem = aimfor.minimize(error_rate, [fpr.gap("sex") <= 0.02, recall >= 0.5], proxy=kind, temperature=0.7)
    problem(x.sum(1), y, groups=groups)  # the prices are settled by the first call
    problem.eval()
    scores = x.sum(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: problem(s, y, groups=groups), scores)
    (once,) = torch.autograd.grad(problem(scores, y, groups=groups), scores)
    (thrice,) = torch.autograd.grad(3.0 * problem(scores, y, groups=groups), scores)
    assert torch.allclose(thrice, 3.0 * once, rtol=1e-12)


def test_mini_batches_average_to_the_whole_whatever_groups_they_lack() -> None:
    x, y, groups = data(60)
    problem = aimfor.maximize(recall, [precision >= 0.7, fpr.gap("sex") <= 0.02])
    whole = problem(x.sum(1), y, groups=groups)
    problem.end_epoch()
    problem.eval()
    whole = problem(x.sum(1), y, groups=groups)
    order = (groups["sex"] * 2 + y.long()).argsort()  # the first batches hold one sex and one class only
    parts = [problem(x.sum(1)[r], y[r], groups={"sex": groups["sex"][r]}) for r in order.split(6)]
    assert float(torch.stack(parts).mean()) == pytest.approx(float(whole), abs=1e-12)


def test_weights_count_as_repetition_and_masked_entries_not_at_all() -> None:
    x, y, groups = data(40)
    times = torch.randint(1, 4, (40,))

    def loss(rows: Tensor, **rest: Tensor) -> float:
        problem = aimfor.maximize(recall, [precision >= 0.7, fpr.gap("sex") <= 0.02])
        return float(problem(x.sum(1)[rows], y[rows], groups={"sex": groups["sex"][rows]}, **rest))

    everyone = torch.arange(40)
    assert loss(everyone, weights=times.double()) == pytest.approx(loss(everyone.repeat_interleave(times)), abs=1e-12)
    where = torch.rand(40) < 0.6
    assert loss(everyone, where=where) == pytest.approx(loss(everyone[where]), abs=1e-12)


def test_an_empty_batch_costs_nothing_and_keeps_its_place_in_the_graph() -> None:
    problem = aimfor.maximize(recall, precision >= 0.9)
    scores = torch.zeros(0, requires_grad=True)
    loss = problem(scores, torch.zeros(0))
    loss.backward()
    assert float(loss.detach()) == 0.0
    one_class = problem(torch.tensor([0.3], requires_grad=True), torch.tensor([0]))
    assert torch.isfinite(one_class)


def test_autocast_does_not_change_the_loss() -> None:
    x, y, _ = data()
    problem = aimfor.maximize(recall, precision >= 0.7)
    scores = x.sum(1).float()
    outside = problem(scores, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = problem(scores, y)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, outside)


def test_evaluation_changes_no_state() -> None:
    x, y, _ = data()
    problem = aimfor.maximize(recall, precision >= 0.9)
    problem(x.sum(1), y)
    before = from_tensor(problem.state_dict()["_extra_state"])
    with torch.no_grad():
        problem(x.sum(1) + 3, y)
    problem.eval()(x.sum(1) - 3, y)
    problem.certificate(x.sum(1), y)
    problem.decide(x.sum(1), y)
    after = from_tensor(problem.state_dict()["_extra_state"])
    assert before["steps"] == after["steps"]
    assert before["counts"] == after["counts"]


# ---------------------------------------------------------------- saddle points


def saddle(problem: RateProblem, x: Tensor, y: Tensor, groups: dict[str, Tensor], ridge: float) -> Tensor:
    """Exact primal minimisation (Newton's method by L-BFGS) between dual steps."""
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    design = torch.cat((x, torch.ones(len(x), 1, dtype=x.dtype)), 1)

    def closure() -> Tensor:
        weights.grad = None
        loss = problem.eval()(design @ weights, y, groups=groups) + ridge * weights.square().sum()
        loss.backward()
        return loss

    problem.train()(design @ weights, y, groups=groups)
    for _ in range(120):
        optimizer = torch.optim.LBFGS([weights], max_iter=30, tolerance_grad=1e-10, line_search_fn="strong_wolfe")
        optimizer.step(closure)
        problem.train()(design @ weights, y, groups=groups)
        problem.end_epoch()
    return weights.detach()


def test_a_convex_problem_converges_to_the_optimum_and_multipliers_of_a_conic_solver() -> None:
    x, y, groups = data(60)
    ridge, sex = 0.05, groups["sex"]
    constraints = [recall >= 0.55, fpr.on(sex=1) <= 0.8, accuracy >= 0.1]
    problem = aimfor.minimize(
        error_rate, constraints, proxy="logistic", dual=Ascent(2.0), dual_rates="proxy", initial=0.0
    )
    weights = saddle(problem, x, y, groups, ridge)

    w = cvxpy.Variable(3)
    design = np.hstack([x.numpy(), np.ones((60, 1))])
    high, low = cvxpy.logistic(design @ w) / np.log(2), cvxpy.logistic(-design @ w) / np.log(2)
    positive, man = y.numpy(), (~y & (sex == 1)).numpy()
    n, p, men = 60, positive.sum(), man.sum()
    wrong = (cvxpy.sum(high[~positive]) + cvxpy.sum(low[positive])) / n
    rules = [
        1 - cvxpy.sum(low[positive]) / p >= 0.55,
        cvxpy.sum(high[man]) / men <= 0.8,
        1 - wrong >= 0.1,
    ]
    solver = cvxpy.Problem(cvxpy.Minimize(wrong + ridge * cvxpy.sum_squares(w)), rules)
    solver.solve(solver=cvxpy.CLARABEL)
    assert solver.status == "optimal"
    assert np.allclose(weights.numpy(), w.value, atol=1e-3)
    duals = [float(rule.dual_value) for rule in rules]
    assert sum(dual > 1e-3 for dual in duals) >= 1  # something is active, or nothing is tested
    for constraint, dual in zip(constraints, duals, strict=True):
        assert problem.multipliers[repr(constraint)] == pytest.approx(dual, abs=2e-3)


def test_exact_dual_steps_average_to_the_optimum_and_multiplier_of_the_linear_program() -> None:
    # Six kinds of example, a free score for each: the best randomised decisions solve a linear program.
    chance = torch.tensor([0.95, 0.8, 0.6, 0.45, 0.2, 0.05], dtype=torch.float64)
    x = torch.arange(6).repeat_interleave(200)
    y = (torch.arange(200)[None, :] < (200 * chance)[:, None]).reshape(-1)
    p, q = 200 * chance, 200 * (1 - chance)
    solved = linprog(
        -(p / p.sum()).numpy(), A_ub=(q / q.sum())[None].numpy(), b_ub=[0.2], bounds=(0, 1), method="highs"
    )

    problem = aimfor.maximize(recall, fpr <= 0.2, proxy="sigmoid", dual=Ascent(0.2), initial=0.0)
    decisions, multipliers = torch.zeros(6, dtype=torch.float64), []
    for step in range(900):
        scores = torch.zeros(6, dtype=torch.float64, requires_grad=True)
        problem.eval()
        if problem.calls == 0:
            problem.train()(scores[x], y)
        problem.eval()(scores[x], y).backward()
        best = -scores.grad  # the best response is the sign of the descent direction
        problem.train()(best[x], y)
        problem.end_epoch()
        if step >= 300:
            decisions += (best >= 0).double() / 600
            multipliers.append(problem.multipliers["fpr <= 0.2"])
    assert float((decisions * p).sum() / p.sum()) == pytest.approx(-solved.fun, abs=2e-3)
    assert float((decisions * q).sum() / q.sum()) == pytest.approx(0.2, abs=2e-3)
    assert float(np.mean(multipliers)) == pytest.approx(-float(solved.ineqlin.marginals[0]), rel=0.02)


def test_the_worst_group_gains_weight() -> None:
    _, y, groups = data(200)
    problem = aimfor.maximize(accuracy.worst("sex"), dual_rate=5.0)
    scores = torch.where((groups["sex"] == 0) == y, 1.0, -1.0).double()  # right for sex 0, wrong for sex 1
    problem(scores, y, groups=groups)
    problem.end_epoch()
    assert problem.shares["accuracy[sex=1]"] > 0.9
    assert sum(problem.shares.values()) == pytest.approx(1.0, abs=1e-5)


# ---------------------------------------------------------------- multipliers


def test_dual_optimizers_equal_their_formulas() -> None:
    violations = [0.3, -0.1, 0.2, -0.6, 0.05]
    plain, heavy, controlled = Ascent(0.5), MomentumAscent(0.5, 0.9), NuPI(0.5, 2.0, 0.3)
    a = b = c = 1.0
    velocity, smooth, previous = 0.0, violations[0], violations[0]
    ea = eb = ec = 1.0
    for e in violations:
        a, b, c = plain.step("k", a, e), heavy.step("k", b, e), controlled.step("k", c, e)
        ea = max(ea + 0.5 * e, 0.0)
        velocity = 0.9 * velocity + e
        eb = max(eb + 0.5 * velocity, 0.0)
        smooth = 0.3 * previous + 0.7 * e
        ec = max(ec + 0.5 * e + 2.0 * (smooth - previous), 0.0)
        previous = smooth
        assert (a, b, c) == pytest.approx((ea, eb, ec))


def test_nupi_agrees_with_cooper() -> None:
    cooper = pytest.importorskip("cooper")
    parameter = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    reference = cooper.optim.nuPI(
        [parameter],
        lr=0.5,
        Kp=torch.tensor([2.0]),
        Ki=torch.tensor([1.0]),
        ema_nu=0.3,
        maximize=True,
        init_type=cooper.optim.nuPIInitType.SGD,
    )
    ours, value = NuPI(0.5, 1.0, 0.3), 1.0
    for violation in [0.0, 0.4, 0.2, 0.5, 0.1]:  # from 0, where its start (a smoothed error of 0) is ours too
        parameter.grad = torch.tensor([violation], dtype=torch.float64)
        reference.step()
        value = ours.step("k", value, violation)
    assert value == pytest.approx(float(parameter.detach()), rel=1e-12)


def test_a_violated_constraint_gains_and_a_slack_one_loses() -> None:
    x, y, _ = data()
    problem = aimfor.maximize(recall, [precision >= 0.99, fpr <= 1.0], dual=Ascent(1.0))
    problem(x.sum(1) + 1, y)
    problem.end_epoch()
    assert problem.multipliers["precision >= 0.99"] > 1.0
    assert problem.multipliers["fpr <= 1"] < 1.0


def test_the_exact_epoch_counts_drive_the_dual_step() -> None:
    x, y, _ = data()
    scores = x.sum(1) - 1
    problem = aimfor.maximize(recall, fpr <= 0.1, dual=Ascent(1.0), initial=0.5)
    for rows in torch.arange(80).split(10):
        problem(scores[rows], y[rows])
    problem.end_epoch()
    rate = int(((scores >= 0) & ~y).sum()) / int((~y).sum())
    assert problem.multipliers["fpr <= 0.1"] == pytest.approx(max(0.5 + rate - 0.1, 0.0), abs=1e-12)


# ---------------------------------------------------------------- state


TRAINING = """
    import sys, torch, aimfor
    from aimfor.rates import recall, precision, fpr, NuPI
    torch.set_num_threads(1)
    def build():
        torch.manual_seed(3)
        model = torch.nn.Linear(2, 1, dtype=torch.float64)
        rules = [precision >= 0.8, fpr.gap("sex") <= 0.02, recall.worst("site") >= 0.6]
        problem = aimfor.maximize(recall, rules, dual=NuPI(1.0, 3.0, 0.2), dual_every=3)
        return model, problem, torch.optim.Adam(model.parameters(), lr=0.05)
    def train(model, problem, optimizer, first, last):
        g = torch.Generator().manual_seed(0)
        y = torch.rand(120, generator=g) < 0.4
        x = torch.randn(120, 2, generator=g, dtype=torch.float64) + y[:, None]
        groups = {"sex": torch.randint(0, 2, (120,), generator=g), "site": torch.randint(0, 3, (120,), generator=g)}
        for step in range(first, last):
            rows = torch.arange(step * 17, step * 17 + 17) % 120
            optimizer.zero_grad()
            problem(model(x[rows]).squeeze(1), y[rows], groups={k: v[rows] for k, v in groups.items()}).backward()
            optimizer.step()
            if step % 8 == 7:
                problem.end_epoch()
        return {"model": model.state_dict(), "problem": problem.state_dict(), "optimizer": optimizer.state_dict()}
"""


def run_python(code: str, *arguments: str) -> str:
    return finished(*arguments, code=code).stdout


def test_a_resume_in_a_new_process_is_bit_equal_to_never_stopping(tmp_path: Path) -> None:
    first = """
        model, problem, optimizer = build()
        torch.save(train(model, problem, optimizer, 0, 21), sys.argv[1])
    """
    second = """
        model, problem, optimizer = build()
        saved = torch.load(sys.argv[1], weights_only=True)
        model.load_state_dict(saved["model"]); problem.load_state_dict(saved["problem"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.save(train(model, problem, optimizer, 21, 40), sys.argv[2])
    """
    run_python(textwrap.dedent(TRAINING) + textwrap.dedent(first), str(tmp_path / "half.pt"))
    run_python(
        textwrap.dedent(TRAINING) + textwrap.dedent(second), str(tmp_path / "half.pt"), str(tmp_path / "resumed.pt")
    )
    space: dict[str, object] = {}
    exec(textwrap.dedent(TRAINING), space)
    straight = space["train"](*space["build"](), 0, 40)  # type: ignore[operator]
    resumed = torch.load(tmp_path / "resumed.pt", weights_only=True)
    assert torch.equal(straight["model"]["weight"], resumed["model"]["weight"])
    ours, theirs = (from_tensor(one["problem"]["_extra_state"]) for one in (straight, resumed))
    assert ours["multipliers"] == theirs["multipliers"]
    assert ours["dual"] == theirs["dual"]
    assert len(ours["multipliers"]) == 1 + 2 + 3
    assert any(value > 0 for value in ours["multipliers"].values())


def test_loading_the_state_of_another_problem_is_refused() -> None:
    one, other = aimfor.maximize(recall, precision >= 0.9), aimfor.maximize(recall, precision >= 0.8)
    with pytest.raises(InputError, match=r"precision >= 0\.9"):
        other.load_state_dict(one.state_dict())


def test_a_loaded_state_is_a_copy() -> None:
    x, y, _ = data()
    one = aimfor.maximize(recall, precision >= 0.9)
    one(x.sum(1), y)
    state = one.state_dict()
    other = aimfor.maximize(recall, precision >= 0.9)
    other.load_state_dict(state)
    other(x.sum(1), y)
    other.end_epoch()
    assert one.multipliers == {}
    saved = from_tensor(state["_extra_state"])["counts"][1]["table"]
    assert saved == one.count(x.sum(1), y).table.reshape(-1).tolist()
    assert copy.deepcopy(one).constraints == one.constraints


def test_two_processes_end_with_the_multipliers_of_one(tmp_path: Path) -> None:
    code = """
        import os, sys, torch, torch.distributed as dist
        import aimfor
        from aimfor.rates import recall, precision, fpr
        torch.set_num_threads(1)
        rank, world, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        if world > 1:
            dist.init_process_group("gloo", init_method="file://" + path + ".store", rank=rank, world_size=world)
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1, dtype=torch.float64)
        if world > 1:
            model = torch.nn.parallel.DistributedDataParallel(model)
        problem = aimfor.maximize(recall, [precision >= 0.8, fpr.gap("sex") <= 0.02], dual_every=5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        y = torch.rand(160) < 0.4
        x = torch.randn(160, 2, dtype=torch.float64) + y[:, None]
        sex = (torch.arange(160) % 16 >= 8).long()   # each process sees one sex only
        for step in range(30):
            rows = torch.arange(step * 16, step * 16 + 16) % 160
            rows = rows[rank * 16 // world:(rank + 1) * 16 // world]
            optimizer.zero_grad()
            problem(model(x[rows]).squeeze(1), y[rows], groups={"sex": sex[rows]}).backward()
            optimizer.step()
            if step % 10 == 9:
                problem.end_epoch()
        weights = [p.detach().clone() for p in model.parameters()]
        torch.save([weights, problem.multipliers], f"{path}.{world}.{rank}")
        if world > 1:
            del model  # see examples/plain_loop_ddp.py
            dist.destroy_process_group()
    """
    path = str(tmp_path / "run")
    jobs = [(0, 1), (0, 2), (1, 2)]
    started = [Program(rank, world, path, code=code) for rank, world in jobs]
    for program in started:
        assert program.wait() == 0, program.stderr
    alone, first, second = (torch.load(f"{path}.{world}.{rank}") for rank, world in jobs)
    assert first[1] == second[1]
    assert first[1] == pytest.approx(alone[1], abs=1e-9)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(alone[0], first[0], strict=True))


# ---------------------------------------------------------------- construction


@pytest.mark.parametrize(
    ("attempt", "word"),
    [
        (lambda: aimfor.maximize(recall, [recall <= 0.5, recall >= 0.6]), "hold together"),
        (lambda: aimfor.maximize(fpr.gap("sex")), "Bound a gap in subject_to instead."),
        (lambda: aimfor.maximize(0.5), "objective"),
        (lambda: aimfor.maximize(recall - recall), "objective"),
        (lambda: aimfor.maximize(recall, [0.9]), "subject_to"),
        (lambda: aimfor.maximize(recall, proxy="step"), "proxy"),
        (lambda: aimfor.maximize(recall, dual="adam"), "dual"),
        (lambda: aimfor.maximize(recall, dual_rate=0), "dual_rate"),
        (lambda: aimfor.maximize(recall, temperature=-1), "temperature"),
        (lambda: aimfor.maximize(recall, dual_every=-1), "dual_every"),
        (lambda: NuPI(1.0, -1.0), "proportional"),
        (lambda: aimfor.maximize(recall, precision >= 0.9)(torch.zeros(3), torch.tensor([0, 1, 2])), "targets"),
        (lambda: aimfor.maximize(fpr.on(sex=1))(torch.zeros(2), torch.tensor([0, 1])), "'sex'"),
    ],
)
def test_bad_input_is_named(attempt: object, word: str) -> None:
    with pytest.raises(InputError) as caught:
        attempt()  # type: ignore[operator]
    assert word in str(caught.value)


def test_only_who_asks_for_a_gap_is_told_about_gaps() -> None:
    with pytest.raises(InputError) as caught:
        aimfor.maximize(0.5)  # type: ignore[arg-type]
    assert caught.value.remedy == ""


def test_a_printed_problem_reads_like_the_formula() -> None:
    problem = aimfor.maximize(recall, [precision >= 0.9, fpr.gap("sex") <= 0.02])
    assert str(problem).splitlines() == [
        "maximize    recall",
        "subject to  precision >= 0.9",
        "            gap(fpr, sex) <= 0.02",
    ]


def test_counts_are_those_of_the_decisions() -> None:
    x, y, groups = data()
    problem = aimfor.maximize(recall, fpr.gap("sex") <= 0.1)
    counts: Counts = problem.count(x.sum(1), y, groups=groups)
    assert float(counts.cells((("sex", 1.0),))[0]) == float(((x.sum(1) >= 0) & y & (groups["sex"] == 1)).sum())


@pytest.mark.parametrize("stated", [aimfor.maximize, aimfor.minimize])
def test_the_options_of_a_statement_are_those_of_the_problem(stated: Any) -> None:
    own = dict(inspect.signature(stated).parameters)
    full = {name: one for name, one in inspect.signature(RateProblem).parameters.items() if name != "direction"}
    assert own == full
    given = stated(recall, precision >= 0.8, temperature=0.7, dual="plain", dual_rate=0.3, initial=2.0, held_out=99)
    assert (given.temperature, given.dual.rate, given.initial, given.held_out) == (0.7, 0.3, 2.0, 99)
