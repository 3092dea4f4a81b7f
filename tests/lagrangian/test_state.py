"""What the cheap step must not lose: state in the middle of an epoch, refusals, precision, and honest derivatives."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import aimfor
from aimfor.lagrangian import LagrangianEngine
from aimfor.regularized import RECENT

LABELS = torch.tensor([1, 0, 0, 1, 0, 1, 0, 0])


def make(validate: bool = True, **options: object) -> aimfor.MetricLoss:
    engine = LagrangianEngine(LABELS, **options)  # type: ignore[arg-type]
    return aimfor.MetricLoss(aimfor.FBeta(1.0), engine, validate=validate)


def train(loss_fn: aimfor.MetricLoss, index: Tensor, scores: Tensor) -> Tensor:
    return loss_fn(scores[index], LABELS[index], index=index)  # type: ignore[no-any-return]


def test_state_in_the_middle_of_an_epoch_knows_the_scores_that_came() -> None:
    loss_fn, scores = make(), torch.linspace(-1, 1, 8)
    train(loss_fn, torch.tensor([0, 1]), scores)
    train(loss_fn, torch.tensor([5, 7]), scores)
    state = {key.removeprefix("engine.duals.0."): value for key, value in loss_fn.state_dict().items()}
    assert state["seen"].nonzero().squeeze(1).tolist() == [0, 1, 5, 7]
    assert state["fresh"].tolist() == [True, False, True]
    assert torch.equal(state["scores"][state["seen"]], scores[[0, 1, 5, 7]])
    train(loss_fn, torch.tensor([0, 2]), 2 * scores)  # the later score counts
    loss_fn.end_epoch()
    assert torch.equal(
        loss_fn.engine.duals[0].scores[[0, 1, 2]], torch.stack((2 * scores[0], scores[1], 2 * scores[2]))
    )
    assert not loss_fn.engine.duals[0].fresh.any()


@pytest.mark.parametrize("options", [{}, {"mode": "ravi-full"}, {"mode": "venkatesh", "inner": 2}])
def test_resume_in_the_middle_of_an_epoch_changes_nothing(options: dict[str, object]) -> None:
    batches = torch.randperm(8).split(2) + torch.randperm(8).split(2)
    scores = torch.randn(8)
    whole, half, resumed = make(**options), make(**options), make(**options)
    train(resumed, torch.tensor([2, 3]), -scores)  # a past that loading must wipe out
    for step, index in enumerate(batches):
        train(whole, index, scores)
        train(half if step < 2 else resumed, index, scores)
        if step == 1:
            resumed.load_state_dict(copy.deepcopy(half.state_dict()))
        if step % 4 == 3:
            whole.end_epoch()
            resumed.end_epoch()
    expected = whole.state_dict()
    assert expected["engine.duals.0.lam"].any()
    for key, value in resumed.state_dict().items():
        assert torch.equal(value, expected[key]), key


@pytest.mark.parametrize("past", [0, 1, 3, 5])
def test_history_is_loaded_whole_whatever_came_before(past: int) -> None:
    saved, loaded = LagrangianEngine(LABELS), LagrangianEngine(LABELS)
    for engine, epochs in ((saved, 3), (loaded, past)):
        for _ in range(epochs):
            engine.end_epoch(torch.randn(8))
    loaded.load_state_dict(copy.deepcopy(saved.state_dict()))
    assert loaded.history["epoch"] == [1.0, 2.0, 3.0]
    assert loaded.history.last() == saved.history.last()


def test_state_has_the_keys_it_always_had_so_that_old_runs_resume() -> None:
    own = {"tau", "epsilon", "lam", "mu", "gamma", "scores", "seen", "fresh"}
    engine = {"labels", "epoch", "rounds", "waited", "projections", "history.rows"}
    assert set(LagrangianEngine(LABELS).state_dict()) == engine | {f"duals.0.{name}" for name in own}


def test_moving_to_double_in_the_middle_of_an_epoch_keeps_what_came() -> None:
    loss_fn, scores = make(), torch.linspace(-1, 1, 8)
    train(loss_fn, torch.tensor([0, 1]), scores)
    loss_fn.double()
    train(loss_fn, torch.tensor([3, 4]), scores.double())
    loss_fn.end_epoch()
    assert loss_fn.engine.duals[0].seen.nonzero().squeeze(1).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("index", "targets", "match"),
    [
        ([0, 1, 8], [1, 0, 0], "from 0 to 7"),
        ([0, 1, -1], [1, 0, 0], "from 0 to 7"),
        ([0, 1, 3], [1, 0, 0], "labels that differ"),
    ],
)
def test_without_validation_a_wrong_index_is_still_refused_before_the_state_changes(
    index: list[int], targets: list[int], match: str
) -> None:
    loss_fn = make(validate=False)
    before = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(aimfor.InputError, match=match):
        loss_fn(torch.zeros(3), torch.tensor(targets), index=torch.tensor(index))
    assert all(torch.equal(before[key], value) for key, value in loss_fn.state_dict().items())


@pytest.mark.parametrize("surrogate", ["hinge", "squared_hinge", "squared", "logistic"])
def test_scores_keep_their_precision_beside_a_state_of_another(surrogate: str) -> None:
    """Full batch at the start, λ = μ = 0: L = e + Σφ/n + mean relu(ρ(t − g))²/2ρ, with every figure known."""
    scores = torch.randn(8, dtype=torch.float64, requires_grad=True)
    loss = make(surrogate=surrogate, penalty=2.0)(scores, LABELS, index=torch.arange(8))
    g, e = scores[~LABELS.bool()], torch.ones((), dtype=torch.float64)
    phi = {
        "hinge": torch.relu(e + g),
        "squared_hinge": torch.relu(e + g) ** 2,
        "squared": (e + g) ** 2,
        "logistic": torch.log2(1 + torch.exp(g)),
    }[surrogate]
    expected = e + phi.sum() / 3 + (torch.relu(2.0 * (1.0 - scores[LABELS.bool()])) ** 2 / 4.0).sum() / 3
    assert loss.dtype == torch.float64
    torch.testing.assert_close(loss, expected, rtol=1e-13, atol=0)
    (ours,), (theirs,) = torch.autograd.grad(loss, scores), torch.autograd.grad(expected, scores)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_second_derivatives_are_refused_and_a_graph_of_the_first_is_not() -> None:
    scores = torch.randn(8, requires_grad=True)
    loss = make()(scores, LABELS, index=torch.arange(8))
    (once,) = torch.autograd.grad(loss, scores, create_graph=True)
    (plain,) = torch.autograd.grad(make()(scores, LABELS, index=torch.arange(8)), scores)
    assert torch.equal(once, plain)
    with pytest.raises(aimfor.SolverError, match="no second derivative: the lagrangian"):
        once.sum().backward()


def test_a_factor_that_the_gradient_was_asked_for_with_stays_as_it_was() -> None:
    scores, factor = torch.randn(8, requires_grad=True), torch.tensor(2.0)
    (plain,) = torch.autograd.grad(make()(scores, LABELS, index=torch.arange(8)), scores)
    (twice,) = torch.autograd.grad(make()(scores, LABELS, index=torch.arange(8)), scores, factor, create_graph=True)
    assert torch.equal(twice, 2.0 * plain)
    assert not factor.requires_grad


def test_loss_without_a_gradient_to_give_is_a_plain_number() -> None:
    loss = make()(torch.randn(8), LABELS, index=torch.arange(8))
    assert not loss.requires_grad
    assert bool(torch.isfinite(loss))


def test_terms_of_many_calls_are_meaned_as_those_of_few() -> None:
    objective = aimfor.Regularized(nn.MSELoss(), make(), 0.5)
    tasks = torch.rand(2 * RECENT + 5)
    for value in tasks:
        scores = torch.zeros(8, requires_grad=True)
        objective(value.sqrt(), torch.zeros(()), scores, LABELS, index=torch.arange(8))
    assert float(objective.terms["erm"]) == pytest.approx(float(tasks[-1]), rel=1e-5)
    objective.end_epoch()
    assert objective.log[0]["erm"] == pytest.approx(float(tasks.mean()), rel=1e-5)
    mean = objective.log[0]["erm"] + 0.5 * objective.log[0]["metric"]
    assert objective.log[0]["total"] == pytest.approx(mean, rel=1e-5)
