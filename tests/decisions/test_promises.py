"""A promise has a price, counts no copy as evidence, and does not flee to where there is nothing to decide."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import aimfor
from aimfor.decisions.independence import copies
from aimfor.decisions.rows import checked_rows
from aimfor.errors import InputError
from aimfor.rates import accuracy, fpr, parse, precision, recall, tpr


def people(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores that are log-odds, labels (a quarter positive), and two groups of unlike size."""
    generator = torch.Generator().manual_seed(seed)
    group = (torch.rand(n, generator=generator) < 0.35).long()
    scores = 2.2 * torch.randn(n, generator=generator).double() - 1.8 - 0.4 * group
    return scores, torch.rand(n, generator=generator) < scores.sigmoid(), group


@pytest.mark.parametrize("seed", range(4))
def test_a_bounded_gap_is_not_guaranteed_by_deciding_for_nobody(seed: int) -> None:
    scores, targets, group = people(5000, seed)
    problem = aimfor.maximize(accuracy, tpr.gap("g") <= 0.15)
    found = problem.decide(scores, targets, groups={"g": group}, per_group="g", guarantee=0.95)
    if found.threshold is None:
        return
    assert found.guarantee is not None
    price = found.guarantee.price
    assert price is not None
    assert price.nearly == ""
    nobody = 1.0 - float(targets.double().mean())
    assert price.kept > nobody + 0.4 * (price.without - nobody)


def test_everybody_is_called_that_first_with_both_objectives() -> None:
    scores, targets, group = people(2000, 0)
    problem = aimfor.maximize(recall, fpr.gap("g") <= 0.1)
    found = problem.decide(scores, targets, groups={"g": group}, guarantee=0.95)
    assert found.guarantee is not None
    assert found.guarantee.price is not None
    assert found.guarantee.price.nearly == "everybody"
    assert str(found.guarantee).startswith("Nearly everybody: ")
    assert "1 for everybody, 1 without the promise" in str(found.guarantee)


def test_the_price_is_what_the_rows_say_with_and_without_the_promise() -> None:
    scores, targets, _ = people(3000, 1)
    other, calibrate = slice(0, 1000), slice(1000, None)
    problem = aimfor.maximize(recall, precision >= 0.8)
    rows = scores[calibrate], targets[calibrate]
    found = problem.decide(*rows, guarantee=0.95, learn=(scores[other], targets[other]))
    assert found.guarantee is not None
    price = found.guarantee.price
    assert price is not None
    decided, positive = found(rows[0]), rows[1]
    assert price.kept == pytest.approx(float((decided & positive).sum() / positive.sum()))
    best = 0.0  # every threshold, by hand
    for cut in rows[0].tolist():
        above = rows[0] > cut
        hits = float((above & positive).sum())
        if above.any() and hits / float(above.sum()) >= 0.8:
            best = max(best, hits / float(positive.sum()))
    assert price.kept < price.without <= best
    assert price.without > best - 0.03  # among the thresholds that were looked at
    assert price.labels is not None
    assert f"about {price.labels} more labelled rows would halve the difference" in str(found.guarantee)


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_counted_and_named(seed: int) -> None:
    scores, targets, _ = people(300, seed)
    five = checked_rows("scores", scores.repeat(5), targets.repeat(5), None)
    assert copies(five) == 1200
    found = aimfor.maximize(recall, precision >= 0.5).decide(five.scores, five.targets, guarantee=0.95)
    assert found.guarantee is not None
    assert found.guarantee.copies > 0
    assert f"{found.guarantee.copies} of the 1050 rows are copies" in str(found.guarantee)


@pytest.mark.parametrize("digits", [0, 1, 2, 9])
def test_equal_scores_of_independent_rows_are_no_copies(digits: int) -> None:
    for seed in range(10):
        scores, targets, _ = people(1500, seed)
        assert copies(checked_rows("scores", scores.round(decimals=digits), targets, None)) == 0
    leaves = torch.arange(600) % 3  # two pure leaves and one that is mixed
    mixed = torch.rand(600, generator=torch.Generator().manual_seed(0)) < 0.5
    targets = torch.where(leaves == 1, mixed, leaves == 2)
    assert copies(checked_rows("scores", leaves.double(), targets, None)) == 0


def test_missing_labels_are_counted_in_the_rows_that_were_given() -> None:
    scores, targets, _ = people(300, 3)
    problem = aimfor.maximize(recall, precision >= 0.9)
    found = problem.decide(scores, targets, guarantee=0.95)
    assert found.guarantee is not None
    assert (found.threshold, found.guarantee.rows) == (None, 210)
    assert found.guarantee.more is not None
    assert "more labelled rows like the 300 at hand" in str(found.guarantee)


def test_a_strict_inequality_is_told_its_own_direction() -> None:
    with pytest.raises(InputError, match="write >= instead of >"):
        precision > 0.9  # noqa: B015
    with pytest.raises(InputError, match="write <= instead of <"):
        precision < 0.9  # noqa: B015
    with pytest.raises(InputError, match="write >= instead of >"):
        parse("precision > 0.9")
