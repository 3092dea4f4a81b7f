"""`make bench`: what is run, what is left out, and the page."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "paper" / "benchmarks"))
try:
    run, render = importlib.import_module("run"), importlib.import_module("render")
finally:
    sys.path.pop(0)


def test_every_script_and_every_recorded_command_is_run_once() -> None:
    commands = run.commands()
    assert len(commands) == len(set(commands)) >= 15
    for script in run.HERE.glob("bench_*.py"):
        assert any(script.name in command for command in commands), script.name
    for command in commands:
        call = run.words(command, "/data")
        assert call is not None
        assert call[0] == sys.executable
        assert (ROOT / call[1]).exists(), command
        assert "DATA" not in call


def test_commands_that_want_data_are_left_out_without_them() -> None:
    assert run.words("python paper/benchmarks/bench_gap.py DATA", None) is None
    assert run.words("python paper/benchmarks/bench_sorted.py", None) is not None


def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PEERS", ("torch", "surely_not_installed"))
    assert run.absent_peers() == ["surely_not_installed"]


def test_curves_have_only_what_was_measured() -> None:
    rows = [
        {"loss": "a", "n": 10, "ms": 1.0, "extra MB": ""},
        {"loss": "a", "n": 100, "ms": 2.0, "extra MB": 0.0},
        {"loss": "b: peer", "n": 10, "ms": 3.0, "extra MB": 4.0},
    ]
    assert render.curves(rows, "ms") == {"a": [(10.0, 1.0), (100.0, 2.0)], "b: peer": [(10.0, 3.0)]}
    assert render.curves(rows, "extra MB") == {"b: peer": [(10.0, 4.0)]}


def test_no_two_lines_of_a_picture_look_alike() -> None:
    names = ["cross-entropy (torch)", *(f"ours {k}" for k in range(7)), *(f"AP: peer {k}" for k in range(5))]
    looks = render.line_looks(names)
    assert list(looks) == names
    assert len({tuple(look.items()) for look in looks.values()}) == len(names)
    with pytest.raises(ValueError, match="11 lines for the 10 colours"):
        render.line_looks([f"ours {k}" for k in range(11)])
