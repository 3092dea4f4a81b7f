"""The smooth engine: temperatures, banks, state, degenerate batches and bad input."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.learners.networks.losses import loss_on_logits
from aimfor.metrics import PrecisionAtK
from aimfor.schedule import Decay
from aimfor.smooth import QUICK


def batch(seed: int, n: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.rand(n, generator=generator) < 0.4
    targets[0], targets[1] = True, False
    return torch.randn(n, generator=generator, dtype=torch.float64), targets


def gradient(loss_fn: aimfor.MetricLoss, scores: Tensor, targets: Tensor) -> Tensor:
    leaf = scores.clone().requires_grad_()
    return torch.autograd.grad(loss_fn(leaf, targets), leaf)[0]


@pytest.mark.parametrize("metric", ["f1", "iou", "f1_macro"])
def test_a_batch_larger_than_the_bank_is_counted_alone(metric: str) -> None:
    """It is the set, or near it: older counts beside it would blur its gradient."""
    generator = torch.Generator().manual_seed(3)
    classes = 3 if metric == "f1_macro" else 1
    scores = torch.randn(2049, classes, generator=generator, dtype=torch.float64).squeeze(1)
    targets = torch.randint(max(2, classes), (2049,), generator=generator)
    loss_fn = aimfor.MetricLoss(metric)
    alone = aimfor.MetricLoss(metric, loss_fn.engine.for_one_batch())
    older = scores - 3.0 if classes == 1 else scores - torch.tensor([3.0, 0.0, 0.0])
    gradient(loss_fn, older, targets)
    assert torch.equal(gradient(loss_fn, scores, targets), gradient(alone, scores, targets))
    gradient(loss_fn, older[:-1], targets[:-1])
    smaller = gradient(loss_fn, scores[:-1], targets[:-1]), gradient(alone, scores[:-1], targets[:-1])
    assert (smaller[0] - smaller[1]).norm() > 0.05 * smaller[1].norm()


@pytest.mark.parametrize("name", ["f1", "ap", "auroc", "recall@precision=0.9"])
def test_relative_temperature_does_not_see_the_scale(name: str) -> None:
    scores, targets = batch(0)
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(0.5, relative=True))
    torch.testing.assert_close(loss_fn(scores, targets), loss_fn(100.0 * scores, targets))
    assert loss_fn(scores, targets) != aimfor.MetricLoss(name, aimfor.SmoothEngine(0.4, relative=True))(scores, targets)


def test_schedule_moves_with_training_steps_only_and_is_saved() -> None:
    scores, targets = batch(0)
    scores.requires_grad_()
    loss_fn = aimfor.MetricLoss("f1", aimfor.SmoothEngine(Decay(1.0, 0.01, 2)))
    seen = [loss_fn.detailed(scores, targets).stats["temperature"] for _ in range(4)]
    assert seen == pytest.approx([1.0, 0.1, 0.01, 0.01])
    twin = aimfor.MetricLoss("f1", aimfor.SmoothEngine(Decay(1.0, 0.01, 2)))
    twin.load_state_dict(loss_fn.state_dict())
    assert twin.eval().detailed(scores, targets).stats["temperature"] == pytest.approx(0.01)
    before = loss_fn.eval().state_dict()["engine.step"].clone()
    loss_fn(scores, targets)
    assert torch.equal(loss_fn.state_dict()["engine.step"], before)


def test_counts_of_recent_batches_join_this_one() -> None:
    first, second = batch(1), batch(2)
    loss_fn = aimfor.MetricLoss("f1", aimfor.SmoothEngine(bank=1000))
    gradient(loss_fn, *first)
    leaf = second[0].clone().requires_grad_()
    output = loss_fn.detailed(leaf, second[1])
    # The first batch has faded by the share of the bank that the second takes: 8 of 1,000.
    soft = torch.sigmoid(torch.cat((first[0], second[0])))
    targets = torch.cat((first[1], second[1])).double()
    fade = torch.tensor([1.0] * 16, dtype=torch.float64)
    tp, decided, positives = ((fade * part).sum() for part in (soft * targets, soft, targets))
    assert output.stats["value"] == pytest.approx(float(2 * tp / (decided + positives)), abs=1e-12)
    both = torch.cat((first[0], second[0])).requires_grad_()
    alone = aimfor.MetricLoss("f1", aimfor.SmoothEngine())(both, torch.cat((first[1], second[1])))
    (whole,) = torch.autograd.grad(alone, both)
    (own,) = torch.autograd.grad(output.loss, leaf)
    torch.testing.assert_close(own, 2.0 * whole[8:])  # the batch is half of what was counted


@pytest.mark.parametrize("name", ["f1", "iou", "ap", "auroc", "accuracy"])
def test_a_batch_without_positives_has_a_gradient_with_a_bank(name: str) -> None:
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(bank=100))
    gradient(loss_fn, *batch(3))
    scores, _ = batch(4)
    found = gradient(loss_fn, scores, torch.zeros(8, dtype=torch.bool))
    assert (found > 0).all()  # every negative is to fall


def test_bank_of_scores_is_one_list_with_the_batch() -> None:
    first, second = batch(1), batch(2)
    loss_fn = aimfor.MetricLoss("ap", aimfor.SmoothEngine(0.5, bank=8))
    gradient(loss_fn, *first)
    leaf = second[0].clone().requires_grad_()
    output = loss_fn.detailed(leaf, second[1])
    both = torch.cat((second[0], first[0]))
    both.requires_grad_()
    alone = aimfor.MetricLoss("ap", aimfor.SmoothEngine(0.5))(both, torch.cat((second[1], first[1])))
    torch.testing.assert_close(output.loss, alone)
    output.loss.backward()
    alone.backward()
    assert both.grad is not None
    torch.testing.assert_close(leaf.grad, 16 / 8 * both.grad[:8])  # 8 of 16 examples move the metric half as far


@pytest.mark.parametrize("name", ["f1", "ap"])
def test_resume_equals_an_uninterrupted_run(name: str) -> None:
    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(bank=20, anchor=0.2))
    for seed in range(3):
        gradient(loss_fn, *batch(seed))
    twin = aimfor.MetricLoss(name, aimfor.SmoothEngine(bank=20, anchor=0.2))
    twin.load_state_dict(copy.deepcopy(loss_fn.state_dict()))
    scores, targets = batch(9)
    assert torch.equal(gradient(twin, scores, targets), gradient(loss_fn, scores, targets))
    fresh = aimfor.MetricLoss(name, aimfor.SmoothEngine(bank=20, anchor=0.2))
    assert not torch.equal(gradient(fresh, scores, targets), gradient(twin, scores, targets))


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (40, 41), (41, 40)])  # few rows of counts, and many
@pytest.mark.parametrize("name", ["macro_f1", "pairwise_f1", "miou"])
def test_counts_of_another_number_of_classes_are_refused(name: str, before: int, after: int) -> None:
    def classes(c: int) -> tuple[Tensor, Tensor]:
        return torch.randn(2 * c, c, dtype=torch.float64, generator=torch.Generator().manual_seed(c)), torch.arange(
            2 * c
        ) % c

    loss_fn = aimfor.MetricLoss(name, aimfor.SmoothEngine(lambda step: 1.0, bank=1000))
    gradient(loss_fn, *classes(before))
    state = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(aimfor.InputError, match=r"rows of counts, .* as in the bank\. Make a new loss"):
        gradient(loss_fn, *classes(after))
    assert all(torch.equal(state[key], value) for key, value in loss_fn.state_dict().items())
    assert loss_fn.counts.batches == 1
    gradient(loss_fn, *classes(before))


def test_evaluation_neither_reads_nor_fills_the_bank() -> None:
    loss_fn = aimfor.MetricLoss("f1", aimfor.SmoothEngine(bank=20))
    gradient(loss_fn, *batch(0))
    before = copy.deepcopy(loss_fn.state_dict())
    scores, targets = batch(1)
    loss_fn.eval()
    expected = aimfor.MetricLoss("f1", aimfor.SmoothEngine())(scores, targets)
    torch.testing.assert_close(loss_fn(scores, targets), expected)
    assert all(torch.equal(before[key], value) for key, value in loss_fn.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"anchor": 1.5}, "anchor"),
        ({"anchor": -0.1}, "anchor"),
        ({"anchor_temperature": 0.0}, "anchor_temperature"),
        ({"anchor_temperature": "cold"}, "anchor_temperature"),
        ({"bank": -1}, "bank"),
        ({"bank": 2.5}, "bank"),
        ({"relative": "yes"}, "relative"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(aimfor.InputError, match=said):
        aimfor.SmoothEngine(**arguments)  # type: ignore[arg-type]


def test_the_temperature_of_the_anchor_is_shown_and_kept() -> None:
    engine = aimfor.SmoothEngine(anchor=0.5, anchor_temperature=0.25)
    assert "anchor_temperature=0.25" in repr(engine)
    assert "anchor_temperature" not in repr(aimfor.SmoothEngine(anchor=0.5))
    alone = engine.for_one_batch()
    assert isinstance(alone, aimfor.SmoothEngine)
    assert alone.anchor_temperature == 0.25


@pytest.mark.parametrize("name", ["f1", "iou", "ap", "multilabel_f1", "tpr@fpr=0.1", "auprc@10", "auroc"])
def test_on_logits_a_default_is_what_it_is_on_the_small_scores_of_a_new_network(name: str) -> None:
    """Through 25 batches, so that counts, thresholds and multipliers keep step too."""
    small, large = aimfor.MetricLoss(name), aimfor.MetricLoss(name, aimfor.MetricLoss(name).engine.for_logits())
    scale = {"auroc": 1.0, "ap": 2 * QUICK}.get(name, QUICK)
    for seed in range(25):
        scores, targets = batch(seed, 24)
        if name.startswith("multilabel"):
            scores, targets = scores.view(8, 3), targets.view(8, 3)
        leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        one, two = small(scale * leaf, targets), large(other, targets)
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(*torch.autograd.grad((one, two), (leaf, other)), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("name", "engine"), [("ndcg@10", "direct"), ("auc_mu", "sorted"), ("map@r", "smooth")])
def test_a_trained_model_has_the_engine_that_was_best_for_it(name: str, engine: str) -> None:
    metric = aimfor.MetricLoss(name).metric
    assert aimfor.MetricLoss(name).engine.name == "smooth"
    assert metric.engine_for_logits().name == loss_on_logits(metric).engine.name == engine


def test_schedule_that_ends_at_zero_is_refused() -> None:
    scores, targets = batch(0)
    with pytest.raises(aimfor.InputError, match="temperature"):
        aimfor.MetricLoss("f1", aimfor.SmoothEngine(lambda step: 0.0))(scores, targets)


def test_a_bank_of_whole_lists_is_refused() -> None:
    with pytest.raises(aimfor.UnsupportedPairError, match="bank"):
        aimfor.MetricLoss(PrecisionAtK(2), aimfor.SmoothEngine(bank=10))
    loss_fn = aimfor.MetricLoss("ap", aimfor.SmoothEngine(bank=10))
    with pytest.raises(aimfor.InputError, match="2 lists"):
        loss_fn(torch.randn(2, 3), torch.ones(2, 3))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("name", ["f1", "ap", "auroc", "ndcg@10", "recall@precision=0.9", "accuracy"])
@pytest.mark.parametrize("relative", [False, True])
def test_extreme_scores_stay_finite(name: str, scale: float, relative: bool) -> None:
    scores, targets = batch(5)
    scores = (scale * (scores / scores.abs().max())).float().requires_grad_()
    loss = aimfor.MetricLoss(name, aimfor.SmoothEngine(0.5, relative=relative, anchor=0.5))(scores, targets)
    assert torch.isfinite(loss)
    (found,) = torch.autograd.grad(loss, scores)
    assert torch.isfinite(found).all()


def perfect_masks(classes: int, there: int) -> tuple[Tensor, Tensor]:
    targets = torch.arange(2 * 8 * 8).reshape(2, 8, 8) % there
    return 40.0 * functional.one_hot(targets, classes).movedim(-1, 1).double(), targets


@pytest.mark.parametrize("classes", [3, 21, 40])
@pytest.mark.parametrize(
    "metric", [aimfor.IoU(classes="mean"), aimfor.IoU("image", "mean"), aimfor.metrics.ClassFBeta()], ids=repr
)
def test_classes_that_a_batch_lacks_are_no_part_of_the_soft_mean(metric: aimfor.Metric, classes: int) -> None:
    """Perfect on two of the classes is the loss of value 1, and imperfect is what two classes alone would have."""
    scores, targets = perfect_masks(classes, there=2)
    assert float(metric.value(scores, targets)) == 1.0
    for loss_fn in (aimfor.MetricLoss(metric), aimfor.MetricLoss(metric, aimfor.SmoothEngine())):
        assert float(loss_fn(scores, targets)) == pytest.approx(0.0, abs=1e-9)
    scores[:, 2:] = -40.0  # nobody decides for the others, and the two are undecided
    scores[:, :2] *= 0.01
    found = float(aimfor.MetricLoss(metric, aimfor.SmoothEngine())(scores, targets))
    assert found == pytest.approx(float(aimfor.MetricLoss(metric, aimfor.SmoothEngine())(scores[:, :2], targets)))
    assert found > 0.1


def test_images_without_the_object_are_no_part_of_the_soft_mean_over_images() -> None:
    scores, targets = torch.full((3, 4, 4), -40.0).double(), torch.zeros(3, 4, 4).long()
    scores[0, 0], targets[0, 0] = 40.0, 1
    metric = aimfor.IoU(average="image")
    assert float(metric.value(scores, targets)) == 1.0
    assert float(aimfor.MetricLoss(metric, aimfor.SmoothEngine())(scores, targets)) == pytest.approx(0.0, abs=1e-9)


def test_a_class_of_the_past_has_its_part_in_the_soft_mean() -> None:
    metric, engine = aimfor.IoU(classes="mean"), aimfor.SmoothEngine(bank=10**6)
    loss_fn = aimfor.MetricLoss(metric, engine)
    wrong, third = perfect_masks(3, there=3)
    loss_fn(-wrong.requires_grad_(), third)
    scores, targets = perfect_masks(3, there=2)
    assert float(loss_fn(scores.requires_grad_(), targets).detach()) > 0.5


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 1, 8, 8), (4, 3, 8, 8)])
def test_a_bank_of_masks_counts_pictures(shape: tuple[int, ...]) -> None:
    """Four pictures replace half of what a bank of eight holds, and so do 256 rows in a bank of 512."""
    by_class = shape[1] == 3
    loss_fn = aimfor.MetricLoss(aimfor.IoU(classes="mean" if by_class else "binary"), aimfor.SmoothEngine(bank=8))
    targets = torch.arange(256).reshape(4, 8, 8) % (3 if by_class else 2)
    for step in range(1, 4):
        loss_fn(torch.zeros(shape, requires_grad=True), targets.reshape(4, *shape[1:]) if not by_class else targets)
        held = 256 * sum(0.5**k for k in range(step))
        assert float(loss_fn.engine.counts.sum(0).max()) == pytest.approx(held)
    many = aimfor.MetricLoss("iou", aimfor.SmoothEngine(bank=2048))
    for _ in range(100):
        many(torch.zeros(2, 5, 5, requires_grad=True), torch.arange(50).reshape(2, 5, 5) % 2)
    assert float(many.engine.counts.sum()) == pytest.approx(8 * 50, rel=1e-4)  # batches, however few pictures they have
    rows = aimfor.MetricLoss("f1", aimfor.SmoothEngine(bank=512))
    for _ in range(2):
        rows(torch.zeros(256, 1, requires_grad=True), targets.reshape(-1) % 2)
    assert float(rows.engine.counts.sum()) == pytest.approx(256 * 1.5)


def test_an_engine_remembers_nothing_without_a_bank_or_a_schedule() -> None:
    cold = Decay(1.0, 0.1, 10)
    engines = aimfor.SmoothEngine(), aimfor.SmoothEngine(bank=8), aimfor.SmoothEngine(cold)
    assert [engine.stateless for engine in engines] == [True, False, False]
    assert [engine.for_one_batch() is None for engine in engines] == [False, False, True]
