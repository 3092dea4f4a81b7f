"""The score bank: small batches ranked against the recent past."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import aimfor


def batch(seed: int, n: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.rand(n, generator=generator) < 0.4
    targets[0], targets[1] = True, False
    return torch.randn(n, generator=generator, dtype=torch.float64), targets


def expected_loss(scores: Tensor, targets: Tensor, old_scores: Tensor, old_targets: Tensor) -> Tensor:
    """Brute force: squared hinge over every pair with at least one member in the batch."""
    every = torch.cat((scores, old_scores))
    positive = torch.cat((targets, old_targets))
    terms = [
        (1 - (every[i] - every[j])).relu() ** 2
        for i in positive.nonzero().squeeze(1)
        for j in (~positive).nonzero().squeeze(1)
        if i < scores.numel() or j < scores.numel()
    ]
    return torch.stack(terms).mean()


def test_batch_is_ranked_against_the_bank_and_gradient_reaches_the_batch_only() -> None:
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    old_scores, old_targets = batch(1)
    loss_fn(old_scores.clone().requires_grad_(), old_targets)
    scores, targets = batch(2)
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    loss = loss_fn(ours, targets)
    expected = expected_loss(theirs, targets, old_scores, old_targets)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


def test_bank_keeps_the_last_scores_in_a_ring() -> None:
    engine = aimfor.SortedEngine(bank=8)
    loss_fn = aimfor.MetricLoss("auroc", engine)
    pushed = []
    for seed in range(4):
        scores, targets = batch(seed)
        loss_fn(scores.clone().requires_grad_(), targets)
        pushed.append(scores)
    assert engine.bank is not None
    assert set(engine.bank.scores.tolist()) == set(torch.cat(pushed)[-8:].tolist())


def test_an_example_is_not_compared_with_its_own_stale_copy() -> None:
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    old_scores, old_targets = batch(1)
    index = torch.arange(6) + 10
    loss_fn(old_scores.clone().requires_grad_(), old_targets, index=index)
    scores, targets = batch(2)
    again = torch.tensor([10, 11, 12, 100, 101, 102])
    fresh_only = ~torch.isin(index, again)
    loss = loss_fn(scores.clone().requires_grad_(), targets, index=again)
    torch.testing.assert_close(loss, expected_loss(scores, targets, old_scores[fresh_only], old_targets[fresh_only]))


def test_a_batch_of_one_class_learns_from_the_bank() -> None:
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    old_scores, old_targets = batch(1)
    loss_fn(old_scores.clone().requires_grad_(), old_targets)
    scores = torch.randn(3, dtype=torch.float64, requires_grad=True)
    output = loss_fn.detailed(scores, torch.zeros(3))
    assert output.status is aimfor.Status.ok
    output.loss.backward()
    assert scores.grad is not None
    assert (scores.grad > 0).any()


@pytest.mark.parametrize("mode", ["eval", "no_grad"])
def test_evaluation_neither_uses_nor_fills_the_bank(mode: str) -> None:
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    loss_fn(batch(1)[0].requires_grad_(), batch(1)[1])
    before = copy.deepcopy(loss_fn.state_dict())
    scores, targets = batch(2)
    if mode == "eval":
        loss = loss_fn.eval()(scores, targets)
    else:
        with torch.no_grad():
            loss = loss_fn(scores, targets)
    assert torch.equal(loss, aimfor.MetricLoss("auroc")(scores, targets))
    assert all(torch.equal(before[key], value) for key, value in loss_fn.state_dict().items())


def test_resume_from_state_dict_equals_uninterrupted() -> None:
    def run(loss_fn: aimfor.MetricLoss, seeds: range) -> list[float]:
        return [float(loss_fn(batch(seed)[0].requires_grad_(), batch(seed)[1]).detach()) for seed in seeds]

    whole = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=10))
    expected = run(whole, range(6))
    first = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=10))
    run(first, range(3))
    second = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=10))
    second.load_state_dict(first.state_dict())
    assert run(second, range(3, 6)) == expected[3:]
    run(first, range(7, 9))
    assert not torch.equal(first.state_dict()["engine.bank.scores"], second.state_dict()["engine.bank.scores"])


def test_a_bank_of_another_size_is_refused_by_name() -> None:
    small = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=4))
    small(batch(0)[0].requires_grad_(), batch(0)[1])
    with pytest.raises(aimfor.InputError, match="size 4"):
        aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=5)).load_state_dict(small.state_dict())


def test_weights_and_masks_go_into_the_bank() -> None:
    scores, targets = batch(1)
    where = torch.tensor([True, True, True, False, True, False])
    masked = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    masked(scores.clone().requires_grad_(), targets, where=where)
    removed = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    removed(scores[where].clone().requires_grad_(), targets[where])
    new_scores, new_targets = batch(2)
    torch.testing.assert_close(
        masked(new_scores.clone().requires_grad_(), new_targets),
        removed(new_scores.clone().requires_grad_(), new_targets),
    )


def test_bank_is_moved_and_cast_with_the_module_and_copied_apart() -> None:
    loss_fn = aimfor.MetricLoss("auroc", aimfor.SortedEngine(bank=6))
    loss_fn(batch(1)[0].requires_grad_(), batch(1)[1])
    twin = copy.deepcopy(loss_fn)
    twin(batch(2)[0].requires_grad_(), batch(2)[1])
    assert not torch.equal(twin.engine.bank.scores, loss_fn.engine.bank.scores)
    assert loss_fn.to(torch.float32).engine.bank.scores.dtype == torch.float32


ENGINES = {
    "auroc": lambda: aimfor.SortedEngine(bank=6),
    "f1": lambda: None,  # whose default remembers counts
    "ap": lambda: aimfor.SmoothEngine(bank=6),
    "iou": lambda: aimfor.SmoothEngine(aimfor.schedule.Decay(2.0, 0.1, 3)),  # whose temperature counts the steps
}


@pytest.mark.parametrize("metric", ENGINES)
def test_memory_is_part_of_a_full_compiled_graph(metric: str) -> None:
    torch._dynamo.reset()
    eager, compiled = (aimfor.MetricLoss(metric, ENGINES[metric]()) for _ in range(2))
    run = torch.compile(lambda s, t: 2 * compiled(3 * s, t), backend="aot_eager", fullgraph=True)
    for seed in range(3):
        scores, targets = batch(seed)
        twins = [scores.clone().requires_grad_() for _ in range(2)]
        with torch.no_grad():  # looking is not learning
            torch.testing.assert_close(run(twins[1], targets), 2 * eager(3 * twins[0], targets))
        got, expected = run(twins[1], targets), 2 * eager(3 * twins[0], targets)
        got.backward()
        expected.backward()
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(twins[1].grad, twins[0].grad)
    states = [dict(one.engine.named_buffers()) for one in (eager, compiled)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(bool(one.any()) for one in states[1].values())


def test_two_equal_calls_in_one_graph_are_two_batches() -> None:
    torch._dynamo.reset()
    eager, compiled = (aimfor.MetricLoss("f1") for _ in range(2))
    scores, targets = batch(0)
    run = torch.compile(lambda s, t: compiled(s, t) + compiled(s, t), backend="aot_eager", fullgraph=True)
    got = run(scores.clone().requires_grad_(), targets)
    leaf = scores.clone().requires_grad_()
    torch.testing.assert_close(got, eager(leaf, targets) + eager(leaf, targets))
    assert torch.equal(compiled.engine.counts, eager.engine.counts)
