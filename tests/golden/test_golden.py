"""What a small run of every kind finds and answers, number by number, as `tools/golden.py` wrote it."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from aimfor.data import backbones
from aimfor.data.settings import Settings
from aimfor.runs.kinds import ACTS

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
TOOL = runpy.run_path(str(TOOLS / "golden.py"))
sys.path.remove(str(TOOLS))
#: The kinds of `aimfor train` that they are.
OF_KIND = {
    "ensemble": "table",
    "ranked": "lists",
    "streamed": "stream",
    "many": "labels",
    "masks": "masks",
    "retrieval": "embedding",
}


def same(left: Any, right: Any, where: str = "") -> list[str]:
    """Places at which two values of JSON differ by more than processors do (scores of networks are float32)."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = sorted(left.keys() | right.keys())
        return [p for key in keys for p in same(left.get(key), right.get(key), f"{where}/{key}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [p for row, both in enumerate(zip(left, right, strict=True)) for p in same(*both, f"{where}/{row}")]
    try:
        close = float(left) == pytest.approx(float(right), rel=1e-5, abs=1e-6)
    except (TypeError, ValueError):
        close = False
    return [] if left == right or close else [f"{where}: {left!r}, was {right!r}"]


def test_the_comparison_sees_one_digit() -> None:
    assert same({"a": [1.0, "0.25"]}, {"a": [1.0, "0.25"]}) == []
    assert same({"a": [1.0, "0.25"]}, {"a": [1.0, "0.2501"]}) == ["/a/1: '0.25', was '0.2501'"]
    assert same({"a": 1.0}, {"a": 1.0 + 1e-12}) == []


@pytest.mark.parametrize("name", TOOL["NAMES"])
def test_every_number_is_as_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = runpy.run_path(str(HERE.parent / "pictures_samples.py"))
    monkeypatch.setattr(backbones, "_lite0", samples["tiny"])
    stored = json.loads((HERE / f"{name.replace(' ', '_')}.json").read_text())
    read: set[str] = set()

    def reading(settings: Settings, field: str) -> Any:
        read.add(field)
        return object.__getattribute__(settings, field)

    monkeypatch.setattr(Settings, "__getattribute__", reading)
    found = json.loads(json.dumps(TOOL["found"](TOOL["KINDS"][name], tmp_path)))
    assert same(found, stored) == []
    if name in OF_KIND:  # an option that is said to act on this kind is at least looked at
        acts = {option for option, kinds in ACTS.items() if OF_KIND[name] in kinds} - {"memory"}
        assert {"budget_minutes" if option == "budget" else option for option in acts} - read == set()
