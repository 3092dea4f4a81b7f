"""Copies of rows in a table: found where somebody copied, not where few values meet by chance."""

from __future__ import annotations

import numpy as np
import pytest

from aimfor.decisions.independence import sets_of_copies


def table(seed: int, n: int = 600, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, d))
    return x, draw.random(n) < 1 / (1 + np.exp(2 - x[:, 0]))


@pytest.mark.parametrize("seed", range(5))
def test_copied_rows_are_found_however_they_were_drawn(seed: int) -> None:
    x, positive = table(seed)
    draw, n = np.random.default_rng(seed), len(x)
    again = {
        "all": np.arange(n),
        "rare class": draw.choice(np.flatnonzero(positive), n // 2),
        "one in twenty": draw.choice(n, n // 20),
        "one": np.array([7]),
    }
    for name, rows in again.items():
        whole, labels = np.concatenate([x, x[rows]]), np.concatenate([positive, positive[rows]])
        sets = sets_of_copies(whole, labels)
        assert sets is not None, name
        assert len(np.unique(sets)) == n
        assert np.array_equal(sets[n:], sets[rows])
        assert np.array_equal(sets[:, None] == sets, (whole[:, None] == whole).all(-1))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("values", "columns"), [(2, 3), (3, 2), (4, 3), (3, 5), (30, 1), (62, 1)])
def test_a_table_of_few_values_has_equal_rows_without_copies(seed: int, values: int, columns: int) -> None:
    draw = np.random.default_rng(seed)
    x = draw.integers(0, values, (1000, columns)).astype(float)
    score = (x - (values - 1) / 2).sum(1) / values
    positive = draw.random(1000) < 1 / (1 + np.exp(-3 * score))
    assert sets_of_copies(x, positive) is None
    assert sets_of_copies(np.concatenate([x, 100 - x], axis=1), positive) is None  # one column twice tells no more


def test_a_rule_that_a_line_explains_needs_no_copies() -> None:
    x = np.random.default_rng(0).integers(0, 2, (1000, 4)).astype(float)
    assert sets_of_copies(x, x.sum(1) > 2) is None


def test_copies_that_contradict_each_other_are_chance() -> None:
    x, _ = table(0)
    assert sets_of_copies(np.tile(x, (2, 1)), np.random.default_rng(1).random(1200) < 0.5) is None


def test_minus_zero_is_zero_and_whole_numbers_are_taken() -> None:
    x, positive = table(0)
    x[:, 0] = 0.0
    sets = sets_of_copies(np.concatenate([x, np.where(x == 0.0, -0.0, x)]), np.tile(positive, 2))
    assert sets is not None
    assert len(np.unique(sets)) == 600
    ranks = x.argsort(0).argsort(0).astype(np.int32)
    assert sets_of_copies(ranks, positive) is None
    assert sets_of_copies(np.tile(ranks, (2, 1)), np.tile(positive, 2)) is not None
