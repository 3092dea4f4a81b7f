"""Many small problems laid side by side are the same problems solved one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.metrics import auc_mu, auroc
from aimfor.sorted.kernels import KERNELS

COSTS = [[0.0, 1.0, 3.0, 1.0], [2.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.5], [1.0, 2.0, 1.0, 0.0]]


#: Limits of AUC_mu's three layouts: all examples for each pair of classes, their own ones padded, one pair at a time.
LAYOUTS = ((1 << 12, 1 << 17), (-1, 1 << 17), (-1, -1))


def lay_out(monkeypatch: pytest.MonkeyPatch, whole_rows: int, side_by_side: int) -> None:
    monkeypatch.setattr(auc_mu, "WHOLE_ROWS", whole_rows)
    for module in (auroc, auc_mu):
        monkeypatch.setattr(module, "SIDE_BY_SIDE", side_by_side)


def solved(loss: aimfor.MetricLoss, scores: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    leaf = scores.clone().requires_grad_()
    out = loss.detailed(leaf, targets, weights=weights)
    (gradient,) = torch.autograd.grad(out.loss, leaf)
    return out.loss.detach(), gradient


@pytest.mark.parametrize("surrogate", KERNELS)
@pytest.mark.parametrize(
    "metric", [aimfor.AUCMu(), aimfor.AUCMu(COSTS), aimfor.AUROCOneVsRest()], ids=["auc_mu", "costs", "ovr"]
)
@pytest.mark.parametrize("case", ["plain", "ties", "weights", "zero weights", "a class missing", "one each"])
def test_side_by_side_is_one_after_the_other(
    metric: aimfor.Metric, surrogate: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 4 if case == "one each" else 41
    scores, targets, weights = torch.randn(n, 4, dtype=torch.float64), torch.randint(0, 4, (n,)), None
    if case == "ties":
        scores = scores.round()
    if case == "one each":
        targets = torch.arange(4)
    if case == "a class missing":
        targets[targets == 2] = 0
    if case.endswith("weights"):
        weights = torch.rand(n, dtype=torch.float64)
        if case.startswith("zero"):
            weights[targets == 1] = 0.0
    loss = aimfor.MetricLoss(metric, aimfor.SortedEngine(surrogate))
    found = []
    for limits in LAYOUTS:
        lay_out(monkeypatch, *limits)
        found.append((*solved(loss, scores, targets, weights), loss.detailed(scores, targets, weights=weights).stats))
    for value, gradient, stats in found[1:]:
        torch.testing.assert_close((value, gradient), found[0][:2], rtol=1e-12, atol=1e-13)
        assert stats["pairs"] == found[0][2]["pairs"]
    assert found[0][0] > 0


def test_each_layout_is_taken_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = aimfor.AUCMu().check(torch.randn(40, 4), torch.arange(40) % 4)
    shapes = []
    for limits in LAYOUTS:
        lay_out(monkeypatch, *limits)
        shapes.append([tuple(problem.scores.shape) for problem in aimfor.AUCMu().pair_form(batch).problems])
    assert shapes == [[(6, 40)], [(6, 20)], [(20,)] * 6]


def test_the_score_bank_joins_problems_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for limits in LAYOUTS:
        lay_out(monkeypatch, *limits)
        torch.manual_seed(3)
        loss = aimfor.MetricLoss("auc_mu", aimfor.SortedEngine(bank=30))
        targets = torch.arange(12) % 4
        found.append([solved(loss, torch.randn(12, 4, dtype=torch.float64), targets, None) for _ in range(4)])
    torch.testing.assert_close(found[1:], [found[0]] * 2, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "metric", [aimfor.AUCMu(), aimfor.AUCMu(COSTS), aimfor.AUROCOneVsRest()], ids=["auc_mu", "costs", "ovr"]
)
@pytest.mark.parametrize("anchor", [0.0, 0.3])
@pytest.mark.parametrize("classes", [4, 3])
def test_metric_and_smooth_loss_do_not_see_the_layout(
    metric: aimfor.Metric, anchor: float, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With three classes of four present, the metric is undefined and the loss is of those that are there."""
    scores, targets = torch.randn(33, 4, dtype=torch.float64).round(decimals=1), torch.arange(33) % classes
    weights = torch.rand(33, dtype=torch.float64)
    loss = aimfor.MetricLoss(metric, aimfor.SmoothEngine(0.6, anchor=anchor))
    found = []
    for limits in LAYOUTS:
        lay_out(monkeypatch, *limits)
        told = loss.detailed(scores, targets, weights=weights).stats["value"]
        found.append((*solved(loss, scores, targets, weights), told, metric.value(scores, targets, weights=weights)))
    for one in found[1:]:
        torch.testing.assert_close(one, found[0], rtol=1e-12, atol=1e-13, equal_nan=True)
    assert bool(found[0][3].isnan()) == (classes < 4)
    assert found[0][0] > 0
