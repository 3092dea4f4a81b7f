"""CVXPY-SCS and AP-Perf in Meng's F1 experiment: the same program, the same gradient, and nobody else disturbed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from aimfor import MetricLoss
from aimfor.lp import LPEngine
from aimfor.metrics.fbeta import FBeta
from aimfor.reproduce import Options, f1_peers, meng_f1
from aimfor.reproduce.meng_f1_report import AP_PERF, CVXPY, UNBOUND, absent, methods_of, report
from aimfor.reproduce.protocol import Budget, Loss, cross_entropy

SHARES = torch.ones(2)


def drawn(n: int, scale: float) -> tuple[Tensor, Tensor]:
    """Scores that say something about the targets, at random."""
    targets = (torch.rand(n) < 0.5).long()
    targets[:2] = torch.tensor([0, 1])
    return (scale * (torch.randn(n, dtype=torch.float64) + 1.5 * targets)).requires_grad_(), targets


def ours(free: bool, scores: Tensor, targets: Tensor) -> Tensor:
    engine = LPEngine(form="program", threshold="free" if free else "zero")
    value: Tensor = MetricLoss(FBeta(1.0), engine)(scores, targets)
    return value


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_program_in_cvxpys_words_has_the_engines_value(free: bool, scale: float) -> None:
    pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    for n in (5, 12, 21):
        scores, targets = drawn(n, scale)
        high, low = scores.detach()[targets == 1], scores.detach()[targets == 0]
        problem, parameters, u = f1_peers.f1_program(len(high), len(low), free)
        assert problem.is_dpp()  # or cvxpylayers cannot differentiate it
        parameters[0].value, parameters[1].value = high.numpy(), low.numpy()
        value = problem.solve(solver="CLARABEL")
        assert value == pytest.approx(2.0 * float(u.value.sum()), abs=1e-9)
        if free or float(high.clamp_max(1.0).sum()) > 0:  # elsewhere the engine's loss is the tangent, not the program
            assert 1.0 - value == pytest.approx(float(ours(free, scores, targets).detach()), abs=1e-6)


@pytest.mark.parametrize("free", [False, True])
def test_cvxpylayers_gives_the_engines_value_and_gradient(free: bool) -> None:
    for package in ("cvxpylayers", "diffcp", "scs"):
        pytest.importorskip(package)
    sharp, as_it_comes = f1_peers.cvxpy_loss(free, eps=1e-10, mode="dense"), f1_peers.cvxpy_loss(free)
    moving = 0
    for n, scale in itertools.product((8, 16), (0.5, 1.0, 3.0)):
        scores, targets = drawn(n, scale)
        losses = [ours(free, scores, targets), sharp(scores, targets, SHARES), as_it_comes(scores, targets, SHARES)]
        mine, near, rough = (torch.autograd.grad(2.0 * loss, scores)[0] for loss in losses)
        values = [float(loss.detach()) for loss in losses]
        assert values[1] == pytest.approx(values[0], abs=1e-7)
        assert torch.allclose(near, mine, atol=1e-6)
        assert values[2] == pytest.approx(values[0], abs=1e-3)  # SCS stops at 1e-4
        if float(mine.abs().max()) > 0.01:
            moving += 1
            assert float(torch.cosine_similarity(rough, mine, 0)) > 0.99
    assert moving >= 3


def test_where_the_program_is_trivial_the_engines_tangent_is_followed() -> None:
    scores = torch.tensor([-1.0, -2.0, 0.5, 0.1], requires_grad=True)
    targets = torch.tensor([1, 1, 0, 0])
    loss = f1_peers.cvxpy_loss(False)(scores, targets, SHARES)
    assert float(loss.detach()) == float(ours(False, scores, targets).detach()) > 1.0
    assert float(torch.autograd.grad(loss, scores)[0].abs().max()) > 0


def exact_game(scores: np.ndarray) -> np.ndarray:
    """The adversary's chance of a positive label for each example, from the whole game of 2ⁿ × 2ⁿ answers."""
    from scipy.optimize import linprog

    answers = np.array(list(itertools.product([0, 1], repeat=len(scores))))
    hits, sizes = answers @ answers.T, answers.sum(1)[:, None] + answers.sum(1)
    payoff = np.where(sizes == 0, 1.0, 2 * hits / np.maximum(sizes, 1))
    count = len(answers)
    found = linprog(
        np.append(-(answers @ scores), 1.0),
        A_ub=np.column_stack((payoff, -np.ones(count))),
        b_ub=np.zeros(count),
        A_eq=np.append(np.ones(count), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)],
    )
    chances: np.ndarray = found.x[:count] @ answers
    return chances


def test_ap_perfs_gradient_is_that_of_the_whole_game_and_heeds_a_factor() -> None:
    pytest.importorskip("ap_perf")
    pytest.importorskip("scipy")
    loss = f1_peers.ap_perf_loss()
    for scale in (0.1, 1.0):
        scores, targets = (scale * torch.randn(5)).requires_grad_(), torch.arange(5) % 2
        (gradient,) = torch.autograd.grad(3.0 * loss(scores, targets, SHARES), scores)
        expected = exact_game(scores.detach().double().numpy()) - targets.numpy()
        assert np.allclose(gradient.numpy() / 3.0, expected, atol=0.05)  # a hundred steps of ADMM, no stopping test


def test_a_loss_found_elsewhere_keeps_its_value_and_gradient_in_the_graph() -> None:
    weights, gradient = torch.randn(4, requires_grad=True), torch.tensor([1.0, -2.0, 0.0, 0.5])
    loss = 5.0 * f1_peers.attached(2.0 * weights, 0.25, gradient)
    assert float(loss.detach()) == 1.25
    assert torch.equal(torch.autograd.grad(loss, weights)[0], 10.0 * gradient)


# ---------------------------------------------------------------- in the experiment


def stand_ins() -> dict[str, Loss]:
    return {CVXPY: cross_entropy, CVXPY + UNBOUND: cross_entropy, AP_PERF: lambda s, y, shares: s.mean()}


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, peers: dict[str, Loss]) -> dict[str, Any]:
    monkeypatch.setattr(meng_f1, "peer_losses", lambda: peers)
    monkeypatch.setattr(meng_f1, "budget", lambda options: Budget(4, 0, batch=16, rates=(1e-2,), looks=2))
    cell = {"set": "cats_vs_dogs", "seed": 0}
    return {"cell": cell, "result": meng_f1.run(cell, Options(seeds=1, data=folder)), "seconds": 1.0}


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    (tmp_path / "cats_vs_dogs").mkdir()
    for split in ("train", "test"):
        y = np.arange(80) % 2
        x = random.integers(0, 200, (80, 32, 32, 3)) + 50 * y[:, None, None, None]
        np.savez(tmp_path / "cats_vs_dogs" / f"{split}.npz", x=x.astype(np.uint8), y=y)
    return tmp_path


def test_peers_join_a_cell_and_change_nothing_for_the_others(
    image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, with_them = (measured(image_folder, monkeypatch, peers) for peers in ({}, stand_ins()))
    names = [name + end for end in ("", meng_f1.WARM) for name in stand_ins()]
    assert list(with_them["result"]) == [*without["result"], *names]
    assert {name: with_them["result"][name] for name in without["result"]} == without["result"]
    report([with_them], image_folder)
    text = (image_folder / "table.md").read_text()
    assert all(f"| {name} |" in text for name in names)
    assert "Not installed" not in text


def test_a_report_leaves_out_peers_that_a_cell_lacks_and_says_so(
    image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (measured(image_folder, monkeypatch, peers) for peers in (stand_ins(), {}))
    both = [one, {**other, "cell": {**other["cell"], "seed": 1}}]
    assert methods_of(both) == list(other["result"])
    assert absent(both) == "Not installed when these cells were run: CVXPY-SCS and AP-Perf."
    report(both, image_folder)
    assert absent(both) in (image_folder / "table.md").read_text()
    assert absent([one]) == ""


def test_without_the_packages_there_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f1_peers, "installed", lambda *packages: False)
    assert f1_peers.peer_losses() == {}
    assert not any(name in method.name for method in meng_f1.methods(4) for name in (CVXPY, AP_PERF))
