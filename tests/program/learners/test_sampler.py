"""The balanced sampler: what every batch, epoch and rank must satisfy."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from aimfor.errors import InputError
from aimfor.learners.networks.sampler import BalancedBatchSampler

LABELS = torch.tensor([0] * 90 + [1] * 10)


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    extra=st.integers(0, 20),
    world=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_no_example_twice_in_a_batch_and_shares_as_equal_as_sizes_allow(
    sizes: list[int], extra: int, world: int, seed: int
) -> None:
    labels = torch.cat([torch.full((size,), i) for i, size in enumerate(sizes)])
    sampler = BalancedBatchSampler(labels, len(sizes) + extra, seed=seed, world_size=world)
    for batch in sampler:
        assert len(set(batch)) == len(batch)
        counts = [Counter(labels[batch].tolist())[i] for i in range(len(sizes))]
        full = [count for count, size in zip(counts, sizes, strict=True) if count < max(1, size // world)]
        assert min(counts) >= 1
        assert not full or max(counts) - min(full) <= 1 + len(sizes)


def test_deterministic_in_seed_and_epoch() -> None:
    def batches(seed: int, epoch: int) -> list[list[int]]:
        sampler = BalancedBatchSampler(LABELS, 8, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert batches(1, 2) == batches(1, 2)
    assert batches(1, 2) != batches(1, 3)
    assert batches(1, 2) != batches(2, 2)


def test_every_minority_example_comes_equally_often() -> None:
    sampler = BalancedBatchSampler(LABELS, 8)
    seen = Counter(i for batch in sampler for i in batch if i >= 90)
    assert len(seen) == 10
    assert max(seen.values()) - min(seen.values()) <= 1


def test_ranks_are_disjoint_and_together_one_global_batch() -> None:
    samplers = [BalancedBatchSampler(LABELS, 8, rank=rank, world_size=2) for rank in range(2)]
    assert len(samplers[0]) == len(samplers[1])
    for first, second in zip(*samplers, strict=True):
        assert not set(first) & set(second)
        assert len(first) == len(second) == 8


def test_resume_in_the_middle_of_an_epoch_gives_the_rest_and_then_the_next_epoch() -> None:
    whole = BalancedBatchSampler(LABELS, 8)
    wanted = [*whole, *whole]  # two epochs: the second follows by itself
    part = BalancedBatchSampler(LABELS, 8)
    stream = iter(part)
    start = [next(stream) for _ in range(5)]
    again = BalancedBatchSampler(LABELS, 8)
    again.load_state_dict(part.state_dict())
    assert [*start, *again, *again] == wanted


def test_works_in_a_data_loader_with_workers_ahead() -> None:
    data = TensorDataset(torch.arange(100), LABELS)
    sampler = BalancedBatchSampler(LABELS, 8)
    loader = DataLoader(data, batch_sampler=sampler)
    rows = [x.tolist() for x, _ in loader]
    assert rows == list(BalancedBatchSampler(LABELS, 8))
    assert BalancedBatchSampler(LABELS, 8).state_dict(consumed=3)["position"] == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"labels": [], "batch_size": 4}, "labels"),
        ({"labels": [0, 1, 2], "batch_size": 2}, "batch_size"),
        ({"labels": [0, 1], "batch_size": 2, "rank": 2, "world_size": 2}, "rank"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InputError) as caught:
        BalancedBatchSampler(**arguments)  # type: ignore[arg-type]
    assert caught.value.argument == named


def test_a_state_of_another_seed_is_refused() -> None:
    state = BalancedBatchSampler(LABELS, 8, seed=1).state_dict()
    with pytest.raises(InputError, match="seed 1"):
        BalancedBatchSampler(LABELS, 8, seed=2).load_state_dict(state)
