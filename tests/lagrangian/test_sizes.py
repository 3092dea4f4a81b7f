"""Size labels as the papers make them."""

from __future__ import annotations

import pytest
import torch

from aimfor import InputError
from aimfor.lagrangian import class_fractions, size_labels


def test_mean_splits_a_bimodal_size() -> None:
    sizes = torch.cat((torch.full((50,), 100), torch.full((50,), 400)))
    assert size_labels(sizes).tolist() == [False] * 50 + [True] * 50


def test_threshold_is_inclusive_and_the_sweep_is_the_papers() -> None:
    fractions = torch.tensor([0.6, 0.5999, 0.61])
    assert size_labels(fractions, 0.6).tolist() == [True, False, True]
    counts = [int(size_labels(torch.linspace(0, 1, 101), t).sum()) for t in (0.55, 0.6, 0.65)]
    assert counts == [46, 41, 36]


def test_vote_counts_only_the_classes_present() -> None:
    masks = torch.zeros(3, 10, 10, dtype=torch.int64)
    masks[0, :5] = 1  # two big classes
    masks[1, 0, :2] = 1
    masks[1, 0, 2:4] = 2  # one big, two small
    masks[2, 0, :4] = 1  # one big, one small: a tie
    assert size_labels(class_fractions(masks, 5)).tolist() == [True, False, False]
    assert size_labels(class_fractions(masks, 5), 0.01).tolist() == [True, True, True]


def test_fractions_ignore_what_is_no_class() -> None:
    masks = torch.tensor([[[0, 0], [1, 255]], [[2, 2], [2, 2]]])
    torch.testing.assert_close(class_fractions(masks, 3), torch.tensor([[0.5, 0.25, 0.0], [0.0, 0.0, 1.0]]))


@pytest.mark.parametrize(
    ("sizes", "threshold", "argument"),
    [
        (torch.zeros(0), None, "sizes"),
        (torch.zeros(2, 2, 2), None, "sizes"),
        (torch.tensor([float("nan")]), 0.5, "sizes"),
        ([1.0, 2.0], None, "sizes"),
        (torch.zeros(3, 2), 0.0, "threshold"),
        (torch.zeros(3), float("nan"), "threshold"),
    ],
)
def test_bad_sizes_are_refused(sizes: object, threshold: float | None, argument: str) -> None:
    with pytest.raises(InputError) as caught:
        size_labels(sizes, threshold)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_bad_masks_are_refused() -> None:
    for masks, classes in ((torch.zeros(2, 3, 3), 2), (torch.zeros(2, 3, 3, dtype=torch.int64), 0)):
        with pytest.raises(InputError):
            class_fractions(masks, classes)
