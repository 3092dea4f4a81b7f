"""Gradients of every pair and every default, by finite differences; second derivatives are right, or refused."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.engine import Engine
from aimfor.errors import refusal
from aimfor.metrics import ENGINES, METRICS, metric_from_name
from aimfor.smooth import Ranking
from samples import Sample, sample

NAMES = [entry.example for entry in METRICS]
READY: list[type[Engine] | None] = [engine for engine in ENGINES if engine.default_constructible]
#: None is the metric's own default.
CASES = [
    (name, engine)
    for name in NAMES
    for engine in [*READY, None]
    if engine is None or engine().refuses(metric_from_name(name)) is None
]
every_case = pytest.mark.parametrize(
    ("name", "engine"), CASES, ids=lambda v: v if isinstance(v, str) else "default" if v is None else v.name
)


def loss_of(name: str, engine: type[Engine] | None) -> aimfor.MetricLoss:
    return aimfor.MetricLoss(name, None if engine is None else engine()).eval()


def held(loss_fn: aimfor.MetricLoss, s: Sample) -> tuple[str, ...]:
    return loss_fn.engine.holds(loss_fn.metric, loss_fn.metric.check(s.scores, s.targets))


def gradient(loss_fn: aimfor.MetricLoss, scores: Tensor, s: Sample) -> Tensor:
    leaf = scores.clone().requires_grad_()
    return torch.autograd.grad(loss_fn(leaf, s.targets, weights=s.weights), leaf)[0]


def differences(loss_fn: aimfor.MetricLoss, s: Sample, step: float = 1e-5) -> Tensor:
    """Central differences of the printed loss."""
    steps = step * torch.eye(s.scores.numel(), dtype=s.scores.dtype).view(-1, *s.scores.shape)
    with torch.no_grad():
        up, down = (
            torch.stack([loss_fn(s.scores + sign * one, s.targets, weights=s.weights) for one in steps])
            for sign in (1, -1)
        )
    return (up - down).view_as(s.scores) / (2 * step)


#: Where a number comes from that backward may take as constant, and what `Engine.holds` calls it.
FROZEN = [(Ranking, "relative", "the width of the cut"), (aimfor.SmoothEngine, "_softness", "the scores' spread")]


def first_answer(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which goes on saying what it said first."""
    kept: list[Any] = []

    def answer(*arguments: Any) -> Any:
        if not kept:
            kept.append(method(*arguments))
        return kept[0]

    return answer


@every_case
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_backward_is_the_gradient_of_the_printed_loss_but_for_what_is_declared_constant(
    name: str, engine: type[Engine] | None, seed: int, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = sample(metric_from_name(name).layout, seed=seed, ties=False)
    loss_fn = loss_of(name, engine)
    if not weighted or not loss_fn.engine.takes_weights:
        s = Sample(s.layout, s.scores, s.targets)
    constant = held(loss_fn, s)
    for owner, method, said in FROZEN:
        if said in constant:
            monkeypatch.setattr(owner, method, first_answer(getattr(owner, method)))
    found = gradient(loss_fn, s.scores, s)
    if loss_fn.engine.name == "direct":  # its loss is a step function: tests/direct asks Song's theorem instead
        assert constant
        return
    expected = differences(loss_fn, s)
    if "the anchor's prices" in constant:  # downhill, and not quite the steepest way
        assert (found * expected).sum() > 0.9 * found.norm() * expected.norm()
    else:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("form", ["closed", "program"])
@pytest.mark.parametrize(
    "metric",
    [
        *(aimfor.metrics.metric_from_name(name) for name in ("accuracy", "f1", "iou", "fbeta=2")),
        aimfor.CountRatio((1, 0, 0, 0), (1, 1, 0, 0)),  # precision: nothing constant below
        aimfor.CountRatio((1, 0, 0, 2), (1, 2, 1, 2)),  # true negatives above and below
        aimfor.CountRatio((0, 0, 0, 1), (0, 1, 0, 1)),  # specificity
    ],
    ids=repr,
)
def test_a_bound_has_its_own_gradient_where_that_of_true_positives_is_negative(
    metric: aimfor.CountRatio, form: str
) -> None:
    loss_fn = aimfor.MetricLoss(metric, aimfor.LPEngine(form)).eval()
    for seed in range(4):
        s = sample("binary", seed, n=8, ties=False)
        below = Sample("binary", s.scores - 2.0 * s.targets, s.targets)
        found = gradient(loss_fn, below.scores, below)
        torch.testing.assert_close(found, differences(loss_fn, below), rtol=1e-5, atol=1e-7)


def test_accuracy_by_its_bound_learns_from_false_positives_too() -> None:
    scores = torch.tensor([-1.0, 0.5], requires_grad=True)
    aimfor.MetricLoss("accuracy", aimfor.LPEngine())(scores, torch.tensor([1, 0])).backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == [-0.5, 0.5]


@every_case
def test_second_derivatives_are_right_or_refused(name: str, engine: type[Engine] | None) -> None:
    s = sample(metric_from_name(name).layout, seed=1, ties=False)
    s = Sample(s.layout, s.scores, s.targets)
    loss_fn = loss_of(name, engine)

    def loss(scores: Tensor) -> Tensor:
        return loss_fn(scores, s.targets)

    leaf = s.scores.clone().requires_grad_()
    (recorded,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    assert torch.equal(recorded, gradient(loss_fn, s.scores, s))  # recorded or not, it is the same gradient
    refused = refusal(lambda: torch.autograd.functional.hessian(loss, s.scores), aimfor.SolverError)
    if refused is not None:
        assert "no second derivative: " in refused
        assert loss_fn.engine.name in ("direct", "rates") or engine is None or held(loss_fn, s)
        penalty = loss(leaf) + recorded.square().sum()
        with pytest.raises(aimfor.SolverError, match="no second derivative"):
            penalty.backward()
        return
    assert not held(loss_fn, s)
    hessian = torch.autograd.functional.hessian(loss, s.scores).reshape(leaf.numel(), -1)
    steps = 1e-5 * torch.eye(leaf.numel(), dtype=leaf.dtype).view(-1, *leaf.shape)
    rows = [gradient(loss_fn, s.scores + one, s) - gradient(loss_fn, s.scores - one, s) for one in steps]
    torch.testing.assert_close(hessian, torch.stack(rows).reshape(hessian.shape) / 2e-5, rtol=1e-5, atol=1e-8)
    (through,) = torch.autograd.grad(recorded.square().sum(), leaf)
    torch.testing.assert_close(through.reshape(-1), 2.0 * hessian @ recorded.detach().reshape(-1))


@pytest.mark.parametrize("surrogate", ["squared_hinge", "squared", "hinge", "ramp", "logistic"])
def test_every_surrogate_of_pairs_has_its_second_derivative(surrogate: str) -> None:
    s = sample("binary", seed=1, ties=False)
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(surrogate))
    hessian = torch.autograd.functional.hessian(lambda x: loss_fn(x, s.targets, weights=s.weights), s.scores)
    steps = 1e-6 * torch.eye(len(hessian), dtype=torch.float64)
    rows = [gradient(loss_fn, s.scores + one, s) - gradient(loss_fn, s.scores - one, s) for one in steps]
    torch.testing.assert_close(hessian, torch.stack(rows) / 2e-6, rtol=1e-5, atol=1e-8)


def test_an_optimum_and_a_retrieval_loss_refuse_a_second_derivative() -> None:
    c = torch.tensor([-1.0, -1.0], dtype=torch.float64, requires_grad=True)
    A, b = torch.tensor([[1.0, 2.0], [3.0, 1.0]]).double(), torch.tensor([4.0, 6.0]).double()
    embeddings = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    losses = {
        c: aimfor.lp.solve(c, A, b, lower=0.0).value.sum(),
        embeddings: aimfor.RetrievalLoss()(embeddings, torch.arange(8) % 2),
    }
    for leaf, loss in losses.items():
        (recorded,) = torch.autograd.grad(loss, leaf, create_graph=True)
        with pytest.raises(aimfor.SolverError, match="no second derivative"):
            torch.autograd.grad(recorded.square().sum(), leaf, allow_unused=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, at its first tangent
@every_case
def test_functional_tangents_are_right_and_functional_second_derivatives_refused(
    name: str, engine: type[Engine] | None
) -> None:
    s = sample(metric_from_name(name).layout, seed=1, ties=False)
    loss_fn = loss_of(name, engine)
    expected = gradient(loss_fn, s.scores, Sample(s.layout, s.scores, s.targets))

    def loss(scores: Tensor) -> Tensor:
        return loss_fn(scores, s.targets)

    torch.testing.assert_close(torch.func.jacfwd(loss)(s.scores), expected)
    _, tangent = torch.func.jvp(loss, (s.scores,), (s.scores,))
    torch.testing.assert_close(tangent, (expected * s.scores).sum())
    for twice in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.grad(f))):
        with pytest.raises(aimfor.SolverError, match=r"no second derivative: inside torch\.func"):
            twice(loss)(s.scores)


@every_case
def test_in_training_too_vmap_equals_its_slices_and_leaves_the_state_alone(
    name: str, engine: type[Engine] | None
) -> None:
    batches = [sample(metric_from_name(name).layout, seed=seed, ties=False) for seed in range(3)]
    loss_fn = loss_of(name, engine).train()
    first = batches[0]
    loss_fn(first.scores.clone().requires_grad_(), first.targets)  # something to remember
    before = copy.deepcopy(loss_fn.state_dict())
    scores, targets = torch.stack([s.scores for s in batches]), torch.stack([s.targets for s in batches])
    together = torch.func.vmap(loss_fn)(scores, targets)
    after = loss_fn.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    slices = [copy.deepcopy(loss_fn).eval()(s.scores, s.targets) for s in batches]
    torch.testing.assert_close(together, torch.stack(slices))


@every_case
def test_new_tensors_follow_the_scores_device_and_not_the_default_one(name: str, engine: type[Engine] | None) -> None:
    s = sample(metric_from_name(name).layout, seed=1, ties=False)
    here, there = (aimfor.MetricLoss(name, None if engine is None else engine()) for _ in range(2))
    expected = [gradient(here, s.scores, s) if here.engine.takes_weights else None for _ in range(2)]
    if expected[0] is None:
        return
    with torch.device("meta"):
        for one in expected:
            assert one is not None
            assert torch.equal(gradient(there, s.scores, s), one)


@every_case
def test_steps_leave_nothing_behind(name: str, engine: type[Engine] | None) -> None:
    s = sample(metric_from_name(name).layout, seed=1, ties=False)
    s = Sample(s.layout, s.scores, s.targets)
    loss_fn = loss_of(name, engine).train()

    def tensors(steps: int) -> int:
        for _ in range(steps):
            gradient(loss_fn, s.scores, s)
        gc.collect()
        return sum(issubclass(type(one), Tensor) for one in gc.get_objects())

    first = tensors(12)
    assert tensors(40) <= first  # fewer is what others in this process gave back meanwhile
