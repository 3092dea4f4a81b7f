"""decision.json and the log of `aimfor check` when they are damaged or a stranger's: one line that names the file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aimfor.cli.decide import check as checking
from aimfor.cli.main import app
from aimfor.errors import InputError
from aimfor.runs import process

DECISION = {
    "kind": "decision", "score": "s", "target": "y", "positive": "1", "groups": {"place": ["a", "b"]},
    "direction": "maximize", "objective": "recall", "constraints": ["precision >= 0.6"],
    "decision": {"threshold": 0.5, "attribute": "place", "thresholds": {"0": 0.4, "1": 0.6}},
}  # fmt: skip


def rows(path: Path, first: float) -> Path:
    lines = [f"{first + number / 10},{'ab'[number % 2]},{number % 3 % 2}" for number in range(20)]
    path.write_text("\n".join(["s,place,y", *lines]) + "\n")
    return path


def check(folder: Path, data: Path) -> Any:
    return CliRunner().invoke(app, ["check", str(folder), str(data)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A decision that has been looked at once."""
    (tmp_path / "decision.json").write_text(json.dumps(DECISION))
    assert check(tmp_path, rows(tmp_path / "seen.csv", 0.0)).exit_code == 3
    return tmp_path


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content) + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("decision"),
        lambda d: d["decision"].pop("threshold"),
        lambda d: d["decision"].update(threshold="nan"),
        lambda d: d["decision"].update(threshold=[]),
        lambda d: d["decision"].update(thresholds={"x": 1.0}),
        lambda d: d["decision"].update(attribute="elsewhere"),
        lambda d: d.update(groups=[None]),
        lambda d: d.update(groups={"place": 2**70}),
        lambda d: d.update(score={}),
        lambda d: d.update(positive=None),
        lambda d: d.update(direction="both"),
        lambda d: d.update(constraints="precision >= 0.6"),
        lambda d: d.update(objective=True),
    ],
)
def test_a_damaged_decision_is_one_line(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    changed(folder / "decision.json", change)
    log = (folder / "check.jsonl").read_text()
    result = check(folder, rows(folder / "new.csv", 0.03))
    assert result.exit_code == 2, result.output + repr(result.exception)
    assert result.stderr.count("\n") == 1
    assert "decision.json" in result.stderr
    assert (folder / "check.jsonl").read_text() == log


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("sha256"),
        lambda d: d.pop("counts"),
        lambda d: d["counts"].pop("table"),
        lambda d: d["counts"].update(table=[1.0, 2.0]),
        lambda d: d["counts"].update(table=[1e308] * 4),
        lambda d: d["counts"].update(table=[-1.0, 2.0, 2.0, 2.0]),
        lambda d: d["counts"].update(names=["place"], labels=[[0.0]], table=[[1.0] * 4]),
        lambda d: d["counts"].update(labels="nan"),
    ],
)
def test_a_damaged_log_is_one_line(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    changed(folder / "check.jsonl", change)
    log = (folder / "check.jsonl").read_text()
    result = check(folder, rows(folder / "new.csv", 0.03))
    assert result.exit_code == 2, result.output + repr(result.exception)
    assert result.stderr.count("\n") == 1
    assert "check.jsonl" in result.stderr
    assert (folder / "check.jsonl").read_text() == log


def test_bytes_that_are_no_text_are_no_log(folder: Path) -> None:
    (folder / "check.jsonl").write_bytes(b"\xff\xfe\x00")
    result = check(folder, rows(folder / "new.csv", 0.03))
    assert result.exit_code == 2, repr(result.exception)
    assert "not a log" in result.stderr


def test_a_log_goes_on_as_it_was(folder: Path) -> None:
    first = (folder / "check.jsonl").read_text()
    assert check(folder, rows(folder / "new.csv", 0.03)).exit_code == 3
    assert (folder / "check.jsonl").read_text().startswith(first)
    totals = [json.loads(line)["total"] for line in (folder / "check.jsonl").read_text().splitlines()]
    assert totals == [20, 40]


def test_two_looks_at_once_lose_no_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has read the log and not yet written it when the second begins."""
    whole, first, other_is_done = checking.certify, threading.Lock(), threading.Event()

    def held_up(*args: Any, **kwargs: Any) -> Any:
        if first.acquire(blocking=False):
            other_is_done.wait(1.0)
        return whole(*args, **kwargs)

    def looked(name: str, start: float) -> None:
        checking.check(folder, rows(folder / name, start), None, 0.95)
        other_is_done.set()

    monkeypatch.setattr(checking, "certify", held_up)
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(looked, "a.csv", 0.01), pool.submit(looked, "b.csv", 0.02)]:
            one.result()
    lines = [json.loads(line) for line in (folder / "check.jsonl").read_text().splitlines()]
    assert [line["total"] for line in lines] == [20, 40, 60]
    assert {line["file"] for line in lines} == {"seen.csv", "a.csv", "b.csv"}


def test_a_look_that_never_ends_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.1)
    before = (folder / "check.jsonl").read_text()
    with (
        process.in_turn(folder / "check.jsonl"),
        pytest.raises(InputError, match="which another aimfor check is writing to"),
    ):
        checking.check(folder, rows(folder / "new.csv", 0.03), None, 0.95)
    assert (folder / "check.jsonl").read_text() == before
