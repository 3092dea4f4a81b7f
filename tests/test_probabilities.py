"""Probabilities where raw scores are meant: said once, and `threshold=` is the cure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import aimfor
from aimfor.errors import ProbabilityWarning
from aimfor.watch import BATCHES

DECISIONS = ["f1", "fbeta=2", "iou", "accuracy"]
every_decision = pytest.mark.parametrize("name", DECISIONS)
LABELS = (torch.arange(64) % 3 == 0).long()


def raw(seed: int = 0) -> Tensor:
    return 3.0 * torch.randn(64, generator=torch.Generator().manual_seed(seed))


@every_decision
@pytest.mark.parametrize(
    "make",
    [
        torch.sigmoid,
        lambda s: torch.sigmoid(s[:, None]).squeeze(1),
        lambda s: torch.stack((0 * s, s), 1).softmax(1)[:, 1],
        lambda s: torch.sigmoid(s).double(),
    ],
    ids=["sigmoid", "sigmoid of a column", "softmax", "converted"],
)
def test_a_sigmoid_in_the_graph_is_named_at_once(name: str, make: Callable[[Tensor], Tensor]) -> None:
    loss_fn = aimfor.MetricLoss(name)
    scores = raw().requires_grad_()
    with pytest.warns(ProbabilityWarning, match=r"(sigmoid|softmax).*threshold=0\.5") as record:
        loss_fn(make(scores), LABELS)
    assert record[0].filename == __file__
    loss_fn(make(scores), LABELS)  # once only: a second warning would be an error


@every_decision
def test_values_alone_are_named_after_many_batches(name: str) -> None:
    loss_fn = aimfor.MetricLoss(name)
    batches = [torch.sigmoid(raw(seed)) for seed in range(5)]
    for step in range(BATCHES - 1):
        loss_fn(batches[step % 5], LABELS)
    with pytest.warns(ProbabilityWarning, match=f"{64 * BATCHES} scores"):
        loss_fn(batches[0], LABELS)
    loss_fn(batches[1], LABELS)


@every_decision
def test_one_batch_of_raw_scores_starts_the_count_again(name: str) -> None:
    loss_fn = aimfor.MetricLoss(name)
    for step in range(BATCHES + 20):
        loss_fn(raw() if step == 30 else torch.sigmoid(raw()), LABELS)


@every_decision
def test_value_is_warned_too(name: str) -> None:
    with pytest.warns(ProbabilityWarning, match="threshold"):
        aimfor.metric_from_name(name).value(torch.sigmoid(raw()), LABELS)


@every_decision
def test_threshold_applies_to_loss_and_value_alike(name: str) -> None:
    """A shift by 0.5 is exact here, so probabilities at 0.5 are scores at 0."""
    probabilities = (16 * torch.sigmoid(raw())).round() / 16
    at_half, at_zero = aimfor.MetricLoss(name, threshold=0.5), aimfor.MetricLoss(name)
    assert at_half.metric.threshold == 0.5  # type: ignore[attr-defined]
    one, other = probabilities.clone().requires_grad_(), (probabilities - 0.5).requires_grad_()
    loss, shifted = at_half(one, LABELS), at_zero(other, LABELS)
    assert torch.equal(loss, shifted)
    assert 0.0 < loss.item() < 1.0
    loss.backward()
    shifted.backward()
    assert one.grad is not None
    assert other.grad is not None
    assert one.grad.any()
    torch.testing.assert_close(one.grad, other.grad)
    assert torch.equal(at_half.value(probabilities, LABELS), at_zero.value(probabilities - 0.5, LABELS))


def test_threshold_replaces_that_of_a_given_metric() -> None:
    assert aimfor.MetricLoss(aimfor.FBeta(2.0, threshold=0.1), threshold=0.7).metric == aimfor.FBeta(2.0, 0.7)
    own = aimfor.Confusion(lambda tp, fp, fn, tn: tp / (tp + fn))
    assert aimfor.MetricLoss(own, threshold=0.5).metric.threshold == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["auroc", "ap", "ndcg", "auc_mu", "recall@precision=0.9"])
def test_threshold_of_a_metric_without_one_is_refused(name: str) -> None:
    with pytest.raises(aimfor.InputError, match=r"threshold.*decides nothing"):
        aimfor.MetricLoss(name, threshold=0.5)


@pytest.mark.parametrize("threshold", [float("nan"), "0.5", True])
def test_bad_threshold_is_named(threshold: object) -> None:
    with pytest.raises(aimfor.InputError, match="threshold"):
        aimfor.MetricLoss("f1", threshold=threshold)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["auroc", "ap", "ndcg"])
def test_rankings_take_probabilities_as_they_are(name: str) -> None:
    for seed in range(5):
        aimfor.MetricLoss(name)(torch.sigmoid(raw(seed)).requires_grad_(), LABELS)


@pytest.mark.parametrize("name", ["f1", "accuracy"])
@pytest.mark.parametrize("seed", range(5))
def test_ordinary_training_is_not_warned(name: str, seed: int) -> None:
    """Untrained networks, some with outputs between 0 and 1 at first, at a slow rate: no false alarm."""
    torch.manual_seed(seed)
    x = torch.randn(256, 6)
    y = (x[:, 0] + x[:, 1] > 1.0).long()
    last = nn.Linear(16, 1)
    nn.init.constant_(last.bias, (0.0, 0.4, -2.0, 0.5, 3.0)[seed])
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), last)
    loss_fn, optimizer = aimfor.MetricLoss(name), torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(BATCHES + 20):
        rows = slice(32 * (step % 8), 32 * (step % 8 + 1))
        optimizer.zero_grad()
        loss_fn(model(x[rows]).squeeze(1), y[rows]).backward()
        optimizer.step()
