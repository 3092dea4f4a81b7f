"""The engine, an ordinary optimizer and mini-batches reach the optimum of Ravi's problem (2) as HiGHS solves it.

Twenty problems in both modes are in paper/benchmarks/bench_lagrangian.py; here is one of each, small enough for a test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.lagrangian import LagrangianEngine, LinearDecay, bound_from_scores
from paper.experiments.ravi.linear_optimum import LinearOptimum, linear_optimum


def problem(seed: int, rows: int = 60) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 3 == 0
    x = torch.randn(rows, 3, generator=draw, dtype=torch.float64)
    x[labels, 0] += 1.8
    x[:, 2] = 1.0
    return x, labels


def train(
    x: Tensor, labels: Tensor, epochs: int, batches: int, beta: float = 1.0, **options: Any
) -> tuple[Tensor, LagrangianEngine]:
    engine = LagrangianEngine(labels, primal_step=LinearDecay(0.1, epochs), **options)
    loss_fn = aimfor.MetricLoss(aimfor.FBeta(beta), engine).double()
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0 - epoch / epochs)
    draw = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for index in torch.randperm(len(labels), generator=draw).tensor_split(batches):
            optimizer.zero_grad()
            loss_fn(x[index] @ weights, labels[index], index=index).backward()
            optimizer.step()
        loss_fn.end_epoch()
        falling.step()
    return (x @ weights).detach(), engine


def check(best: LinearOptimum, scores: Tensor, labels: Tensor, engine: LagrangianEngine, beta: float = 1.0) -> None:
    last, duals = engine.history.last(), engine.duals[0]
    assert last["value"] == pytest.approx(best.value, rel=0.01)
    assert float(bound_from_scores(scores, labels, beta).value) == pytest.approx(best.value, rel=0.01)
    assert float(duals.tau.detach().mean()) == pytest.approx(1.0, abs=0.01)
    assert float(duals.lam.min()) >= 0.0
    assert float(duals.epsilon.detach()) == pytest.approx(best.epsilon, rel=0.03)


@pytest.mark.parametrize(("mode", "beta"), [("ravi", 1.0), ("ravi-full", 1.0), ("venkatesh", 1.0), ("ravi", 2.0)])
def test_minibatch_training_reaches_the_optimum_of_the_linear_program(mode: str, beta: float) -> None:
    x, labels = problem(1)
    scores, engine = train(x, labels, 300, 2, beta, mode=mode)
    check(linear_optimum(x, labels, beta), scores, labels, engine, beta)


def test_multipliers_reach_those_of_the_program_where_they_are_unique(tmp_path: Path) -> None:
    x, labels = problem(1)
    best = linear_optimum(x, labels)
    scores, engine = train(x, labels, 500, 1)
    check(best, scores, labels, engine)
    duals = engine.duals[0]
    assert -float(duals.mu) == pytest.approx(best.value, rel=0.01)
    # λ_i = −μ below ε, 0 where the margin is slack, free in between only for the few rows that touch ε.
    touching = (best.tau > best.epsilon - 1e-6) & (best.lam > 1e-6)
    settled = ~touching
    assert int(settled.sum()) > 10
    torch.testing.assert_close(duals.lam[settled] / best.value, best.lam[settled] / best.value, rtol=0, atol=0.03)
    tau = torch.minimum(duals.tau.detach(), duals.epsilon.detach())
    assert float((tau - best.tau)[settled].abs().max()) < 0.01
    drawn = engine.history.plot(tmp_path / "history.svg")
    assert drawn.stat().st_size > 5000


def test_history_has_a_row_per_epoch_with_the_facts_of_that_epoch() -> None:
    x, labels = problem(2)
    _, engine = train(x, labels, 4, 3, mode="ravi-full")
    history = engine.history
    assert history["epoch"] == [1, 2, 3, 4]
    assert history["projections"] == [4, 8, 12, 16]  # three steps and one at the end of each epoch
    assert len(history.seconds) == 4
    assert min(history.seconds) > 0
    known = engine.duals[0].scores
    assert history["f_beta"][-1] == pytest.approx(float(aimfor.FBeta(1.0).value(known, labels)))
    assert history["bound"][-1] == pytest.approx(float(bound_from_scores(known, labels).bound))
    with pytest.raises(aimfor.InputError, match="sum_tau"):
        history["nonsense"]


@pytest.mark.parametrize("surrogate", ["squared_hinge", "squared", "logistic"])
def test_other_surrogates_train_to_a_better_metric_too(surrogate: str) -> None:
    x, labels = problem(3)
    x[labels, 0] += 1.0
    scores, engine = train(x, labels, 60, 2, surrogate=surrogate)
    assert float(aimfor.FBeta(1.0).value(scores, labels)) > 0.8  # 0.5 when all are called positive
    assert engine.history["sum_tau"][-1] == pytest.approx(1.0, abs=0.05)


def test_sampled_and_stratified_training_reaches_the_optimum_too() -> None:
    x, labels = problem(1)
    best = linear_optimum(x, labels)
    for options in ({"projection": "sampled", "sample": 10}, {"sampling": "stratified"}):
        scores, _ = train(x, labels, 250, 1, **options)
        assert float(bound_from_scores(scores, labels).value) < 1.03 * best.value


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_best_scale_is_the_linear_program_with_one_feature(beta: float) -> None:
    for seed in range(20):
        draw = torch.Generator().manual_seed(seed)
        positive = torch.rand(40, generator=draw) < 0.3
        scores = torch.randn(40, generator=draw, dtype=torch.float64) + positive.double()
        if float(scores[positive].sum()) <= 0:
            continue
        best = linear_optimum(scores[:, None], positive, beta)
        if float(best.weights) <= 0:
            continue  # the program may turn the scores round, a threshold at 0 may not
        value, bound = bound_from_scores(scores, positive, beta)
        assert float(value) == pytest.approx(best.value, rel=1e-9)
        assert float(bound) == pytest.approx(best.bound, rel=1e-9)
