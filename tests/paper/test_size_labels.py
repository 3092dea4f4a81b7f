"""Size labels as the papers make them."""

from __future__ import annotations

import pytest
import torch

from aimfor import InputError
from paper.experiments.ravi.size_labels import (
    SKY_THRESHOLDS,
    STUFF_THRESHOLDS,
    class_fractions,
    labels_by_mean,
    labels_by_threshold,
    labels_by_vote,
)


def test_mean_splits_a_bimodal_size() -> None:
    sizes = torch.cat((torch.full((50,), 100), torch.full((50,), 400)))
    assert labels_by_mean(sizes).tolist() == [False] * 50 + [True] * 50


def test_threshold_is_inclusive_and_the_sweep_is_the_papers() -> None:
    fractions = torch.tensor([0.6, 0.5999, 0.61])
    assert labels_by_threshold(fractions).tolist() == [True, False, True]
    assert SKY_THRESHOLDS == (0.55, 0.6, 0.65)
    assert STUFF_THRESHOLDS == (0.01, 0.03, 0.05, 0.07, 0.09)
    counts = [int(labels_by_threshold(torch.linspace(0, 1, 101), t).sum()) for t in SKY_THRESHOLDS]
    assert counts == [46, 41, 36]


def test_vote_counts_only_the_classes_present() -> None:
    masks = torch.zeros(3, 10, 10, dtype=torch.int64)
    masks[0, :5] = 1  # two big classes
    masks[1, 0, :2] = 1
    masks[1, 0, 2:4] = 2  # one big, two small
    masks[2, 0, :4] = 1  # one big, one small: a tie
    assert labels_by_vote(class_fractions(masks, 5)).tolist() == [True, False, False]
    assert labels_by_vote(class_fractions(masks, 5), 0.01).tolist() == [True, True, True]


def test_fractions_ignore_what_is_no_class() -> None:
    masks = torch.tensor([[[0, 0], [1, 255]], [[2, 2], [2, 2]]])
    torch.testing.assert_close(class_fractions(masks, 3), torch.tensor([[0.5, 0.25, 0.0], [0.0, 0.0, 1.0]]))


def test_bad_sizes_are_refused() -> None:
    for call in (
        lambda: labels_by_mean(torch.zeros(0)),
        lambda: labels_by_mean(torch.zeros(2, 2)),
        lambda: labels_by_threshold(torch.tensor([float("nan")])),
        lambda: labels_by_vote(torch.zeros(3)),
        lambda: labels_by_vote(torch.zeros(3, 2), 0.0),
        lambda: class_fractions(torch.zeros(2, 3, 3), 2),
        lambda: class_fractions(torch.zeros(2, 3, 3, dtype=torch.int64), 0),
    ):
        with pytest.raises(InputError):
            call()
