"""Batches that teach nothing: one rule for all metrics, counted, and said aloud with the numbers."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.engine import Engine
from aimfor.metrics import ENGINES, METRICS, CountRatio, metric_from_name
from aimfor.watch import AFTER
from samples import sample

NEEDS_POSITIVES = [
    (name, engine)
    for name in (entry.example for entry in METRICS)
    for engine in ENGINES
    if metric_from_name(name).layout in ("binary", "lists") and name != "accuracy"
    if engine.default_constructible and engine().refuses(metric_from_name(name)) is None
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aimfor.DegenerateBatchWarning)
        yield


def learn(loss_fn: aimfor.MetricLoss, scores: Tensor, targets: Tensor) -> tuple[aimfor.EngineOutput, Tensor]:
    leaf = scores.clone().requires_grad_()
    output = loss_fn.detailed(leaf, targets)
    (gradient,) = torch.autograd.grad(output.loss, leaf)
    return output, gradient


@pytest.mark.parametrize(("name", "engine"), NEEDS_POSITIVES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_a_batch_without_positives_is_undefined_for_every_metric_that_needs_them(
    name: str, engine: type[Engine]
) -> None:
    s = sample(metric_from_name(name).layout, ties=False)
    loss_fn = aimfor.MetricLoss(name, engine())
    output, gradient = learn(loss_fn, s.scores, torch.zeros_like(s.targets))
    assert output.status is aimfor.Status.undefined_batch
    assert output.loss == 0
    assert not gradient.any()
    assert (loss_fn.counts.batches, loss_fn.counts.undefined) == (1, 1)
    assert output.stats["undefined_batches"] == 1
    output, _ = learn(loss_fn, s.scores, s.targets)
    assert output.status is aimfor.Status.ok
    assert (output.stats["batches"], output.stats["undefined_batches"]) == (2, 1)


@pytest.mark.parametrize(
    "metric",
    [
        aimfor.Accuracy(),
        aimfor.Confusion(lambda tp, fp, fn, tn: tn / (tn + fp), name="specificity"),
        CountRatio((1, 0, 0, 1), (1, 2, 1, 1)),
    ],
    ids=repr,
)
def test_metrics_that_negatives_alone_can_change_learn_from_them(metric: aimfor.Metric) -> None:
    scores = torch.linspace(-1.0, 1.0, 16)
    output, gradient = learn(aimfor.MetricLoss(metric), scores, torch.zeros(16))
    assert output.status is aimfor.Status.ok
    assert output.loss > 0
    assert gradient.any()


@pytest.mark.parametrize(
    "metric", [aimfor.IoU(average="image"), aimfor.IoU(classes=2), aimfor.IoU(average="image", classes=2)], ids=repr
)
def test_masks_without_the_object_are_undefined(metric: aimfor.IoU) -> None:
    shape = (2, 3, 4, 4) if metric.classes == 2 else (2, 4, 4)
    scores = torch.randn(shape)
    output, gradient = learn(aimfor.MetricLoss(metric), scores, torch.zeros(2, 4, 4, dtype=torch.int64))
    assert output.status is aimfor.Status.undefined_batch
    assert not gradient.any()


def test_zero_gradients_are_counted() -> None:
    scores, targets = torch.tensor([3.0, -1.0, 2.0, -2.0]), torch.tensor([0, 1, 1, 0])
    stuck, awake = (aimfor.MetricLoss("f1", aimfor.DirectEngine(epsilon)) for epsilon in (1e-4, 10.0))
    output, gradient = learn(stuck, scores, targets)
    assert output.loss > 0
    assert not gradient.any()
    assert output.stats["zero_gradient"] is True
    assert output.stats["zero_gradient_batches"] == stuck.counts.zero_gradient == 1
    output, gradient = learn(awake, scores, targets)
    assert gradient.any()
    assert awake.counts.zero_gradient == 0
    output, _ = learn(stuck, 4.0 * targets - 2.0, targets)
    assert output.loss == 0
    assert stuck.counts.zero_gradient == 1  # nothing left to learn is no failure


def test_evaluation_is_not_counted_and_state_dict_has_no_counts() -> None:
    loss_fn = aimfor.MetricLoss("auroc")
    loss_fn.eval()
    loss_fn(torch.randn(8), torch.zeros(8))
    assert loss_fn.counts.batches == 0
    loss_fn.train()
    loss_fn(torch.randn(8), torch.zeros(8))
    assert loss_fn.state_dict() == {}
    for twin in (copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
        assert twin.counts == loss_fn.counts
        twin(torch.randn(8), torch.zeros(8))
        assert (twin.counts.undefined, loss_fn.counts.undefined) == (2, 1)


def test_counts_go_on_in_a_compiled_program() -> None:
    loss_fn = aimfor.MetricLoss("auroc")
    compiled = torch.compile(lambda s, t: loss_fn(s * 2.0, t), backend="aot_eager", fullgraph=True)
    scores = torch.randn(8, requires_grad=True)
    compiled(scores, torch.zeros(8)).backward()
    compiled(scores, (torch.arange(8) < 3).float()).backward()
    assert (loss_fn.counts.batches, loss_fn.counts.undefined) == (2, 1)


def test_many_degenerate_batches_are_hinted_at_once_with_numbers() -> None:
    loss_fn = aimfor.MetricLoss("auroc")
    some, none = (torch.arange(8) < 2).float(), torch.zeros(8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2 * AFTER):
            loss_fn(torch.randn(8), none if step % 5 else some)
    hints = [str(one.message) for one in caught if "taught nothing" in str(one.message)]
    assert len(hints) == 1
    assert f"{AFTER * 4 // 5} of {AFTER} batches (80%)" in hints[0]
    assert "21 times as large" in hints[0]  # 0.8^21 < 0.01 <= 0.8^20
    assert "bank=4096" in hints[0]
    assert "BalancedBatchSampler" in hints[0]
    assert caught[-1].filename == __file__


def test_many_zero_gradients_are_hinted_at_once_with_numbers() -> None:
    loss_fn = aimfor.MetricLoss("f1", aimfor.DirectEngine(1e-6))
    targets = (torch.arange(16) % 2).float()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2 * AFTER):
            loss_fn(torch.randn(16, requires_grad=True), targets)
    hints = [str(one.message) for one in caught]
    assert len(hints) == 1
    assert f"{AFTER} of {AFTER} batches had a loss but a gradient of exactly 0" in hints[0]


def test_rare_degenerate_batches_are_not_hinted_at() -> None:
    loss_fn = aimfor.MetricLoss("auroc")
    loss_fn(torch.randn(8), torch.zeros(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2 * AFTER):
            loss_fn(torch.randn(8), (torch.arange(8) < 2).float())


@pytest.mark.parametrize(("name", "taker"), [("f1", "LPEngine"), ("iou", "LPEngine"), ("ap", None)])
def test_fractional_weights_name_an_engine_that_takes_them(name: str, taker: str | None) -> None:
    s = sample(metric_from_name(name).layout, ties=False)
    weights = torch.full_like(s.scores, 0.7)
    with pytest.raises(aimfor.InputError, match="weights") as caught:
        aimfor.MetricLoss(name, aimfor.DirectEngine())(s.scores, s.targets, weights=weights)
    takers = [engine for engine in ENGINES if f"{engine.__name__}" in caught.value.remedy]
    if taker is not None:
        assert taker in [engine.__name__ for engine in takers]
    if not takers:
        assert "No engine takes other weights" in caught.value.remedy
    for engine in takers:
        assert torch.isfinite(aimfor.MetricLoss(name, engine())(s.scores, s.targets, weights=weights))
        doubled = aimfor.MetricLoss(name, engine())(s.scores, s.targets, weights=2 * weights)
        torch.testing.assert_close(doubled, aimfor.MetricLoss(name, engine())(s.scores, s.targets))


def test_advice_for_soft_labels_works() -> None:
    soft = torch.tensor([0.9, 0.1, 0.6, 0.0])
    scores = torch.randn(4)
    with pytest.raises(aimfor.InputError, match="bernoulli"):
        aimfor.MetricLoss("f1")(scores, soft)
    for labels in (soft > 0.5, torch.bernoulli(soft)):
        assert torch.isfinite(aimfor.MetricLoss("f1")(scores, labels))


def test_evaluation_is_not_counted_by_a_loss_outside_the_model() -> None:
    loss_fn = aimfor.MetricLoss("f1")
    s = sample("binary")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", aimfor.DegenerateBatchWarning)
        for _ in range(2 * AFTER):
            loss_fn(s.scores, torch.zeros_like(s.targets))
    assert loss_fn.counts.batches == 0
    loss_fn(s.scores.clone().requires_grad_(), s.targets)
    assert loss_fn.counts.batches == 1


def test_structured_losses_count_their_batches() -> None:
    loss_fn = aimfor.direct.StructuredLoss(
        score=lambda x, y: x.gather(1, y[:, None]).squeeze(1),
        argmax=lambda x: x.argmax(1),
        loss_augmented_argmax=lambda x, y, e: x.argmax(1),
        loss=lambda y, z: (y != z).float(),
    )
    x, y = torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([1])
    output = loss_fn.detailed(x, y)
    with torch.no_grad():
        loss_fn(x, y)
    assert (loss_fn.counts.batches, output.stats["batches"]) == (1, 1)
