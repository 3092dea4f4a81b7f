"""CVXPY-SCS and AP-Perf in Meng's F1 experiment: the same program, the same gradient, and nobody else disturbed."""

from __future__ import annotations

import copy
import itertools
import json
import runpy
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
from paper import Options
from paper.experiments.meng import f1 as meng_f1
from paper.experiments.meng.f1 import PLAIN, absent, difference, methods_of, report
from paper.protocol.protocol import Budget, Loss, cross_entropy
from paper.rivals import f1_peers
from paper.rivals.f1_peers import AP_PERF, CVXPY, UNBOUND

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


Pair = tuple[dict[str, Any], dict[str, Any]]
SMALL = Budget(4, 0, batch=16, rates=(1e-2,), looks=2)


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("images")
    (folder / "cats_vs_dogs").mkdir()
    for split in ("train", "test"):
        y = np.arange(80) % 2
        x = random.integers(0, 200, (80, 32, 32, 3)) + 50 * y[:, None, None, None]
        np.savez(folder / "cats_vs_dogs" / f"{split}.npz", x=x.astype(np.uint8), y=y)
    return folder


@pytest.fixture(scope="module")
def pair(image_folder: Path) -> Pair:
    """The same cell without peers and with stand-ins for them."""
    found = []
    for peers in ({}, stand_ins()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(meng_f1, "peer_losses", lambda peers=peers: peers)
            patch.setattr(meng_f1, "budget", lambda options: SMALL)
            cell = {"set": "cats_vs_dogs", "seed": 0}
            result = meng_f1.run(cell, Options(seeds=1, data=image_folder))
            found.append({"cell": cell, "result": result, "seconds": 1.0})
    return found[0], found[1]


def test_peers_join_a_cell_and_change_nothing_for_the_others(pair: Pair) -> None:
    without, with_them = (entry["result"] for entry in pair)
    names = [name + end for end in ("", meng_f1.WARM) for name in stand_ins()]
    assert list(with_them) == [*without, *names]
    assert {name: with_them[name] for name in without} == without


def test_a_report_says_which_runs_a_peer_has_and_compares_it_in_those_alone(pair: Pair, tmp_path: Path) -> None:
    without, with_them = copy.deepcopy(pair)
    without["cell"]["seed"] = 1
    without["result"][PLAIN]["accuracy"]["test"] = 0.0  # a run that must not count against a peer it lacks
    both = [without, with_them]
    assert methods_of(both) == methods_of(both[::-1]) == list(with_them["result"])
    assert difference(both, CVXPY, "accuracy").mean == difference([with_them], CVXPY, "accuracy").mean
    assert difference(both, CVXPY, "accuracy").pairs == 1
    report(both, tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "| AP-Perf (1 of 2 runs) |" in text
    assert "| cross-entropy |" in text
    assert "Not installed" not in text


def test_a_report_without_the_peers_says_so(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for figure in ("dots", "_predicted_figure"):
        monkeypatch.setattr(meng_f1, figure, lambda *arguments: None)
    report([pair[0]], tmp_path)
    sentence = "Not installed when these cells were run: CVXPY-SCS and AP-Perf."
    assert sentence in (tmp_path / "table.md").read_text()
    assert absent([pair[1]]) == ""


def test_cells_are_completed_by_what_they_lack_and_keep_what_they_have(
    image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "complete_meng_f1.py"))
    (tmp_path / "meng_f1").mkdir()
    path = tmp_path / "meng_f1" / "cells.json"
    cell = {"cell": {"set": "cats_vs_dogs", "seed": 0}, "result": {"soft counts": {"kept": 1}}, "seconds": 1.0}
    path.write_text(json.dumps([cell]))
    monkeypatch.setattr(meng_f1, "budget", lambda options: SMALL)
    command = ["complete", str(image_folder), "--out", str(tmp_path), "--only", "soft counts"]
    monkeypatch.setattr("sys.argv", [*command, "--budget", "-1"])
    tool["main"]()
    assert json.loads(path.read_text()) == [cell]
    monkeypatch.setattr("sys.argv", command)
    tool["main"]()
    (found,) = json.loads(path.read_text())
    assert list(found["result"]) == ["soft counts", "soft counts, warm"]
    assert found["result"]["soft counts"] == {"kept": 1}
    assert 0 <= found["result"]["soft counts, warm"]["f1"]["test"] <= 1


def test_without_the_packages_there_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f1_peers, "installed", lambda *packages: False)
    assert f1_peers.peer_losses() == {}
    assert not any(name in method.name for method in meng_f1.methods(4) for name in (CVXPY, AP_PERF))
