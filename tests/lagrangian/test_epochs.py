"""What happens between epochs, by hand: the cap's multipliers, schedules of the steps, the diagnostics, groups."""

from __future__ import annotations

import pytest
import torch

import aimfor
from aimfor.lagrangian import LagrangianEngine, LinearDecay, PowerDecay
from aimfor.metrics import PairwiseFBeta

LABELS = torch.tensor([1, 0, 0, 1, 0, 1, 0, 0])


def stirred(**options: object) -> LagrangianEngine:
    """τ = (0.875, 1.75, 0.25), ε = 1.25, λ = (0.4, 0, 2), μ = −1.1 and, where there is one, γ = (0.1, 0.5, 0)."""
    engine = LagrangianEngine(LABELS, **options).double()  # type: ignore[arg-type]
    duals = engine.duals[0]
    with torch.no_grad():
        duals.tau.copy_(torch.tensor([0.875, 1.75, 0.25]))
        duals.epsilon.fill_(1.25)
        duals.lam.copy_(torch.tensor([0.4, 0.0, 2.0]))
        duals.mu.fill_(-1.1)
        if duals.gamma.numel():
            duals.gamma.copy_(torch.tensor([0.1, 0.5, 0.0]))
    return engine


def step(engine: LagrangianEngine, scores: torch.Tensor) -> torch.Tensor:
    return aimfor.MetricLoss(aimfor.FBeta(1.0), engine)(scores, LABELS, index=torch.arange(8))  # type: ignore[no-any-return]


def test_venkatesh_raises_the_multiplier_of_a_broken_cap_and_projects_nothing() -> None:
    engine = stirred(mode="venkatesh", dual_step=0.5)
    engine.end_epoch(torch.zeros(8, dtype=torch.float64))
    duals = engine.duals[0]
    assert duals.gamma.tolist() == pytest.approx([0.0, 0.75, 0.0])  # γ + (τ − ε)/2, not below 0
    assert duals.tau.tolist() == [0.875, 1.75, 0.25]
    assert float(duals.epsilon) == 1.25
    assert engine.history["projections"] == [0.0]


def test_each_multiplier_has_a_step_of_its_own() -> None:
    engine = stirred(mode="venkatesh", dual_step=0.5, mu_step=0.25, gamma_step=PowerDecay(0.1))
    before = engine.duals[0].lam.clone(), float(engine.duals[0].mu)
    engine.end_epoch(torch.zeros(8, dtype=torch.float64))
    duals = engine.duals[0]
    tau = torch.tensor([0.875, 1.75, 0.25], dtype=torch.float64)
    torch.testing.assert_close(duals.lam, (before[0] + 0.5 * tau).clamp_min(0))
    assert float(duals.mu) == pytest.approx(before[1] + 0.25 * (float(tau.mean()) - 1))
    assert duals.gamma.tolist() == pytest.approx([0.1 - 0.0375, 0.5 + 0.05, 0.0])


def test_venkatesh_keeps_epsilon_nonnegative_in_every_step() -> None:
    engine = stirred(mode="venkatesh", primal_step=1.0)
    with torch.no_grad():
        engine.duals[0].epsilon.fill_(0.01)
        engine.duals[0].tau.fill_(-5.0)  # no cap is broken, so nothing pulls ε up
    step(engine, torch.full((8,), -9.0, dtype=torch.float64))  # no negative is near: the slope is β² = 1
    assert float(engine.duals[0].epsilon) == 0.0


def test_primal_step_follows_its_schedule_over_the_epochs() -> None:
    """With scores far on the right side ∂L/∂ε is β² = 1, and a full batch takes the whole epoch's step."""
    engine = stirred(mode="venkatesh", primal_step=LinearDecay(0.4, 4), penalty=0.0)
    with torch.no_grad():
        engine.duals[0].gamma.zero_()
        engine.duals[0].tau.fill_(-5.0)
    scores = torch.full((8,), -9.0, dtype=torch.float64)
    found = []
    for _ in range(3):
        before = float(engine.duals[0].epsilon)
        step(engine, scores)
        found.append(before - float(engine.duals[0].epsilon))
        engine.end_epoch()
        with torch.no_grad():
            engine.duals[0].gamma.zero_()
    assert found == pytest.approx([0.4, 0.3, 0.2])


def test_diagnostics_are_those_of_the_epoch_before_its_projection() -> None:
    engine = stirred(penalty=0.0, dual_step=0.5)
    scores = torch.tensor([1.0, -2.0, 0.5, 0.75, -0.25, -1.0, -9.0, 0.0], dtype=torch.float64)
    engine.end_epoch(scores)
    row = engine.history.last()
    positive = LABELS.bool()
    assert row["sum_tau"] == pytest.approx((0.875 + 1.75 + 0.25) / 3)
    assert row["epsilon"] == pytest.approx(1.25)
    assert row["mu"] == pytest.approx(-1.1)
    assert (row["lambda_min"], row["lambda_max"]) == (0.0, 2.0)
    assert row["cap_violation"] == pytest.approx(0.5 / 3)  # only 1.75 is above 1.25
    assert row["margin_violation"] == pytest.approx(((1.75 - 0.75) + (0.25 + 1.0)) / 3)
    assert row["value"] == pytest.approx(1.25 + (1.75 + 1.0 + 1.25) / 3)  # negatives at 0.5, −0.25 and 0
    assert row["f_beta"] == pytest.approx(float(aimfor.FBeta(1.0).value(scores, positive)))
    assert row["dual_step"] == 0.5


def test_whole_data_scores_of_groups_go_to_their_own_heads() -> None:
    groups = torch.tensor([0, 1, 2, 0, 1, 2])
    engine = LagrangianEngine(groups)
    scores = torch.arange(18.0).reshape(6, 3)
    engine.end_epoch(scores)
    for (head, _), duals in zip(engine.pairs, engine.duals, strict=True):
        assert torch.equal(duals.scores, scores[:, head])
    assert engine.refuses(PairwiseFBeta(1.0)) is None


def test_a_score_is_new_in_the_epoch_it_came_and_in_no_later_one() -> None:
    engine = LagrangianEngine(LABELS)
    loss_fn, duals = aimfor.MetricLoss(aimfor.FBeta(1.0), engine), engine.duals[0]
    for index in (torch.tensor([0, 1]), torch.tensor([3, 4])):
        loss_fn(torch.full((2,), -2.0), LABELS[index], index=index)
        before = duals.lam.clone()
        engine.end_epoch()
        assert (duals.lam > before).tolist() == [0 in index, 3 in index, False]


def test_a_pair_of_groups_missing_from_the_batch_counts_as_zero_in_the_mean() -> None:
    """Two rows of group 0 take part in four of the six programs; the sum is still divided by six, or it has a bias."""
    groups = torch.tensor([0, 1, 2, 0, 1, 2])
    index, scores = torch.tensor([0, 3]), torch.zeros(2, 3)
    loss = aimfor.MetricLoss(PairwiseFBeta(1.0), LagrangianEngine(groups))(scores, groups[index], index=index)
    total = 0.0
    for j, k in ((0, 1), (1, 0), (0, 2), (2, 0)):
        rows = ((groups == j) | (groups == k)).nonzero().squeeze(1)
        binary = aimfor.MetricLoss("f1", LagrangianEngine((groups[rows] == j).long()))
        place = torch.isin(rows, index).nonzero().squeeze(1)
        total += float(binary(scores[:, j], torch.full((2,), int(j == 0)), index=place))
    assert float(loss) == pytest.approx(total / 6, rel=1e-6)
