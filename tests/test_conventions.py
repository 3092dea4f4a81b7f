"""PyTorch's conventions: a label to ignore is a mask, a class weight is a weight, no reduction is list by list."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.metrics import MultiLabel

GENERATOR = torch.Generator().manual_seed(0)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def spoil(targets: Tensor, label: int) -> Tensor:
    """Every fifth entry is unlabelled."""
    flat = targets.clone().reshape(-1)
    flat[::5] = label
    return flat.reshape(targets.shape)


CLASSES = torch.arange(40) % 3
BINARY = (torch.arange(40) % 4 == 0).long()
#: metric → scores, targets with a label to ignore, that label
IGNORED: dict[str, tuple[Any, Tensor, Tensor, int]] = {
    "auroc": ("auroc", randn(40), spoil(BINARY, -100), -100),
    "classes": ("f1_macro", randn(40, 3), spoil(CLASSES, -100), -100),
    "masks": (aimfor.IoU(), randn(2, 4, 5), spoil(BINARY.reshape(2, 4, 5), 255), 255),
    "masks in bytes": (aimfor.IoU(), randn(2, 4, 5), spoil(BINARY.reshape(2, 4, 5), 255).to(torch.uint8), 255),
    "masks of classes": (aimfor.IoU(classes="mean"), randn(2, 3, 4, 5), spoil(CLASSES.reshape(2, 4, 5), 255), 255),
    "images": (aimfor.IoU(average="image"), randn(2, 4, 5), spoil(BINARY.reshape(2, 4, 5), 255), 255),
    "lists": ("ndcg@5", randn(4, 10), spoil(CLASSES.reshape(4, 10), -1), -1),
    "labels": (MultiLabel("f1"), randn(10, 4), spoil(BINARY.reshape(10, 4), -1), -1),
}


@pytest.mark.parametrize("case", IGNORED)
def test_an_ignored_label_is_a_mask(case: str) -> None:
    metric, scores, targets, label = IGNORED[case]
    kept = targets.long() != label
    ours, masked = aimfor.MetricLoss(metric, ignore_index=label), aimfor.MetricLoss(metric)
    first, second = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    got, wanted = ours(first, targets), masked(second, targets, where=kept)
    got.backward(), wanted.backward()
    assert got.item() == wanted.item() > 0
    assert torch.equal(first.grad, second.grad)  # type: ignore[arg-type]
    assert torch.equal(ours.value(scores, targets), masked.value(scores, targets, where=kept))
    assert float(ours.value(scores, targets)) > 0


def test_an_ignored_label_is_as_if_it_were_not_there_and_joins_a_mask() -> None:
    scores, targets = randn(40), spoil(BINARY, 255)
    where = torch.arange(40) % 7 != 0
    loss_fn = aimfor.MetricLoss("auroc", ignore_index=255)
    kept = (targets != 255) & where
    alone = aimfor.MetricLoss("auroc")(scores[kept], targets[kept])
    assert float(loss_fn(scores, targets, where=where)) == pytest.approx(float(alone), rel=1e-12)
    wild = scores.masked_fill(targets == 255, float("nan"))
    assert float(loss_fn(wild, targets, where=where)) == pytest.approx(float(alone), rel=1e-12)


def test_a_byte_is_not_mistaken_for_a_negative_label() -> None:
    targets = torch.tensor([156, 1, 0, 1], dtype=torch.uint8)  # −100 in one byte
    with pytest.raises(aimfor.InputError, match="targets: got values"):
        aimfor.MetricLoss("auroc", ignore_index=-100)(torch.randn(4), targets)


def test_class_weights_are_weights_of_their_examples() -> None:
    for metric, scores, targets, weights in (
        ("f1", randn(40), BINARY, [1.0, 3.0]),
        ("ap", randn(40), BINARY, [2.0, 1.0]),
        ("f1_macro", randn(40, 3), CLASSES, [1.0, 0.5, 2.0]),
        (aimfor.IoU(average="image"), randn(2, 4, 5), BINARY.reshape(2, 4, 5), [1.0, 4.0]),
    ):
        given = torch.tensor(weights, dtype=torch.float64)[targets]
        loss_fn, plain = aimfor.MetricLoss(metric, class_weights=weights), aimfor.MetricLoss(metric)
        assert float(loss_fn(scores, targets)) == float(plain(scores, targets, weights=given))
        loss_fn, plain = aimfor.MetricLoss(metric, class_weights=weights), aimfor.MetricLoss(metric)
        other = 1.0 + torch.arange(targets.numel()).reshape(targets.shape) % 3
        assert float(loss_fn(scores, targets, weights=other)) == float(plain(scores, targets, weights=given * other))
        assert torch.equal(loss_fn.value(scores, targets), plain.value(scores, targets))  # judged without weights


def test_accuracy_with_class_weights_is_torchs_weighted_cross_entropy() -> None:
    scores, weights = randn(40, 3), torch.tensor([1.0, 0.5, 4.0], dtype=torch.float64)
    ours = aimfor.MetricLoss("accuracy", class_weights=weights, ignore_index=-100)(scores, spoil(CLASSES, -100))
    theirs = functional.cross_entropy(scores, spoil(CLASSES, -100), weight=weights, ignore_index=-100)
    unweighted = functional.cross_entropy(scores, spoil(CLASSES, -100), ignore_index=-100)
    plain = aimfor.MetricLoss("accuracy", ignore_index=-100)(scores, spoil(CLASSES, -100))
    assert float(ours / plain) == pytest.approx(float(theirs / unweighted), rel=1e-12)


def test_whole_class_weights_are_repetitions() -> None:
    scores = randn(40)
    repeated = torch.arange(40).repeat_interleave(1 + 2 * BINARY)
    for engine in (aimfor.SmoothEngine(), aimfor.DirectEngine()):
        weighted = aimfor.MetricLoss("f1", engine, class_weights=[1, 3])(scores, BINARY)
        assert float(weighted) == pytest.approx(
            float(aimfor.MetricLoss("f1", engine)(scores[repeated], BINARY[repeated]))
        )


def test_class_weights_move_with_the_loss_and_are_no_state() -> None:
    loss_fn = aimfor.MetricLoss("f1", aimfor.SmoothEngine(), class_weights=[1.0, 2.0])
    assert loss_fn.state_dict() == aimfor.MetricLoss("f1", aimfor.SmoothEngine()).state_dict()
    assert loss_fn.to("meta").class_weights.device.type == "meta"  # type: ignore[union-attr]


LISTS = [
    ("ndcg@5", aimfor.DirectEngine(epsilon=0.5)),
    ("ap", aimfor.SmoothEngine(anchor=0.5)),
    ("ap", aimfor.DirectEngine(epsilon=0.5, sign=1)),
    ("r_precision", aimfor.SmoothEngine(0.3)),
]


@pytest.mark.parametrize(("name", "engine"), LISTS, ids=str)
def test_without_reduction_each_list_has_its_own_loss(name: str, engine: aimfor.Engine) -> None:
    grades = CLASSES.reshape(4, 10) if "ndcg" in name else BINARY.reshape(4, 10)
    grades = grades.clone()
    grades[2] = 0  # nothing to find
    scores = randn(4, 10).requires_grad_()
    each = aimfor.MetricLoss(name, engine, reduction="none")
    losses = each.detailed(scores, grades)
    assert losses.loss.shape == (4,)
    assert losses.stats["undefined_rows"] == 1
    assert losses.loss[2] == 0
    mean = aimfor.MetricLoss(name, engine)
    for i in (0, 1, 3):
        assert losses.loss[i].item() == pytest.approx(mean(scores[i : i + 1], grades[i : i + 1]).item(), rel=1e-9)
    defined = losses.loss[[0, 1, 3]].mean()
    assert defined.item() == pytest.approx(mean(scores, grades).item(), rel=1e-6)
    (ours,), (whole,) = torch.autograd.grad(defined, scores), torch.autograd.grad(mean(scores, grades), scores)
    torch.testing.assert_close(ours, whole, rtol=1e-6, atol=1e-9)
    doubled = each(scores, grades, weights=torch.tensor([1.0, 2.0, 1.0, 0.0]))
    torch.testing.assert_close(doubled, losses.loss * torch.tensor([1.0, 2.0, 1.0, 0.0]))


@pytest.mark.filterwarnings("ignore::aimfor.DegenerateBatchWarning")
def test_without_reduction_lists_may_be_ragged_images_and_none_at_all() -> None:
    each = aimfor.MetricLoss("ndcg", reduction="none")
    losses = each(randn(6), torch.tensor([2, 0, 1, 0, 1, 0]), groups=torch.tensor([7, 7, 9, 9, 9, 4]))
    assert losses.shape == (3,)
    assert losses[0] == 0  # group 4 has no relevant row
    images = aimfor.MetricLoss(aimfor.IoU(average="image"), reduction="none")
    assert images(randn(2, 4, 5), BINARY.reshape(2, 4, 5)).shape == (2,)
    empty = each(randn(0, 5).requires_grad_(), torch.zeros(0, 5))
    assert empty.shape == (0,)
    assert empty.requires_grad


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a reduction that is none": ({"metric": "ap", "reduction": "sum"}, "reduction: got 'sum'"),
    "one number of a batch": ({"metric": "auroc", "reduction": "none"}, "one number of the whole batch"),
    "an engine that remembers": (
        {"metric": "ap", "engine": aimfor.SmoothEngine(bank=8), "reduction": "none"},
        "remembers nothing",
    ),
    "half a label": ({"metric": "f1", "ignore_index": 0.5}, "ignore_index: got 0.5"),
    "one weight": ({"metric": "f1", "class_weights": [2.0]}, "[1.0, weight]"),
    "words": ({"metric": "f1", "class_weights": "balanced"}, "class_weights: got 'balanced'"),
    "a negative weight": ({"metric": "f1", "class_weights": [1.0, -1.0]}, ">= 0"),
    "nothing but zeros": ({"metric": "f1", "class_weights": [0.0, 0.0]}, "above 0"),
    "grades": ({"metric": "ndcg", "class_weights": [1.0, 2.0]}, "no weights of single labels"),
    "duals": (
        {"metric": "f1", "engine": aimfor.LagrangianEngine(BINARY), "class_weights": [1.0, 2.0]},
        "takes no weights",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_is_refused_at_construction(case: str) -> None:
    arguments, words = REFUSED[case]
    with pytest.raises(aimfor.InputError) as caught:
        aimfor.MetricLoss(**arguments)
    assert words in str(caught.value)


def test_what_does_not_fit_the_batch_is_refused() -> None:
    with pytest.raises(aimfor.InputError, match="one for each of 3 classes"):
        aimfor.MetricLoss("f1_macro", class_weights=[1.0, 2.0])(randn(40, 3), CLASSES)
    with pytest.raises(aimfor.InputError, match="one for each list, beside class weights"):
        aimfor.MetricLoss("ap", class_weights=[1.0, 2.0])(randn(4, 10), BINARY.reshape(4, 10), weights=torch.ones(4))
    with pytest.raises(aimfor.InputError, match=r"inside torch\.func"):
        torch.func.grad(lambda s: aimfor.MetricLoss("ap", reduction="none")(s, BINARY.reshape(4, 10)).sum())(
            randn(4, 10)
        )
