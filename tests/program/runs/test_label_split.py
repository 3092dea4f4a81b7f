"""Several labels: every label has its share of the test pictures, the rare ones too."""

from __future__ import annotations

import numpy as np
import pytest

from aimfor.targets.folds import stratified


@pytest.mark.parametrize("seed", range(40))
def test_rare_labels_are_in_both_parts(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.random((300, 4)) < [0.5, 0.3, 0.1, 0.0]
    labels[random.choice(300, 8, replace=False), 3] = True
    test = stratified(labels, 0.2, random)
    assert int(test.sum()) in range(59, 62)
    assert int(labels[test, 3].sum()) in (1, 2)  # 8 × 0.2 = 1.6
    np.testing.assert_allclose(labels[test].sum(0), 0.2 * labels.sum(0), atol=3)


def test_the_seed_decides_and_rows_without_labels_are_dealt_too() -> None:
    labels = np.zeros((50, 2), dtype=bool)
    first, again, other = (stratified(labels, 0.2, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.sum() == 10
    assert (first == again).all()
    assert (first != other).any()
