"""The thousand recorded answers; see `recorded`."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch

_spec = importlib.util.spec_from_file_location("recorded", Path(__file__).with_name("recorded.py"))
assert _spec is not None
assert _spec.loader is not None
recorded = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)

ANSWERS = json.loads(recorded.FILE.read_text())
PART = 100


def same(one: object, other: object) -> bool:
    """Equal, numbers (which are written as text) to ten digits."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-10)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return one == other


@pytest.mark.parametrize("first", range(0, recorded.CASES, PART))
def test_answers_are_those_on_record(first: int) -> None:
    found = {case: json.loads(json.dumps(recorded.answer(case))) for case in range(first, first + PART)}
    assert [case for case in found if not same(found[case], ANSWERS[case])] == []


def test_tensors_get_the_answers_of_arrays() -> None:
    found = [json.loads(json.dumps(recorded.answer(case, torch.as_tensor))) for case in range(0, 70)]
    assert same(found, ANSWERS[:70])


def test_another_number_is_not_the_same() -> None:
    assert same([["met", "0.1234567890123"]], [["met", "0.1234567890124"]])
    for other in ([["met", "0.12345679"]], [["missed", "0.1234567890123"]], [["met"]], [["met", None]]):
        assert not same([["met", "0.1234567890123"]], other)
