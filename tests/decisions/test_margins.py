"""Fairness recipes, and training with the margin that the certificate will ask for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import aimfor
from aimfor.constraints.counts import Counts, Levels
from aimfor.constraints.inequalities import inequalities_of
from aimfor.decisions.thresholds import _around, cautious_margin, margin_z, tightened
from aimfor.errors import InputError
from aimfor.rates import (
    demographic_parity,
    equal_opportunity,
    equalized_odds,
    fpr,
    positive_rate,
    precision,
    recall,
)


def counts() -> Counts:
    table = np.array([[300.0, 60, 100, 900], [200, 50, 150, 800]])
    return Counts(Levels(("sex",), ((0.0, 1.0),)), table)


def test_recipes_are_the_constraints_they_are_named_for() -> None:
    assert demographic_parity("sex", 0.1) == [positive_rate.gap("sex") <= 0.1]
    assert equal_opportunity("sex", 0.1) == [recall.gap("sex") <= 0.1]
    assert equalized_odds("sex", 0.1) == [recall.gap("sex") <= 0.1, fpr.gap("sex") <= 0.1]
    with pytest.raises(InputError):
        equalized_odds("sex", -0.1)


def test_a_tightened_floor_is_met_when_the_cautious_one_is() -> None:
    (part,) = inequalities_of(precision >= 0.75, counts().levels)
    inner = tightened(part, counts(), held_out=1000, constraints=1)
    sized = counts().times(1000 / counts().total)
    z = margin_z("certify", 0.95, 1, 1)
    assert float(inner.margin(counts())) == pytest.approx(float(cautious_margin(part, sized, z)))
    assert inner.name == part.name  # multipliers stay where they are


def test_more_held_out_data_ask_for_less() -> None:
    (part,) = inequalities_of(precision >= 0.75, counts().levels)
    asked = [part.constant - tightened(part, counts(), n, 1).constant for n in (500, 5000, 50_000)]
    assert asked[0] > asked[1] > asked[2] > 0
    assert tightened(part, counts(), 0, 1) is part


def test_a_gap_is_never_tightened_past_half_of_it() -> None:
    for part in inequalities_of(fpr.gap("sex") <= 0.02, counts().levels):
        assert tightened(part, counts(), 50, 1).constant == pytest.approx(0.01)


def test_a_bound_on_one_rate_is_never_tightened_past_half_of_what_is_left() -> None:
    for constraint, left in ((fpr <= 0.02, 0.02), (recall >= 0.98, 0.02), (precision >= 0.9, 0.1)):
        (part,) = inequalities_of(constraint, counts().levels)
        asked = part.constant - tightened(part, counts(), 20, 1).constant
        assert asked == pytest.approx(0.5 * left)


def test_training_for_a_certificate_raises_the_multiplier_of_a_floor_that_just_holds() -> None:
    scores = torch.cat((torch.ones(76), -torch.ones(24), torch.ones(24), -torch.ones(276)))
    y = torch.arange(400) < 100  # precision 0.76
    plain, careful = (aimfor.maximize(recall, precision >= 0.75, held_out=n) for n in (0, 400))
    for problem in (plain, careful):
        problem(scores, y)
        problem.end_epoch()
    name = "precision >= 0.75"
    assert plain.multipliers[name] < 1.0 < careful.multipliers[name]


def test_a_rate_that_counts_half_is_moved_to_its_own_unfavourable_end() -> None:
    (part,) = inequalities_of(recall - 0.5 * fpr >= 0.3, counts().levels)
    tp, fp, fn, tn = counts().table.sum(0).astype(int).tolist()
    low = stats.binomtest(tp, tp + fn).proportion_ci(0.9, "wilson").low
    high = stats.binomtest(fp, fp + tn).proportion_ci(0.9, "wilson").high
    found = cautious_margin(part, counts(), stats.norm.isf(0.05))
    assert float(found) == pytest.approx(low - 0.5 * high - 0.3, abs=1e-12)


def test_without_a_margin_the_value_itself_counts_and_nothing_measured_is_nothing_known() -> None:
    levels = Levels(("sex",), ((0.0, 1.0),))
    empty = Counts(levels, np.array([[0.0, 0, 100, 900], [0, 0, 150, 800]]))
    for constraint, margin in ((precision >= 0.75, 500 / 610 - 0.75), (precision <= 0.75, 0.75 - 500 / 610)):
        (part,) = inequalities_of(constraint, levels)
        assert float(cautious_margin(part, counts(), 0.0)) == pytest.approx(margin, abs=1e-12)
        assert math.isnan(float(cautious_margin(part, empty, 0.0)))


def test_the_next_grid_reaches_two_steps_to_either_side() -> None:
    pick = np.array([0, 7, 20, 21, 40, 58, 90])
    reached = [_around(pick, spot) for spot in range(7)]
    assert reached == [(0, 20), (0, 21), (0, 40), (7, 58), (20, 90), (21, 90), (40, 90)]
