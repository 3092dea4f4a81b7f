"""The thousand recorded answers; see `recorded`."""

from __future__ import annotations

import importlib.util
import json
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


@pytest.mark.parametrize("first", range(0, recorded.CASES, PART))
def test_answers_are_those_on_record(first: int) -> None:
    found = {case: json.loads(json.dumps(recorded.answer(case))) for case in range(first, first + PART)}
    assert found == {case: ANSWERS[case] for case in range(first, first + PART)}


def test_tensors_get_the_answers_of_arrays() -> None:
    found = [json.loads(json.dumps(recorded.answer(case, torch.as_tensor))) for case in range(0, 70)]
    assert found == ANSWERS[:70]
