"""Signals, full disks and two runs at once: out soon, nothing half-written, and on from there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aimfor.data import checkpoint
from aimfor.data.settings import Settings, settings
from aimfor.errors import InputError, Interrupted
from aimfor.runs import driver, ensemble
from aimfor.runs.folder import new_folder, write_config
from aimfor.runs.process import locked
from aimfor.targets import folds
from programs import Program, tool

DEAF = """
import os, signal, sys, time
from pathlib import Path
from aimfor.runs.process import this_is_the_program, {context}
this_is_the_program()
folder = Path(sys.argv[1])
(folder / f".cell.{{os.getpid()}}.part").write_text("begun")
with {context}(folder, "Go on with: this"):
    sent = []
    for _ in range(6000):  # ten minutes and more
        try:
            if not sent:
                sent.append(sys.argv[2])
                os.kill(os.getpid(), getattr(signal, sys.argv[2]))
            time.sleep(0.1)  # a step that nobody can ask
        except KeyboardInterrupt:
            pass
"""


@pytest.fixture
def given(tmp_path: Path) -> Settings:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    np.savez(tmp_path / "t.npz", X=x, y=(x[:, 0] + 0.5 * rng.normal(size=80) > 0).astype(int))
    return settings(data=str(tmp_path / "t.npz"), target="y", metric="auroc", members=("linear",))


@pytest.mark.parametrize("context", ["stop_on_signal", "interrupt_on_signal"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_step_that_does_not_listen_is_ended(context: str, number: str, tmp_path: Path) -> None:
    (tmp_path / ".cell.1.part").write_text("of another process")
    done = Program(tmp_path, number, code=DEAF.format(context=context))
    assert done.wait() == 130, done.stderr
    assert done.stderr == "Go on with: this\n"
    assert [path.name for path in tmp_path.iterdir()] == [".cell.1.part"]


def test_a_full_disk_between_cells_is_one_sentence_and_the_run_goes_on_later(
    given: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = driver.finish(*driver.start(given, tmp_path / "whole"))
    folder, ready = driver.start(given, tmp_path / "run")
    true, count = os.replace, [0]

    def full(source: Any, target: Any) -> None:
        count[0] += 1
        if count[0] > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        true(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="No space left on device"):
        driver.finish(folder, ready)
    monkeypatch.setattr(os, "replace", true)
    assert len(list((folder / "cells").iterdir())) == 3  # whole ones only: no file that was begun is left
    assert not (folder / "committee.json").exists()
    again = driver.finish(folder, driver.reopen(folder))
    assert repr(again.test) == repr(wanted.test)  # NaN is not itself
    assert again.threshold == wanted.threshold


def test_ctrl_c_while_writing_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write_text(tmp_path / "a.txt", "old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write_text(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_two_runs_at_once_have_two_folders_or_one_sentence(
    given: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_folder(None, "same") != new_folder(None, "same")  # neither has a config.json yet
    folder, ready = driver.start(given, tmp_path / "run")
    before = (folder / "config.json").read_bytes()
    with pytest.raises(InputError, match="which holds a run"):
        write_config(folder, {"of": "another"})
    assert (folder / "config.json").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    with locked(folder), pytest.raises(InputError, match="another run is working"):
        driver.finish(folder, ready)
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_the_last_stage_says_what_is_left_and_listens(given: Settings, tmp_path: Path) -> None:
    seen: list[Any] = []
    folder, ready = driver.start(given, tmp_path / "run")
    driver.finish(folder, ready, seen.append)
    last = [one for one in seen if "cells" not in one.value]
    assert [(one.doing, one.done, one.total) for one in last] == [
        ("evaluating", 0, 2),
        ("which columns matter", 0, 2),
        ("which columns matter", 1, 2),
    ]
    assert last[-1].left > 0
    lines = (folder / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["member"] for line in lines] == ["linear"] * folds.SMALL_FOLDS

    def stop() -> bool:
        return any(one.done == 1 for one in seen)

    seen.clear()
    asking = ensemble.Evaluating(ready.prepared, stop, seen.append)
    asking()
    asking()
    with pytest.raises(Interrupted):
        asking()


def test_a_slice_of_the_interrupts() -> None:
    """`python tools/interrupts.py` does fifty moments; this is one of another seed."""
    said = tool("interrupts.py", "--moments", 1, "--seed", 11, "--limit", 300, folds=3)
    assert "1 moments ({'ensemble': 1})" in said
    assert said.rstrip().endswith("0 findings")
