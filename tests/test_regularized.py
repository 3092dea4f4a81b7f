"""ERM + α · metric: the sum, the two logs, and what is refused."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import aimfor

LABELS = torch.tensor([1, 0, 1, 0, 0, 1])


def make(alpha: float) -> aimfor.Regularized:
    metric_loss = aimfor.MetricLoss(aimfor.FBeta(1.0), aimfor.LagrangianEngine(LABELS))
    return aimfor.Regularized(nn.CrossEntropyLoss(), metric_loss, alpha)


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(6, 4, requires_grad=True), torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6)


def test_total_is_the_sum_in_value_and_gradient() -> None:
    objective = make(0.25)
    alone = copy.deepcopy(objective.metric_loss)
    outputs, targets, index = batch()
    total = objective(outputs[:, :3], targets, outputs[:, 3], LABELS, index=index)
    erm, metric = nn.functional.cross_entropy(outputs[:, :3], targets), alone(outputs[:, 3], LABELS, index=index)
    torch.testing.assert_close(total, erm + 0.25 * metric)
    (ours,) = torch.autograd.grad(total, outputs)
    (expected,) = torch.autograd.grad(erm + 0.25 * metric, outputs)
    torch.testing.assert_close(ours, expected)


def test_both_terms_are_logged_apart_and_averaged_over_the_epoch() -> None:
    objective = make(0.5)
    seen = []
    for _ in range(3):
        outputs, targets, index = batch()
        objective(outputs[:, :3], targets, outputs[:, 3], LABELS, index=index)
        seen.append({name: float(value) for name, value in objective.terms.items()})
        assert float(objective.terms["total"]) == pytest.approx(seen[-1]["erm"] + 0.5 * seen[-1]["metric"], rel=1e-5)
    objective.end_epoch()
    assert objective.log[0]["erm"] == pytest.approx(sum(row["erm"] for row in seen) / 3, rel=1e-5)
    assert objective.log[0]["metric"] == pytest.approx(sum(row["metric"] for row in seen) / 3, rel=1e-5)
    assert len(objective.metric_loss.engine.history) == 1
    objective.eval()
    objective(outputs[:, :3], targets, outputs[:, 3], LABELS)
    objective.end_epoch()
    assert len(objective.log) == 1  # evaluation is not training


def test_alpha_does_not_touch_the_dynamics_of_the_duals() -> None:
    """The engine steps τ and ε itself, so a small α does not freeze them (as it did in the published code)."""
    one, tiny = make(1.0), make(1e-4)
    for _ in range(4):
        outputs, targets, index = batch()
        for objective in (one, tiny):
            objective(outputs[:, :3], targets, outputs[:, 3], LABELS, index=index).backward()
            objective.end_epoch()
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), tiny.state_dict().values(), strict=True))


def test_zero_alpha_gives_the_metric_no_gradient() -> None:
    outputs, targets, index = batch()
    (gradient,) = torch.autograd.grad(make(0.0)(outputs[:, :3], targets, outputs[:, 3], LABELS, index=index), outputs)
    assert not gradient[:, 3].any()


def test_bad_settings_and_losses_are_refused_before_the_state_changes() -> None:
    metric_loss = make(0.1).metric_loss
    for arguments in ((None, metric_loss, 0.1), (nn.CrossEntropyLoss(), nn.Identity(), 0.1)):
        with pytest.raises(aimfor.InputError):
            aimfor.Regularized(*arguments)  # type: ignore[arg-type]
    for alpha in (-0.1, float("nan"), True):
        with pytest.raises(aimfor.InputError, match="alpha"):
            aimfor.Regularized(nn.CrossEntropyLoss(), metric_loss, alpha)
    objective = aimfor.Regularized(nn.CrossEntropyLoss(reduction="none"), metric_loss, 0.1)
    before = copy.deepcopy(objective.state_dict())
    outputs, targets, index = batch()
    with pytest.raises(aimfor.InputError, match="reduction='mean'"):
        objective(outputs[:, :3], targets, outputs[:, 3], LABELS, index=index)
    assert all(torch.equal(before[key], value) for key, value in objective.state_dict().items())
