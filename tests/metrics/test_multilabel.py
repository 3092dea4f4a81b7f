"""Several labels at once: scikit-learn, the loss's limit and gradient, thresholds, absent labels, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    recall_score,
    roc_auc_score,
)
from torch import Tensor

import aimfor
from aimfor.metrics import MultiLabel
from aimfor.smooth.form import Softness

ALL = [MultiLabel(name, average) for name in ("f1", "ap", "auroc", "iou") for average in ("macro", "micro", "samples")]
every = pytest.mark.parametrize("metric", ALL, ids=repr)


def data(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.rand(20, 4, generator=generator) < 0.4).long()
    targets[:, 0], targets[:, 1] = 1 - targets[:, 1] % 2, targets[:, 1]
    targets[torch.arange(20), torch.arange(20) % 4] = 1
    targets[torch.arange(20), (torch.arange(20) + 1) % 4] = 0
    return torch.randn(20, 4, generator=generator, dtype=torch.float64), targets


@pytest.mark.parametrize("average", ["macro", "micro", "samples"])
def test_values_are_scikit_learns(average: str) -> None:
    scores, targets = data()
    y, s = targets.numpy(), scores.numpy()
    for name, expected in (
        ("f1", f1_score(y, s > 0, average=average)),
        ("ap", average_precision_score(y, s, average=average)),
        ("auroc", roc_auc_score(y, s, average=average)),
    ):
        assert float(MultiLabel(name, average).value(scores, targets)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("average", ["macro", "micro", "samples"])
@pytest.mark.parametrize("whole", [1, 1.0, None])
def test_the_whole_area_may_be_asked_for_by_its_largest_rate(whole: float | None, average: str) -> None:
    scores, targets = data()
    found = MultiLabel(aimfor.AUROC(max_fpr=whole), average).value(scores, targets)
    assert float(found) == pytest.approx(roc_auc_score(targets.numpy(), scores.numpy(), average=average), abs=1e-12)


def test_weights_are_of_examples() -> None:
    scores, targets = data(1)
    weights = torch.rand(20, dtype=torch.float64)
    found = MultiLabel("f1").value(scores, targets, weights=weights)
    expected = f1_score(targets.numpy(), scores.numpy() > 0, average="macro", sample_weight=weights.numpy())
    assert float(found) == pytest.approx(expected, abs=1e-12)


@every
def test_loss_tends_to_the_metric_and_has_its_gradient(metric: MultiLabel) -> None:
    scores, targets = data(2)
    form = metric.smooth_form(metric.check(scores, targets))
    assert 1 - float(form.loss(Softness(1e-7))[0]) == pytest.approx(float(metric.value(scores, targets)), abs=1e-6)
    leaf = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(metric.smooth_form(metric.check(leaf, targets)).loss(Softness(0.6))[0], leaf)
    for i, j in ((0, 0), (3, 1), (7, 2), (19, 3)):
        step = torch.zeros_like(scores)
        step[i, j] = 1e-5
        up, down = (
            float(metric.smooth_form(metric.check(scores + sign * step, targets)).loss(Softness(0.6))[0])
            for sign in (1, -1)
        )
        assert float(gradient[i, j]) == pytest.approx((up - down) / 2e-5, abs=1e-8)


@every
def test_training_raises_the_metric(metric: MultiLabel) -> None:
    scores, targets = data(3)
    scores.requires_grad_()
    loss_fn = aimfor.MetricLoss(metric)
    before, optimizer = float(metric.value(scores.detach(), targets)), torch.optim.Adam([scores], 0.05)
    for _ in range(100):
        optimizer.zero_grad()
        loss_fn(scores, targets).backward()
        optimizer.step()
    assert float(metric.value(scores.detach(), targets)) > 0.5 + 0.5 * before


@pytest.mark.parametrize("name", ["f1", "ap", "auroc"])
def test_an_absent_label_is_left_out(name: str) -> None:
    scores, targets = data(4)
    targets[:, 2], scores[:, 2] = 0, -1.0
    metric, kept = MultiLabel(name), [0, 1, 3]
    assert torch.equal(metric.value(scores, targets), metric.value(scores[:, kept], targets[:, kept]))
    leaf = scores.clone().requires_grad_()
    output = aimfor.MetricLoss(metric, aimfor.SmoothEngine()).detailed(leaf, targets)
    assert output.status is aimfor.Status.ok
    (gradient,) = torch.autograd.grad(output.loss, leaf)
    assert not gradient[:, 2].any()
    assert gradient[:, kept].any()
    nothing = metric.value(-scores.abs(), torch.zeros_like(targets))
    assert torch.isnan(nothing)


def test_masked_entries_do_not_count() -> None:
    scores, targets = data(5)
    where = torch.rand(20, 4) < 0.7
    spoiled = torch.where(where, scores, torch.nan)
    column = [f1_score(targets[where[:, j], j].numpy(), scores[where[:, j], j].numpy() > 0) for j in range(4)]
    assert float(MultiLabel("f1").value(spoiled, targets, where=where)) == pytest.approx(np.mean(column), abs=1e-12)


def test_thresholds_by_label_are_the_best_of_each() -> None:
    scores, targets = data(6)
    metric = MultiLabel("f1")
    thresholds = metric.decide(scores, targets)
    tuned = MultiLabel("f1", thresholds=tuple(thresholds.tolist()))
    best = [
        max(f1_score(targets[:, j].numpy(), scores[:, j].numpy() >= t) for t in scores[:, j].tolist()) for j in range(4)
    ]
    assert float(tuned.value(scores, targets)) == pytest.approx(np.mean(best), abs=1e-12)
    loss = aimfor.MetricLoss(tuned, aimfor.SmoothEngine(1e-7))(scores, targets)
    assert 1 - float(loss) == pytest.approx(np.mean(best), abs=1e-6)


def test_counts_of_labels_are_remembered() -> None:
    loss_fn = aimfor.MetricLoss(MultiLabel("f1"), aimfor.SmoothEngine(bank=100))
    scores, targets = data(7)
    loss_fn(scores.requires_grad_(), targets).backward()
    leaf = scores.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_fn(leaf, torch.zeros_like(targets)), leaf)
    assert (gradient > 0).all()


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (torch.tensor([0, 1, 2]), "one_hot"),
        (torch.tensor([[0, 1], [1, 2], [0, 0]]), "0 or 1 only"),
        (torch.ones(3, 3), "every label"),
    ],
)
def test_bad_targets_are_named(targets: Tensor, said: str) -> None:
    with pytest.raises(aimfor.InputError, match=said):
        MultiLabel("f1").value(torch.randn(3, 2), targets)


def test_bad_settings_are_named() -> None:
    for arguments, said in (
        (("auc_mu",), "binary decisions"),
        ((aimfor.AUROC(max_fpr=0.1),), "binary decisions"),
        ((aimfor.IoU(average="image"),), "binary decisions"),
        (("f1", "weighted"), "macro"),
        (("ap", "macro", (0.0, 1.0)), "no decisions"),
    ):
        with pytest.raises(aimfor.InputError, match=said):
            MultiLabel(*arguments)  # type: ignore[arg-type]
    with pytest.raises(aimfor.InputError, match="one per label"):
        MultiLabel("f1", thresholds=(0.0,)).value(torch.randn(3, 2), torch.ones(3, 2))
    with pytest.raises(aimfor.InputError, match="decisions"):
        MultiLabel("ap").decide(torch.randn(3, 2), torch.ones(3, 2))


@pytest.mark.parametrize("name", ["f1", "ap", "auroc"])
def test_an_example_of_weight_two_is_two_examples_in_the_mean_over_examples(name: str) -> None:
    scores, targets = data(9)
    targets[:, 0], targets[:, 1] = 1, 0  # every example is defined under every metric
    weights = torch.arange(len(scores)) % 3
    metric, again = MultiLabel(name, "samples"), torch.arange(len(scores)).repeat_interleave(weights)
    expected = float(metric.value(scores[again], targets[again]))
    assert float(metric.value(scores, targets, weights=weights.double())) == pytest.approx(expected, abs=1e-12)
    assert expected != pytest.approx(float(metric.value(scores, targets)), abs=1e-6)
    loss_fn = aimfor.MetricLoss(metric, aimfor.SmoothEngine())
    if name == "auroc":
        with pytest.raises(aimfor.InputError, match="AUROC of examples"):
            loss_fn(scores, targets, weights=weights.double())
        return
    got = loss_fn(scores, targets, weights=weights.double())
    torch.testing.assert_close(got, loss_fn(scores[again], targets[again]), rtol=1e-9, atol=1e-12)


def test_a_threshold_parts_neighbouring_scores() -> None:
    low = np.nextafter(np.float32(1.0), np.float32(2.0))
    scores = torch.tensor([[float(np.nextafter(low, np.float32(2.0)))], [float(low)]])
    targets = torch.tensor([[1], [0]])
    found = MultiLabel("f1").decide(scores, targets)
    assert float(MultiLabel("f1", thresholds=found).value(scores, targets)) == 1.0


@pytest.mark.parametrize("average", ["macro", "samples"])
def test_metrics_that_count_true_negatives_are_means_of_scikit_learns(average: str) -> None:
    scores, targets = data(10)
    y, decided = targets.numpy(), scores.numpy() > 0
    if average == "macro":
        y, decided = y.T, decided.T
    specificity = aimfor.Confusion(lambda tp, fp, fn, tn: tn / (tn + fp), name="specificity")
    for metric, expected in (
        ("accuracy", [accuracy_score(one, two) for one, two in zip(y, decided, strict=True)]),
        ("balanced_accuracy", [balanced_accuracy_score(one, two) for one, two in zip(y, decided, strict=True)]),
        (specificity, [recall_score(one, two, pos_label=0) for one, two in zip(y, decided, strict=True)]),
    ):
        assert float(MultiLabel(metric, average).value(scores, targets)) == pytest.approx(np.mean(expected), abs=1e-12)


@pytest.mark.parametrize("indicator", ["lower", "upper"])
@pytest.mark.parametrize("name", ["f1", "ap", "auroc"])
def test_the_bound_that_is_told_does_not_depend_on_the_share_of_the_anchor(name: str, indicator: str) -> None:
    scores, targets = data(11)
    told = []
    for share in (0.0, 0.4, 1.0):
        engine = aimfor.SmoothEngine(0.8, anchor=share, indicator=indicator)
        told.append(aimfor.MetricLoss(MultiLabel(name), engine).detailed(scores, targets).stats["value"])
    assert told == pytest.approx([told[0]] * 3, abs=1e-12)
    exact = float(MultiLabel(name).value(scores, targets))
    assert told[0] < exact if indicator == "lower" else told[0] > exact


@pytest.mark.parametrize("average", ["macro", "micro", "samples"])
@pytest.mark.parametrize("metric", ["ap", "auroc", "f1"])
def test_two_copies_of_an_example_tie_in_the_ranks_of_a_label_alone(metric: str, average: str) -> None:
    """Not where decisions are counted, and not where an example is a list by itself."""
    assert MultiLabel(metric, average).copies_tie == (metric == "ap" and average != "samples")
