"""The device law without a device: no engine mixes devices, and the page says when the host has to wait."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.metrics import METRICS, metric_from_name
from aimfor.metrics.registry import trainers
from far_device import Device, Far, tensor

NAMES = [entry.example for entry in METRICS]
PAIRS = [(name, engine) for name in NAMES for engine in trainers(metric_from_name(name))]
#: Duals are parameters, which `.to(device)` moves; to a device that is not there none can be moved, so not in training.
MODES = [(*pair, mode) for pair in PAIRS for mode in (True, False) if not (mode and pair[1] is aimfor.LagrangianEngine)]
PAGE = Path(__file__).parent.parent / "docs" / "devices.md"


@pytest.fixture(autouse=True)
def _without_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)  # which knows no such device
    monkeypatch.setattr(torch, "tensor", tensor)


def problem(name: str, n: int = 200) -> tuple[Tensor, Tensor]:
    layout, generator = metric_from_name(name).layout, torch.Generator().manual_seed(0)
    shape = (n, 4) if layout in ("multiclass", "multilabel") else (n,)
    targets = (torch.rand(shape, generator=generator) < 0.4).long()
    if layout == "multiclass":
        targets = torch.arange(n) % 4
    return torch.randn(shape, generator=generator), targets


def waits(loss_fn: aimfor.MetricLoss, scores: Tensor, targets: Tensor) -> tuple[list[tuple[str, str]], Tensor, Tensor]:
    """Of one step; with its loss and gradient."""
    with Device() as device:
        leaf, there = Far(scores).requires_grad_(), Far(targets)
        loss = loss_fn(leaf, there)
        loss.backward()
        found = list(device.waits)
    assert isinstance(leaf.grad, Far), "the gradient is on another device"
    return found, loss.detach().near if isinstance(loss.detach(), Far) else loss.detach(), leaf.grad.near


@pytest.mark.parametrize(("name", "engine", "training"), MODES)
def test_no_engine_mixes_devices(name: str, engine: type[aimfor.Engine], training: bool) -> None:
    scores, targets = problem(name, 40)
    found = []
    for far in (True, False):
        torch.manual_seed(0)
        given = (targets,) if engine is aimfor.LagrangianEngine else ()
        loss_fn = aimfor.MetricLoss(name, engine(*given)).train(training)
        if far:
            found.append(waits(loss_fn, scores, targets)[1:])
        else:
            leaf = scores.clone().requires_grad_()
            loss = loss_fn(leaf, targets)
            found.append((loss.detach(), torch.autograd.grad(loss, leaf)[0]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


def engines() -> list[tuple[str, aimfor.Engine]]:
    """The default of each metric, and the options of the engines that never make the host wait."""
    made = []
    for name in NAMES:
        metric = metric_from_name(name)
        made.append((name, metric.default_engine()))
        given = [aimfor.SortedEngine("hinge"), aimfor.SortedEngine("ramp", bank=512), aimfor.SmoothEngine()]
        given += [aimfor.SmoothEngine(0.5, relative=True, anchor=0.3), aimfor.SmoothEngine(anchor=0.5, bank=512)]
        made += [(name, engine) for engine in given if engine.refuses(metric) is None]
    return [(name, engine) for name, engine in made if isinstance(engine, aimfor.SortedEngine | aimfor.SmoothEngine)]


@pytest.mark.parametrize(("name", "engine"), engines(), ids=str)
def test_sorted_and_smooth_never_make_the_host_wait(name: str, engine: aimfor.Engine) -> None:
    scores, targets = problem(name)
    loss_fn, near = (aimfor.MetricLoss(name, copy.deepcopy(engine), validate=validate) for validate in (False, True))
    for step in range(3):
        leaf = (scores + step).requires_grad_()
        seen, *found = waits(loss_fn, leaf.detach(), targets)
        loss = near(leaf, targets)
        torch.testing.assert_close(found, [loss.detach(), *torch.autograd.grad(loss, leaf)], rtol=1e-4, atol=1e-6)
        assert not seen or not step, seen  # numbers that are sent once


@pytest.mark.parametrize(("name", "engine"), engines(), ids=str)
@pytest.mark.parametrize("kind", ["none", "all"])
@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
def test_an_undefined_batch_is_told_apart_without_a_wait(name: str, engine: aimfor.Engine, kind: str) -> None:
    scores, targets = problem(name)
    targets = torch.zeros_like(targets) if kind == "none" else torch.ones_like(targets)
    loss_fn, near = (aimfor.MetricLoss(name, copy.deepcopy(engine), validate=validate) for validate in (False, True))
    waits(loss_fn, scores, targets)
    seen, *found = waits(loss_fn, scores, targets)
    assert not seen
    leaf = scores.clone().requires_grad_()
    near(leaf, targets)
    loss = near(leaf, targets)
    torch.testing.assert_close(found, [loss.detach(), *torch.autograd.grad(loss, leaf)], rtol=1e-4, atol=1e-6)
    assert loss_fn.counts == near.counts


def table() -> str:
    lines = ["| default loss | waits | with `validate=False` | for what |", "|---|---|---|---|"]
    for name in NAMES:
        scores, targets = problem(name)
        waits(aimfor.MetricLoss(name), scores, targets)  # what is sent once for all steps
        checked, unchecked = (
            waits(aimfor.MetricLoss(name, validate=validate), scores, targets)[0] for validate in (True, False)
        )
        reasons = ", ".join(f"`{where}`" for where in dict.fromkeys(where for _, where in unchecked))
        lines.append(f"| `{name}` | {len(checked)} | {len(unchecked)} | {reasons or '–'} |")
    return "\n".join(lines)


def test_the_page_says_when_the_host_waits() -> None:
    found = re.search(r"\| default loss \|.*?(?=\n\n|\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    expected = table()
    assert found is not None, expected
    assert found.group().strip() == expected, expected


def test_the_law_sees_what_it_is_for() -> None:
    with Device() as device:
        there = Far(torch.ones(3))
        with pytest.raises(AssertionError, match="mixes devices"):
            there + torch.ones(3)
        assert isinstance(there + torch.ones(()), Far)
        assert isinstance(torch.zeros(2, device=there.device), Far)
        assert not device.waits, "nobody waits outside the package"
    loss_fn = aimfor.MetricLoss("f1")
    loss_fn.engine.counts = torch.ones(4, dtype=torch.float64)  # type: ignore[assignment]
    assert any("to the other" in what for what, _ in waits(loss_fn, *problem("f1"))[0])
