"""Meng's F1 paragraph, ε table and ROC curves: one small cell of each on made-up images, and what judges say."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from aimfor import MetricLoss
from aimfor.errors import InputError
from aimfor.lp import plain_scheme
from aimfor.metrics.auroc import AUROC
from aimfor.sorted import SortedEngine
from paper import Options
from paper.claims import judging_meng
from paper.claims.catalogue import CLAIMS
from paper.experiments.meng import epsilon as meng_epsilon
from paper.experiments.meng import f1 as meng_f1
from paper.experiments.meng import roc as meng_roc
from paper.protocol import choosing
from paper.protocol.protocol import Budget, Checkpoint, Split, cross_entropy

CELLS: dict[Any, list[dict[str, Any]]] = {
    meng_f1: [{"set": "cats_vs_dogs", "seed": 0}],
    meng_epsilon: [{"scheme": meng_epsilon.BASE, "epsilon": None, "seed": 0}]
    + [{"scheme": scheme, "epsilon": e, "seed": 0} for scheme in meng_epsilon.SCHEMES for e in (0.1, 0.01)],
    meng_roc: [{"seed": 0}, {"seed": 1}],
}


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    """Two sets of 32 × 32 images whose brightness says a little about the class."""
    random = np.random.default_rng(0)
    for name, classes in (("cats_vs_dogs", 2), ("stl10", 10)):
        (tmp_path / name).mkdir()
        for split, n in (("train", 160), ("test", 80)):
            y = np.arange(n) % classes
            x = random.integers(0, 200, (n, 32, 32, 3)) + (50 * y / classes).astype(int)[:, None, None, None]
            np.savez(tmp_path / name / f"{split}.npz", x=x.astype(np.uint8), y=y)
    return tmp_path


@pytest.mark.filterwarnings("ignore::aimfor.errors.DegenerateBatchWarning")
@pytest.mark.filterwarnings("ignore::aimfor.errors.ProbabilityWarning")  # after four steps scores lie close together
@pytest.mark.parametrize("module", CELLS, ids=lambda module: module.__name__.split(".")[-1])
def test_small_cells_run_and_their_report_comes_out_the_same_twice(
    module: Any, image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "budget", lambda options: Budget(4, 0, batch=16, rates=(1e-2,), looks=2))
    options = Options(seeds=2, data=image_folder)
    assert all(cell in module.cells(options) for cell in CELLS[module])
    assert module.cells(options) == module.cells(Options(seeds=2))  # a report needs no data
    results = [{"cell": cell, "result": module.run(cell, options), "seconds": 1.0} for cell in CELLS[module]]
    written = []
    for name in ("once", "again"):
        (tmp_path / name).mkdir()
        module.report(results, tmp_path / name)
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert any(name.endswith(".svg") for name in written[0])
    text = written[0]["table.md"].decode()
    for name in written[0]:
        assert name == "table.md" or f"({name})" in text
    assert "nan" not in text


@pytest.mark.parametrize("module", CELLS, ids=lambda module: module.__name__.split(".")[-1])
def test_missing_images_are_named(module: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data: got"):
        module.run(CELLS[module][0], Options(data=tmp_path))


# ---------------------------------------------------------------- ε


def scored(n: int = 14) -> tuple[torch.Tensor, torch.Tensor]:
    return (0.05 * torch.randn(n, dtype=torch.float64)).requires_grad_(), (torch.arange(n) % 3 == 0).long()


def test_single_programs_are_the_plain_scheme_on_the_whole_program() -> None:
    scores, targets = scored()
    c, A, b = meng_epsilon.pair_programs(torch.sigmoid(scores), targets, 0.01)
    n = len(c)
    whole_A = torch.cat((-torch.eye(n, dtype=torch.float64), -torch.eye(n, dtype=torch.float64)))
    whole = plain_scheme(c[:, 0], whole_A, torch.cat((b[:, 0], b[:, 1])), epsilon=1e-3)
    single = plain_scheme(c, A, b, epsilon=1e-3)
    assert torch.allclose(whole.x, single.x[:, 0], atol=1e-12)
    pieces = [meng_epsilon.ramp_of(z, 0.01) for z in (whole.x, single.x[:, 0])]
    grads = [torch.autograd.grad(loss, scores, retain_graph=True)[0] for loss in pieces]
    assert float(grads[0].abs().max()) > 0
    assert torch.allclose(grads[0], grads[1], atol=1e-12)


@pytest.mark.parametrize("epsilon", meng_epsilon.EPSILONS)
def test_the_solver_gives_the_ramp_in_closed_form(epsilon: float) -> None:
    scores, targets = scored()
    closed = MetricLoss(AUROC(), SortedEngine("ramp", epsilon))(torch.sigmoid(scores), targets)
    solved = meng_epsilon.pair_loss("solver, margin", epsilon, scores, targets, torch.ones(2))
    assert float(solved.detach()) == pytest.approx(float(closed.detach()), abs=1e-9)
    ours, theirs = (torch.autograd.grad(loss, scores)[0] for loss in (solved, closed))
    assert torch.allclose(ours, theirs, atol=1e-8)


def test_a_batch_without_pairs_has_loss_zero_and_gradient_zero() -> None:
    scores = torch.randn(4, requires_grad=True)
    for scheme in ("plain scheme, margin", "solver, penalty"):
        loss = meng_epsilon.pair_loss(scheme, 0.01, scores, torch.ones(4).long(), torch.ones(2))
        loss.backward()
        assert float(loss.detach()) == 0.0
        assert float(scores.grad.abs().sum()) == 0.0  # type: ignore[union-attr]


# ---------------------------------------------------------------- F1


def test_warm_losses_change_over_at_half_and_start_again() -> None:
    scores, targets = torch.randn(8), torch.arange(8) % 2
    warm = meng_f1.Warm(lambda *_: torch.tensor(-1.0), steps=4)
    plain = float(cross_entropy(scores, targets, torch.ones(2)))
    seen = [float(warm(scores, targets, torch.ones(2))) for _ in range(8)]
    assert seen == [plain, plain, -1.0, -1.0] * 2


def test_the_program_predicts_no_more_than_the_true_f1() -> None:
    methods = {method.name: method.loss for method in meng_f1.methods(10)}
    for name in (meng_f1.PROGRAM, meng_f1.FREE):
        loss = methods[name]
        assert isinstance(loss, meng_f1.Predicting)
        for scale in (0.1, 1.0, 5.0):
            targets = torch.arange(40) % 2
            loss(scale * (torch.randn(40) + 2 * targets), targets, torch.ones(2))
        assert all(predicted <= true + 1e-6 for predicted, true in loss.pairs)


def test_a_prediction_is_compared_over_steps_and_none_is_made_up_where_nothing_moves() -> None:
    true = np.linspace(0.5, 0.9, 20)
    found = meng_f1._followed(np.stack((0.5 * true - 0.1, true), 1))
    assert found["correlation"] == pytest.approx(1.0)
    assert found["gap"] == pytest.approx(0.45)
    assert found["above"] == 0.0
    assert found["curve"]["true"] == pytest.approx([true[:10].mean(), true[10:].mean()], abs=1e-4)
    still = meng_f1._followed(np.stack((np.full(20, 0.95), true), 1))
    assert still["correlation"] is None
    assert still["above"] == 1.0


def test_untuned_choices_leave_the_threshold_alone() -> None:
    part = Split(torch.zeros(4, 1), torch.tensor([1, 1, 0, 0]))
    low = Checkpoint("low", {}, torch.tensor([-1.0, -2.0, -3.0, -4.0]), 0.1)  # perfect order, nothing above 0
    high = Checkpoint("high", {}, torch.tensor([1.0, 1.0, 1.0, -1.0]), 0.1)
    assert choosing.best(meng_f1.ACCURACY, [low, high], part)[0].name == "low"
    assert choosing.best(meng_f1.ACCURACY, [low, high], part, tune=False) == (high, 0.75, 0.0)


# ---------------------------------------------------------------- ROC


def test_curves_are_scikit_learns() -> None:
    from sklearn.metrics import roc_curve

    scores, positive = torch.randn(60).round(decimals=1), torch.rand(60) < 0.3
    fpr, tpr, _ = roc_curve(positive.numpy(), scores.numpy(), drop_intermediate=False)
    ours = meng_roc.curve_of(scores, positive)
    for rate, value in zip(meng_roc.GRID, ours, strict=True):
        upper = max(t for f, t in zip(fpr, tpr, strict=True) if f <= rate + 1e-12)
        after = [(f, t) for f, t in zip(fpr, tpr, strict=True) if f > rate + 1e-12]
        before = max(f for f in fpr if f <= rate + 1e-12)
        expected = upper + (rate - before) / (after[0][0] - before) * (after[0][1] - upper) if after else 1.0
        assert value == pytest.approx(expected, abs=1e-5)


# ---------------------------------------------------------------- judges


def f1_entries(accuracy: float, positive: float, correlation: float, seeds: int = 3) -> list[dict[str, Any]]:
    def found(name: str, seed: int) -> dict[str, Any]:
        value = (0.7 if name == meng_f1.PLAIN else accuracy) + 0.001 * seed * (name != meng_f1.PLAIN)
        read = {"test": value, "validation": value, "positive": 0.6}
        share = 0.5 if name == meng_f1.PLAIN else positive
        predicted = {"correlation": correlation + 0.01 * seed, "gap": 0.1, "above": 0.0}
        return {**dict.fromkeys(meng_f1.READINGS, read), "last": {"positive": share}, "predicted": predicted}

    names = list(dict.fromkeys([*(method.name for method in meng_f1.methods(2)), *meng_f1.RIVALS]))
    cells = [{"set": "stl10", "seed": seed} for seed in range(seeds)]
    return [{"cell": cell, "result": {name: found(name, int(cell["seed"])) for name in names}} for cell in cells]


def test_f1_verdicts_follow_from_the_numbers() -> None:
    good, bad = f1_entries(0.75, 0.5, 0.9), f1_entries(0.5, 1.0, -0.5)
    assert judging_meng.f1_accuracy(good).verdict == "confirmed"
    assert judging_meng.f1_accuracy(bad).verdict == "not confirmed"
    assert judging_meng.f1_trap(bad).verdict.endswith("but the program falls into it as well")
    assert judging_meng.f1_trap(good).verdict == "not confirmed"  # nobody is in a trap
    assert judging_meng.f1_predicted(good).verdict == "confirmed"
    assert judging_meng.f1_predicted(f1_entries(0.7, 0.5, 0.4)).verdict.startswith("partly confirmed")
    assert judging_meng.f1_predicted(bad).verdict == "not confirmed"
    assert "too few" in judging_meng.f1_accuracy(good[:2]).verdict


def test_the_trap_is_the_rivals_only_where_most_of_their_runs_end_there() -> None:
    def trap(*names: str, runs: int = 3) -> str:
        entries = f1_entries(0.75, 0.5, 0.9)
        for entry, name in itertools.product(entries[:runs], names):
            entry["result"][name]["last"]["positive"] = 1.0
        return judging_meng.f1_trap(entries).verdict

    both = (meng_f1.CVXPY, meng_f1.AP_PERF)
    assert trap(*both) == trap(*both, runs=2) == "confirmed"
    assert trap(*both, runs=1).endswith("but CVXPY-SCS and AP-Perf mostly do not")
    assert trap(meng_f1.CVXPY).endswith("but AP-Perf mostly does not")
    assert trap(meng_f1.PROGRAM, *both, runs=2).endswith("but the program falls into it as well")
    some = f1_entries(0.75, 0.5, 0.9, seeds=7)
    for count, entry in enumerate(some):
        if count < 3:
            entry["result"][meng_f1.AP_PERF]["last"]["positive"] = 1.0
        else:
            del entry["result"][meng_f1.AP_PERF]
    assert judging_meng.f1_trap(some).verdict.endswith("but CVXPY-SCS mostly does not")
    assert "AP-Perf 3 of 3" in judging_meng.f1_trap(some).numbers
    assert "AP-Perf 0.751, 0.751 (in the same runs cross-entropy 0.700, 0.700)" in judging_meng.f1_trap(some).numbers
    del some[0]["result"][meng_f1.AP_PERF]
    assert judging_meng.f1_trap(some).verdict.endswith("and its rivals were not all run often enough")
    alone = f1_entries(0.5, 1.0, 0.9)
    for entry, name in itertools.product(alone, both):
        del entry["result"][name]
    judged = judging_meng.f1_trap(alone)
    assert judged.verdict.endswith("falls into it as well, and its rivals were not all run often enough")
    assert "Not installed when these cells were run: CVXPY-SCS and AP-Perf." in judged.numbers


@pytest.mark.parametrize(
    ("at", "verdict"),
    [
        ({0.1: 0.69, 0.01: 0.7, 0.001: 0.6}, "confirmed"),
        ({0.1: 0.72, 0.01: 0.7, 0.001: 0.6}, "partly confirmed"),
        ({0.1: 0.7, 0.01: 0.7, 0.001: 0.7}, "not confirmed"),
    ],
)
def test_epsilon_verdicts_follow_from_the_numbers(at: dict[float, float], verdict: str) -> None:
    entries = [
        {"cell": {"scheme": scheme, "epsilon": e, "seed": seed}, "result": {"test": value + 0.01 * seed}}
        for scheme in meng_epsilon.SCHEMES
        for e, value in at.items()
        for seed in range(3)
    ]
    assert judging_meng.epsilon_table(entries).verdict.split(":")[0] == verdict


@pytest.mark.parametrize(
    ("ramp", "balanced", "verdict"),
    [(0.8, 0.7, "confirmed"), (0.8, 0.9, "partly confirmed"), (0.6, 0.7, "not confirmed")],
)
def test_roc_verdicts_follow_from_the_numbers(ramp: float, balanced: float, verdict: str) -> None:
    values = {meng_roc.PLAIN: 0.7, meng_roc.BALANCED: balanced, meng_roc.RAMP: ramp, meng_roc.HINGE: 0.7}
    flat = [1.0] * len(meng_roc.GRID)
    entries = [
        {"result": {n: {"area": v, "curves": [[v * one for one in flat]] * 3} for n, v in values.items()}}
        for _ in range(3)
    ]
    assert judging_meng.roc_above(entries).verdict.split(":")[0] == verdict
    assert meng_roc.group_gap(entries, meng_roc.RAMP, meng_roc.PLAIN, 2).mean == pytest.approx(ramp - 0.7)


def test_benchmark_verdicts_follow_from_the_rows() -> None:
    def batch(size: int, ours: float, box: float) -> dict[str, Any]:
        row = {"batch": size, "ours, forward, ms": ours, "ours, backward (implicit), ms": ours}
        return row | {"black box on scipy, forward, ms": box, "black box / ours, both passes": "1"}

    assert judging_meng.batch_growth([batch(1, 5, 5), batch(128, 6, 500)]).verdict == "confirmed"
    assert judging_meng.batch_growth([batch(1, 5, 5), batch(128, 50, 500)]).verdict.startswith("partly confirmed")
    assert judging_meng.batch_growth([batch(1, 5, 5), batch(128, 500, 500)]).verdict == "not confirmed"
    for costs, verdict in (
        ((0.02, 0.05), "confirmed"),
        ((0.02, 0.5), "confirmed: for the paper's rule, not for implicit"),
        ((0.4, 0.5), "not confirmed"),
    ):
        named = zip(("active set", "implicit"), costs, strict=True)
        rows = [{"method": f"aimfor, {rule}", "backward, forward = 1": str(cost)} for rule, cost in named]
        rows.append({"method": "black box", "backward, forward = 1": "1.0"})
        assert judging_meng.backward_cost(rows).verdict == verdict
    for errors, verdict in (
        ((0.05, 0.01), "confirmed"),
        ((0.5, 0.05), "partly confirmed"),
        ((0.9, 0.5), "not confirmed"),
    ):
        shares = zip((250, 500), errors, strict=True)
        kept = [{"rows kept": f"{k} of 1000", "value error, reduced program, rows": str(e)} for k, e in shares]
        assert judging_meng.reduction(kept).verdict.split(":")[0] == verdict
    for sparse, verdict in (("30", "confirmed"), ("900", "not confirmed")):
        memory = [
            {"rows": "dense", "peak extra memory, MB": "1000"},
            {"rows": "sparse", "peak extra memory, MB": sparse},
        ]
        assert judging_meng.sparse_memory(memory).verdict.split(":")[0] == verdict


def test_every_claim_of_the_paper_names_what_judges_it() -> None:
    assert all(claim.experiment and claim.judge for claim in CLAIMS)
