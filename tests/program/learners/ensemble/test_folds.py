"""Folds: every row is held out once, classes and groups stay where they belong, and what differs is said."""

from __future__ import annotations

import pytest
import torch

from aimfor.errors import InputError
from aimfor.targets.folds import ONE_SPLIT_ABOVE, make_folds


def labels(negatives: int, positives: int) -> torch.Tensor:
    y = torch.cat((torch.zeros(negatives), torch.ones(positives))).long()
    return y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))]


def test_every_row_judges_once_and_never_where_it_trains() -> None:
    y = labels(1180, 23)
    folds = make_folds(y, seed=3)
    assert len(folds) == 5
    assert torch.cat(folds.held).sort().values.tolist() == list(range(len(y)))
    for fold, held in enumerate(folds.held):
        assert set(held.tolist()).isdisjoint(folds.train(fold).tolist())
        assert len(held) + len(folds.train(fold)) == len(y)
        assert int(y[held].sum()) in (4, 5)
    assert torch.equal(folds.numbers[folds.held[2]], torch.full_like(folds.held[2], 2))


def test_small_tables_get_ten_folds_and_the_seed_decides() -> None:
    y = labels(300, 60)
    first, again, other = (make_folds(y, seed=seed) for seed in (0, 0, 1))
    assert len(first) == 10
    assert all(torch.equal(a, b) for a, b in zip(first.held, again.held, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.held, other.held, strict=True))


def test_a_class_with_fewer_rows_than_folds_gets_fewer_and_says_so() -> None:
    folds = make_folds(labels(2000, 3), seed=0)
    assert len(folds) == 3
    assert folds.notes == ("3 folds instead of 5: the rarest class has 3 rows",)


def test_rows_of_a_group_stay_together() -> None:
    y, groups = labels(400, 200), torch.arange(600) // 10
    folds = make_folds(y, seed=0, groups=groups, folds=5)
    for fold, held in enumerate(folds.held):
        assert set(groups[held].tolist()).isdisjoint(groups[folds.train(fold)].tolist())


def test_one_split_above_a_size_is_said_aloud() -> None:
    y = labels(ONE_SPLIT_ABOVE, 600)
    folds = make_folds(y, seed=0)
    assert len(folds) == 1
    assert "one split" in folds.notes[0]
    assert len(folds.covered) == pytest.approx(0.2 * len(y), abs=2)
    assert int(y[folds.covered].sum()) == 120
    assert len(make_folds(labels(100, 20), seed=0, single=True)) == 1


@pytest.mark.parametrize(
    ("y", "groups", "text"),
    [
        (torch.zeros(50, dtype=torch.long), None, "one class only"),
        (torch.tensor([0] * 50 + [1]), None, "a class with 1 row"),
        (torch.tensor([0] * 50 + [1] * 9), torch.tensor([0, 1] * 25 + [2] * 9), "a class with 1 group"),
    ],
)
def test_rows_that_cannot_be_folded_are_refused(y: torch.Tensor, groups: torch.Tensor | None, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make_folds(y, seed=0, groups=groups)
