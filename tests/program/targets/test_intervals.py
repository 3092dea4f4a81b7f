"""Percentile intervals: draws in which the number is undefined."""

from __future__ import annotations

import math

import pytest
from torch import Tensor

from aimfor.targets.intervals import bootstrap_interval


@pytest.mark.parametrize(("undefined", "told"), [(5, True), (6, False)])
def test_more_than_half_of_the_draws_must_be_defined(undefined: int, told: bool) -> None:
    """Of every ten draws so many are undefined; the others are 1 to 10."""
    drawn = iter(range(1000))

    def value(rows: Tensor) -> float:
        number = next(drawn)
        return math.nan if number % 10 < undefined else 1.0 + number % 10

    found = bootstrap_interval(value, 50, draws=100)
    assert found == (pytest.approx((6.0, 10.0)) if told else None)
