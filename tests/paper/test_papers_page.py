"""docs/papers.md: every name, test and run on the page exists, and every experiment of a paper stands on it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import aimfor
from paper import NAMES
from paper.run import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| where")
]


def words(column: int) -> list[str]:
    return sorted({word for row in ROWS for word in re.findall(r"`([^`]+)`", row[column])})


def test_every_row_has_six_cells() -> None:
    assert len(ROWS) >= 55
    assert {len(row) for row in ROWS} == {6}


@pytest.mark.parametrize("name", words(2))
def test_every_name_is_in_the_library(name: str) -> None:
    home, _, last = name.rpartition(".")
    assert getattr(importlib.import_module(f"aimfor.{home}") if home else aimfor, last) is not None


@pytest.mark.parametrize("name", words(3))
def test_every_test_is_there(name: str) -> None:
    assert (ROOT / "tests" / name).is_file()


@pytest.mark.parametrize("name", words(4))
def test_every_run_is_there(name: str) -> None:
    if name.startswith("bench:"):
        assert (ROOT / "paper" / "benchmarks" / "results" / f"{name.removeprefix('bench:')}.json").is_file()
    else:
        assert name in NAMES


def test_no_experiment_of_a_paper_is_left_out() -> None:
    ours = {name for name in NAMES if load(name).paper.split()[0] in ("Ravi", "Venkatesh", "Meng", "Song")}
    assert ours - set(words(4)) == set()
