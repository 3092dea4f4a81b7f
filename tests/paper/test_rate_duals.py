"""Ravi's §6 by per-example duals: on linear models it comes to the optimum that HiGHS finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from aimfor.rates.form import Anchor, precision_at_recall, recall_at_precision, tpr_at_fpr
from paper import Options
from paper.experiments.ravi import rate_duals as experiment
from paper.rivals.rate_duals import RateDuals


def problem(seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    y = torch.rand(120, generator=draw) < 0.4
    x = torch.randn(120, 3, generator=draw, dtype=torch.float64) + y[:, None] * torch.tensor([2.5, 1.0, 0.0])
    return x, y


def optimum(x: Tensor, y: Tensor, point: Anchor) -> float:
    """gain·T − price·Φ at best, by HiGHS: variables w, b, τ, φ."""
    p, q = x[y].numpy(), x[~y].numpy()
    n, m, d = len(p), len(q), x.shape[1]
    unit = point.b * (m / n if point.odds else 1.0)
    cost = np.concatenate((np.zeros(d + 1), np.full(n, -point.gain / n), np.full(m, point.price / m)))
    within = np.concatenate((-p, np.ones((n, 1)), np.eye(n), np.zeros((n, m))), 1)  # τ ≤ w·x − b
    above = np.concatenate((q, -np.ones((m, 1)), np.zeros((m, n)), -np.eye(m)), 1)  # φ ≥ 1 + w·x − b
    rates = np.concatenate((np.zeros(d + 1), np.full(n, -point.a / n), np.full(m, unit / m)))[None]
    rows = np.concatenate((within, above, rates))
    right = np.concatenate((np.zeros(n), -np.ones(m), [point.c]))
    bounds = [(None, None)] * (d + 1) + [(None, 1)] * n + [(0, None)] * m
    return -float(linprog(cost, rows, right, bounds=bounds, method="highs").fun)


@pytest.mark.parametrize("point", [recall_at_precision(0.6), precision_at_recall(0.7), tpr_at_fpr(0.4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_linear_models_come_to_the_optimum(point: Anchor, seed: int) -> None:
    x, y = problem(seed)
    duals, weights = RateDuals((point,), y), torch.zeros(3, dtype=torch.float64, requires_grad=True)
    everyone, epochs = torch.arange(len(y)), 1500
    for epoch in range(epochs):
        duals.primal_step = 0.1 * (1 - epoch / epochs)
        (slope,) = torch.autograd.grad(duals(x @ weights, everyone), weights)
        weights.detach().sub_(slope, alpha=0.1 * (1 - epoch / epochs))
        duals.end_epoch()
    best = optimum(x, y, point)
    z = (x @ weights).detach() - duals.threshold
    hit, passed = float(z[y].clamp_max(1.0).mean()), float((1 + z[~y]).relu().mean())
    assert float(duals.short()) == pytest.approx(0.0, abs=0.01)  # the bound is kept, and holds
    assert point.gain * hit - point.price * passed == pytest.approx(best, abs=0.01)


def test_batches_estimate_the_whole_without_bias() -> None:
    x, y = problem(2)
    scores = (x[:, 0] - 0.5).requires_grad_()
    point = (recall_at_precision(0.7), tpr_at_fpr(0.3))

    def slope(index: Tensor) -> Tensor:
        duals = RateDuals(point, y, primal_step=0.0)
        duals.scores.copy_(scores.detach())
        (found,) = torch.autograd.grad(duals(scores[index], index), scores)
        return found

    parts = torch.stack([slope(index) for index in torch.arange(len(y)).split(30)])
    torch.testing.assert_close(parts.mean(0), slope(torch.arange(len(y))))


def test_a_small_cell_runs_and_reports(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "EPOCHS", 3)
    cell = {"table": "spambase", "seed": 0}
    found = experiment.run(cell, Options(seeds=1, data=real_data))
    assert all(found["AUROC"][method] > 0.85 for method in (experiment.DUALS, experiment.RATES, experiment.ENTROPY))
    experiment.EXPERIMENT.report([{"cell": cell, "result": found}] * 2, tmp_path)
    assert "| P@R 0.8 |" in (tmp_path / "table.md").read_text()
