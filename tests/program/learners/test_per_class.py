"""Batches of so many classes with so many examples each."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import aimfor
from aimfor.learners.networks.sampler import PerClassBatchSampler

LABELS = torch.arange(60) % 9


def test_every_batch_has_its_classes_and_no_example_twice() -> None:
    for batch in PerClassBatchSampler(LABELS, classes=4, per_class=3):
        assert sorted(Counter(LABELS[batch].tolist()).values()) == [3, 3, 3, 3]
        assert len(set(batch)) == 12


def test_all_classes_come_equally_often() -> None:
    sampler = PerClassBatchSampler(LABELS, classes=3, per_class=2)
    seen = Counter(int(LABELS[row]) for _ in range(9) for batch in sampler for row in batch)
    assert len(seen) == 9
    assert max(seen.values()) - min(seen.values()) <= 2 * 9


def test_small_classes_give_what_they_have_and_single_examples_stay_out() -> None:
    sampler = PerClassBatchSampler([0, 0, 1, 1, 1, 1, 2], classes=2, per_class=3)
    (batch, *_) = list(sampler)
    assert sorted(batch)[:2] == [0, 1]
    assert len(batch) == 5
    assert 6 not in batch


def test_ranks_share_the_classes_of_a_step() -> None:
    ranks = [list(PerClassBatchSampler(LABELS, 2, 3, rank=r, world_size=2)) for r in range(2)]
    for first, second in zip(*ranks, strict=True):
        assert not set(LABELS[first].tolist()) & set(LABELS[second].tolist())


def test_resume_gives_the_batch_that_would_have_come() -> None:
    sampler, twin = PerClassBatchSampler(LABELS, 2, 3), PerClassBatchSampler(LABELS, 2, 3)
    whole = list(sampler)
    walk = iter(PerClassBatchSampler(LABELS, 2, 3))
    for _ in range(4):
        next(walk)
    twin.load_state_dict({"epoch": 0, "position": 4, "seed": 0})
    assert list(twin) == whole[4:]
    assert list(sampler) != whole  # the next epoch has an order of its own


def test_bad_settings_are_named() -> None:
    for arguments, said in (
        ({"classes": 1, "per_class": 2}, "classes"),
        ({"classes": 2, "per_class": 1}, "per_class"),
        ({"classes": 10, "per_class": 2}, "at least 10"),
        ({"classes": 2, "per_class": 2, "rank": 1}, "rank"),
    ):
        with pytest.raises(aimfor.InputError, match=said):
            PerClassBatchSampler(LABELS, **arguments)
