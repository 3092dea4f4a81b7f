"""One value, one spelling: numbers at the edges of what is whole, times with and without a time of day."""

from __future__ import annotations

import numpy as np
import pytest

from aimfor.spelling import canonical, number_text, time_text

NUMBERS = {1.0: "1", -0.0: "0", 1e21: "1" + "0" * 21, 1e22: "1e+22", 0.5: "0.5", np.inf: "inf", -np.inf: "-inf"}


@pytest.mark.parametrize("value", NUMBERS)
def test_a_number_is_written_as_a_person_does(value: float) -> None:
    assert number_text(value) == NUMBERS[value]
    assert number_text(np.nan) == "nan"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2024-05-01", "2024-05-01"),
        ("2024-05-01T00:00:00", "2024-05-01"),
        ("2024-05-01T10:00:00", "2024-05-01T10:00:00"),
        ("2024-05-01T10:00:00.250", "2024-05-01T10:00:00.25"),
        ("1969-12-31T23:59:59", "1969-12-31T23:59:59"),
    ],
)
def test_a_time_of_day_stands_where_there_is_one(value: str, text: str) -> None:
    assert time_text(np.datetime64(value)) == text


@pytest.mark.parametrize("text", ["2139", "2139.0", "+2139", "02139", "2.139e3"])
def test_one_number_has_one_spelling(text: str) -> None:
    assert canonical(text) == "2139"


@pytest.mark.parametrize("text", ["2024-05-01T12:00:00+02:00", "2024-05-01 10:00", "2024-05-01T10:00:00Z"])
def test_one_moment_has_one_spelling(text: str) -> None:
    assert canonical(text) == canonical("2024-05-01T10:00:00")
