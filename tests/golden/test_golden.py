"""What a small run of every kind finds and answers, number by number, as `tools/golden.py` wrote it."""

from __future__ import annotations

import json
import platform
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from aimfor.app.cli.kinds import ACTS
from aimfor.fitting import backbones
from aimfor.fitting.config import Settings

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
TOOL = runpy.run_path(str(TOOLS / "golden.py"))
sys.path.remove(str(TOOLS))
#: The kinds of `aimfor train` that they are.
OF_KIND = {
    "committee": "table",
    "ranked": "lists",
    "streamed": "stream",
    "many": "labels",
    "masks": "masks",
    "retrieval": "embedding",
}
#: Where the files were written: other processors and releases differ in the last bits.
WRITTEN_ON = ("x86_64", "2.13.0+cpu")


def same(left: Any, right: Any, exact: bool, where: str = "") -> list[str]:
    """Places at which two values of JSON differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = sorted(left.keys() | right.keys())
        return [p for key in keys for p in same(left.get(key), right.get(key), exact, f"{where}/{key}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [
            p for row, both in enumerate(zip(left, right, strict=True)) for p in same(*both, exact, f"{where}/{row}")
        ]
    try:
        close = not exact and float(left) == pytest.approx(float(right), rel=1e-3, abs=1e-6)
    except (TypeError, ValueError):
        close = False
    return [] if left == right or close else [f"{where}: {left!r}, was {right!r}"]


def test_the_comparison_sees_one_digit() -> None:
    assert same({"a": [1.0, "0.25"]}, {"a": [1.0, "0.25"]}, exact=True) == []
    assert same({"a": [1.0, "0.25"]}, {"a": [1.0, "0.26"]}, exact=False) == ["/a/1: '0.25', was '0.26'"]
    assert same({"a": 1.0}, {"a": 1.0 + 1e-15}, exact=True)


@pytest.mark.parametrize("name", TOOL["NAMES"])
def test_every_number_is_as_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = runpy.run_path(str(HERE.parent / "app" / "pictures_samples.py"))
    monkeypatch.setattr(backbones, "_lite0", samples["tiny"])
    stored = json.loads((HERE / f"{name.replace(' ', '_')}.json").read_text())
    read: set[str] = set()

    def reading(settings: Settings, field: str) -> Any:
        read.add(field)
        return object.__getattribute__(settings, field)

    monkeypatch.setattr(Settings, "__getattribute__", reading)
    found = json.loads(json.dumps(TOOL["found"](TOOL["KINDS"][name], tmp_path)))
    exact = (platform.machine(), torch.__version__) == WRITTEN_ON
    assert same(found, stored, exact) == []
    if name in OF_KIND:  # an option that is said to act on this kind is at least looked at
        acts = {option for option, kinds in ACTS.items() if OF_KIND[name] in kinds} - {"memory"}
        assert {"budget_minutes" if option == "budget" else option for option in acts} - read == set()
