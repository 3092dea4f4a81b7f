"""Positive and unlabelled data: the risk against the labelled one, its gradient, the prior, and the metrics."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import precision_score, recall_score, roc_auc_score
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.positive_unlabelled import estimate_prior, evaluate_pu


def drawn(seed: int, known: int, unknown: int, prior: float, apart: float) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and the truth; positives lie ``apart`` deviations above negatives."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.cat((torch.ones(known), (torch.rand(unknown, generator=draw) < prior).float()))
    scores = torch.randn(known + unknown, generator=draw, dtype=torch.float64) + apart * truth
    return scores, (torch.arange(known + unknown) < known).long(), truth


def by_hand(scores: Tensor, labels: Tensor, prior: float) -> tuple[Tensor, Tensor]:
    up, down = scores[labels == 1], scores[labels == 0]
    positive = prior * functional.binary_cross_entropy_with_logits(up, torch.ones_like(up))
    negative = functional.binary_cross_entropy_with_logits(down, torch.zeros_like(down))
    return positive, negative - prior * functional.binary_cross_entropy_with_logits(up, torch.zeros_like(up))


def test_unbiased_risk_is_that_of_labelled_data_on_average() -> None:
    """For fixed scores the mean over draws tends to the labelled risk; its error by the central limit theorem."""
    prior, found, known = 0.4, [], []
    for seed in range(60):
        scores, labels, truth = drawn(seed, 400, 600, prior, 1.0)
        found.append(float(aimfor.PULoss(prior, "unbiased")(scores, labels)))
        fresh, real = scores[400:], truth[400:].double()
        weight = torch.where(real == 1, prior / real.mean(), (1 - prior) / (1 - real.mean()))
        known.append(
            float((weight * functional.binary_cross_entropy_with_logits(fresh, real, reduction="none")).mean())
        )
    gap = torch.tensor(found) - torch.tensor(known)
    assert abs(float(gap.mean())) < 3 * float(gap.std()) / 60**0.5
    assert abs(float(gap.mean())) < 0.01


@pytest.mark.parametrize("correction", ["non_negative", "unbiased"])
def test_loss_and_gradient_are_the_formula(correction: str) -> None:
    scores, labels, _ = drawn(0, 7, 20, 0.3, 1.0)
    scores.requires_grad_()
    positive, negative = by_hand(scores, labels, 0.3)
    assert negative.item() > 0
    loss = aimfor.PULoss(0.3, correction)(scores, labels)
    torch.testing.assert_close(loss, positive + negative)
    mine, theirs = (torch.autograd.grad(one, scores, retain_graph=True)[0] for one in (loss, positive + negative))
    torch.testing.assert_close(mine, theirs)


def test_a_negative_risk_counts_0_and_is_stepped_back_from() -> None:
    scores = torch.tensor([3.0, 2.0, -4.0, -5.0], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1, 1, 0, 0])
    positive, negative = by_hand(scores, labels, 0.5)
    assert negative.item() < 0
    loss = aimfor.PULoss(0.5)(scores, labels)
    assert loss.item() == pytest.approx(positive.item())
    mine, theirs = torch.autograd.grad(loss, scores)[0], torch.autograd.grad(-negative, scores)[0]
    torch.testing.assert_close(mine, theirs)
    assert aimfor.PULoss(0.5, "unbiased")(scores, labels).item() < loss.item()


def test_weights_are_repetition_and_masks_removal() -> None:
    scores, labels, _ = drawn(1, 5, 9, 0.3, 1.0)
    weights, where = torch.arange(1, 15), torch.arange(14) % 3 > 0
    loss_fn = aimfor.PULoss(0.3)
    often = torch.repeat_interleave(torch.arange(14), weights)
    torch.testing.assert_close(loss_fn(scores, labels, weights=weights.double()), loss_fn(scores[often], labels[often]))
    torch.testing.assert_close(loss_fn(scores, labels, where=where), loss_fn(scores[where], labels[where]))
    torch.testing.assert_close(loss_fn(scores.reshape(2, 7, 1), labels.reshape(2, 7, 1)), loss_fn(scores, labels))


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_kind_is_zero_attached_and_counted(label: int) -> None:
    scores = torch.randn(4, requires_grad=True)
    loss_fn = aimfor.PULoss(0.3)
    loss = loss_fn(scores, torch.full((4,), label))
    loss.backward()
    assert loss.item() == 0.0
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.0] * 4
    assert loss_fn.counts.undefined == 1


def test_training_without_negatives_nears_training_with_them() -> None:
    draw = torch.Generator().manual_seed(0)
    truth = (torch.rand(4000, generator=draw) < 0.3).float()
    x = torch.randn(4000, 5, generator=draw) + truth[:, None] * torch.tensor([1.5, 1.0, 0.0, 0.0, -1.0])
    labels = ((truth == 1) & (torch.rand(4000, generator=draw) < 0.5)).long()
    prior = float(truth[labels == 0].mean())

    def accuracy(loss_fn: object, targets: Tensor) -> float:
        model = torch.nn.Linear(5, 1)
        torch.nn.init.zeros_(model.weight)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(200):
            optimizer.zero_grad()
            loss_fn(model(x).squeeze(1), targets).backward()  # type: ignore[operator]
            optimizer.step()
        return float(((model(x).squeeze(1) > 0) == (truth == 1)).float().mean())

    supervised = accuracy(lambda s, y: functional.binary_cross_entropy_with_logits(s, y), truth)
    naive = accuracy(lambda s, y: functional.binary_cross_entropy_with_logits(s, y.float()), labels)
    ours = accuracy(aimfor.PULoss(prior), labels)
    assert naive < supervised - 0.05 < ours - 0.03


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.8])
def test_prior_is_found_where_positives_stand_alone(prior: float) -> None:
    assert estimate_prior(*drawn(0, 3000, 6000, prior, 4.0)[:2]) == pytest.approx(prior, abs=0.04)


def test_prior_is_overestimated_where_they_never_do() -> None:
    found = [estimate_prior(*drawn(seed, 3000, 6000, 0.3, 0.5)[:2]) for seed in range(5)]
    assert min(found) > 0.5


def test_metrics_without_negatives_are_those_with_them() -> None:
    scores, labels, truth = drawn(3, 4000, 20000, 0.35, 1.5)
    found, fresh = evaluate_pu(scores, labels, 0.35, 0.7), labels == 0
    real, decided = truth[fresh].numpy(), scores[fresh].numpy() > 0.7
    assert found.auroc == pytest.approx(roc_auc_score(real, scores[fresh].numpy()), abs=0.01)
    assert found.recall == pytest.approx(recall_score(real, decided), abs=0.015)
    assert found.precision == pytest.approx(precision_score(real, decided), abs=0.02)
    assert found.precision_at_least <= precision_score(truth.numpy(), scores.numpy() > 0.7)
    assert found.auroc_unlabelled == pytest.approx(0.35 / 2 + 0.65 * found.auroc)
    without = evaluate_pu(scores, labels)
    assert math.isnan(without.auroc)
    assert math.isnan(without.precision)
    assert math.isnan(evaluate_pu(scores, labels, 0.35, 99.0).precision)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, float("nan"), "half", None])
def test_bad_priors_are_one_line(prior: object) -> None:
    with pytest.raises(aimfor.InputError, match="prior") as caught:
        aimfor.PULoss(prior)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_bad_rows_are_named() -> None:
    with pytest.raises(aimfor.InputError, match="no unlabelled row"):
        estimate_prior(torch.randn(3), torch.ones(3))
    with pytest.raises(aimfor.InputError, match="no positive row"):
        evaluate_pu(torch.randn(3), torch.zeros(3))
    with pytest.raises(aimfor.InputError, match="correction"):
        aimfor.PULoss(0.5, "other")
    with pytest.raises(aimfor.InputError, match="targets"):
        aimfor.PULoss(0.5)(torch.randn(3), torch.tensor([1, 0, -1]))


def test_a_risk_of_exactly_0_is_descended() -> None:
    """The last value that is not below 0: softplus(1)/2 of the unlabelled is half that of the positive."""
    scores = torch.tensor([1.0, 1.0, -1e4], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1, 0, 0])
    positive, negative = by_hand(scores, labels, 0.5)
    assert negative.item() == 0.0
    mine = torch.autograd.grad(aimfor.PULoss(0.5)(scores, labels), scores)[0]
    torch.testing.assert_close(mine, torch.autograd.grad(positive + negative, scores)[0])


def test_a_prior_is_always_one_that_the_loss_takes() -> None:
    labels = torch.tensor([1, 1, 0, 0, 0, 0])
    assert estimate_prior(torch.ones(6), labels) == 0.75
    assert estimate_prior(labels.float(), labels) == 0.25


def test_a_score_at_the_threshold_is_decided_negative() -> None:
    found = evaluate_pu(torch.tensor([2.0, 0.5, 1.0, 0.5, 0.0]), torch.tensor([1, 1, 0, 0, 0]), 0.3, 0.5)
    assert (found.recall, found.precision_at_least) == (0.5, 0.5)
    assert found.precision == pytest.approx(0.3 * 0.5 / (1 / 3))
