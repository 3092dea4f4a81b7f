"""IoU: one mask, classes, images and data sets, against scikit-learn and plain loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

import aimfor
from aimfor import checks
from aimfor.smooth.form import Softness


def loop_table(decided: Any, truth: Any, mass: Any, classes: list[int], by_image: bool) -> list[list[float]]:
    """IoU of each (image, class) from sets of pixels."""
    images = [[i] for i in range(len(truth))] if by_image else [list(range(len(truth)))]
    table = []
    for members in images:
        row = []
        for k in classes:
            both = either = 0.0
            for i in members:
                for d, t, w in zip(decided[i], truth[i], mass[i], strict=True):
                    both += w * (d == k and t == k)
                    either += w * (d == k or t == k)
            row.append(both / either if either else math.nan)
        table.append(row)
    return table


def mean(values: list[float]) -> float:
    kept = [v for v in values if not math.isnan(v)]
    return sum(kept) / len(kept) if kept else math.nan


@st.composite
def images(draw: st.DrawFn, classes: int) -> dict[str, torch.Tensor]:
    """Tied scores of ``(b, c, h, w)``, class ids, pixel weights and a mask."""
    b, h, w = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    g = torch.Generator().manual_seed(draw(st.integers(0, 100_000)))
    return {
        "scores": torch.randint(-2, 3, (b, classes, h, w), generator=g).double(),
        "targets": torch.randint(0, classes, (b, h, w), generator=g),
        "weights": torch.randint(0, 4, (b, h, w), generator=g).double() * 0.7,
        "where": torch.rand(b, h, w, generator=g) < 0.7,
    }


@given(images(classes=3), st.sampled_from(["dataset", "image"]))
def test_classes_equal_a_plain_loop(data: dict[str, torch.Tensor], average: str) -> None:
    table = loop_table(
        data["scores"].argmax(1).flatten(1).tolist(),
        data["targets"].flatten(1).tolist(),
        (data["weights"] * data["where"]).flatten(1).tolist(),
        [0, 1, 2],
        average == "image",
    )
    got = aimfor.IoU(average, "mean").table(**data)
    torch.testing.assert_close(got, torch.tensor(table, dtype=torch.float64), atol=1e-12, rtol=0, equal_nan=True)
    value = float(aimfor.IoU(average, "mean").value(**data))
    assert value == pytest.approx(mean([mean(row) for row in table]), abs=1e-12, nan_ok=True)
    for k in range(3):
        one = float(aimfor.IoU(average, k).value(**data))
        assert one == pytest.approx(mean([row[k] for row in table]), abs=1e-12, nan_ok=True)


@given(images(classes=2), st.sampled_from(["dataset", "image"]), st.sampled_from([-1.0, 0.0, 0.5]))
def test_one_mask_equals_a_plain_loop(data: dict[str, torch.Tensor], average: str, threshold: float) -> None:
    data["scores"] = data["scores"][:, 0]
    table = loop_table(
        (data["scores"] > threshold).long().flatten(1).tolist(),
        data["targets"].flatten(1).tolist(),
        (data["weights"] * data["where"]).flatten(1).tolist(),
        [1],
        average == "image",
    )
    value = float(aimfor.IoU(average, threshold=threshold).value(**data))
    assert value == pytest.approx(mean([row[0] for row in table]), abs=1e-12, nan_ok=True)


def test_values_equal_scikit_learn() -> None:
    scores, targets, weights = torch.randn(4, 5, 8, 8), torch.randint(0, 5, (4, 8, 8)), torch.rand(4, 8, 8).double()
    decided, truth, mass = scores.argmax(1).flatten(1).numpy(), targets.flatten(1).numpy(), weights.flatten(1).numpy()
    scores = scores.double()

    def close(a: torch.Tensor, b: float) -> bool:
        return float(a) == pytest.approx(b, abs=1e-12)

    whole = sk.jaccard_score(truth.ravel(), decided.ravel(), average="macro", sample_weight=mass.ravel())
    assert close(aimfor.IoU(classes="mean").value(scores, targets, weights=weights), whole)
    each = [sk.jaccard_score(truth[i], decided[i], average="macro", sample_weight=mass[i]) for i in range(4)]
    assert close(aimfor.IoU("image", "mean").value(scores, targets, weights=weights), sum(each) / 4)
    mask = targets == 2
    binary = sk.jaccard_score(mask.flatten().numpy(), (scores[:, 0] > 0).flatten().numpy())
    assert close(aimfor.IoU().value(scores[:, 0], mask), binary)


def test_an_image_without_the_object_counts_only_if_it_is_decided_there() -> None:
    masks = torch.tensor([[[1, 1]], [[0, 0]]])
    quiet, alarm = torch.tensor([[[1.0, 1.0]], [[-1.0, -1.0]]]), torch.tensor([[[1.0, 1.0]], [[-1.0, 1.0]]])
    assert float(aimfor.IoU("image").value(quiet, masks)) == 1.0
    assert float(aimfor.IoU("image").value(alarm, masks)) == 0.5
    assert math.isnan(aimfor.IoU("image").value(quiet[1:], masks[1:]))


@pytest.mark.parametrize("average", ["dataset", "image"])
def test_ignored_pixels_may_hold_anything(average: str) -> None:
    scores, targets = torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4))
    where = torch.rand(2, 4, 4) < 0.5
    metric = aimfor.IoU(average, "mean")
    before = metric.value(scores, targets, where=where)
    spoiled = torch.where(where[:, None], scores, torch.full((), math.nan))
    assert torch.equal(metric.value(spoiled, targets.masked_fill(~where, 255), where=where), before)


def test_flat_images_are_rows() -> None:
    scores, targets = torch.randn(3, 20), torch.randint(0, 2, (3, 20))
    shaped = aimfor.IoU("image").value(scores.reshape(3, 4, 5), targets.reshape(3, 4, 5))
    assert torch.equal(aimfor.IoU("image").value(scores, targets), shaped)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"average": "batch"}, "average"),
        ({"classes": "macro"}, "classes"),
        ({"classes": -1}, "classes"),
        ({"classes": 1.5}, "classes"),
        ({"classes": None}, "classes"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(aimfor.InputError, match=argument):
        aimfor.IoU(**options)


def test_the_class_must_be_a_column() -> None:
    scores, targets = torch.randn(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long)
    aimfor.IoU(classes=2).value(scores, targets)
    with pytest.raises(aimfor.InputError, match="0 to 2"):
        aimfor.IoU(classes=3).value(scores, targets)


def test_images_need_a_dimension_of_their_own() -> None:
    with pytest.raises(aimfor.InputError, match="first dimension"):
        aimfor.IoU("image").value(torch.zeros(4), torch.zeros(4))
    with pytest.raises(aimfor.InputError, match="first dimension"):
        aimfor.IoU("image", "mean").value(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long))
    with pytest.raises(aimfor.InputError, match="shape"):
        aimfor.IoU("image").value(torch.zeros(2, 3, 3), torch.zeros(2, 9))


@pytest.mark.parametrize("argument", ["index", "groups"])
def test_masks_carry_no_example_index(argument: str) -> None:
    with pytest.raises(aimfor.InputError, match=argument):
        checks.masks(torch.zeros(2, 3), torch.zeros(2, 3), by_class=False, **{argument: torch.arange(2)})


def test_no_image_at_all_is_undefined() -> None:
    assert math.isnan(aimfor.IoU("image").value(torch.zeros(0, 3, 3), torch.zeros(0, 3, 3)))
    assert math.isnan(
        aimfor.IoU("image", "mean").value(torch.zeros(0, 2, 3, 3), torch.zeros(0, 3, 3, dtype=torch.long))
    )


def test_only_one_mask_over_the_whole_data_set_has_a_program() -> None:
    assert aimfor.IoU("dataset", "binary").no_program() is None
    for average, classes in [("dataset", "mean"), ("dataset", 0), ("dataset", 1), ("image", "binary"), ("image", 1)]:
        assert "dataset" in str(aimfor.IoU(average, classes).no_program())


@pytest.mark.parametrize("classes", ["mean", 1])
def test_a_pixel_of_weight_two_is_two_pixels_when_decisions_are_soft(classes: str | int) -> None:
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(9, 3, generator=generator, dtype=torch.float64)
    targets, times = torch.arange(9) % 3, torch.tensor([1, 2, 3, 2, 1, 1, 3, 1, 2])
    metric = aimfor.IoU("dataset", classes)

    def soft(scores: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None) -> float:
        return float(metric.smooth_form(metric.check(scores, targets, weights=weights)).loss(Softness(0.5, 0.5))[0])

    twice = soft(scores.repeat_interleave(times, 0), targets.repeat_interleave(times), None)
    assert soft(scores, targets, times.double()) == pytest.approx(twice, abs=1e-12)
    assert abs(soft(scores, targets, None) - twice) > 1e-3


def test_the_gradient_for_one_class_does_not_see_what_the_others_are() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 6, 6, generator=generator, dtype=torch.float64).requires_grad_()
    targets = torch.randint(3, (2, 6, 6), generator=generator)
    loss_fn = aimfor.MetricLoss(aimfor.IoU(classes=1), aimfor.DirectEngine(epsilon=1.0))
    exchanged = torch.tensor([2, 1, 0])[targets]
    (one,), (other,) = (torch.autograd.grad(loss_fn(scores, labels), scores) for labels in (targets, exchanged))
    assert torch.equal(one, other)
    assert one.any()


def test_scores_of_classes_are_told_the_name_of_the_mean() -> None:
    with pytest.raises(aimfor.InputError, match="miou"):
        aimfor.MetricLoss("iou")(torch.randn(2, 3, 4, 4), torch.zeros(2, 4, 4).long())
    with pytest.raises(aimfor.InputError, match=r"squeeze\(1\)"):
        aimfor.MetricLoss("iou")(torch.randn(2, 1, 4, 4), torch.zeros(2, 4, 4).long())
