"""The program where the system is not Unix: played here, in a process without what only Unix has."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from aimfor.data import executors
from aimfor.runs.compare import plan

#: Modules, functions and signals that Windows does not have. Other packages are imported before they are taken away.
ELSEWHERE = """
    import fcntl as unix, multiprocessing, os, signal, subprocess, sys
    import lightgbm, matplotlib.figure, numpy, pyarrow.csv, rich.progress, sklearn.linear_model, torch, typer

    for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"):
        sys.modules[name] = None
    for name in ("fork", "getuid", "geteuid", "getgid", "sched_getaffinity", "killpg", "setsid", "mkfifo", "sysconf"):
        delattr(os, name)
    for name in ("SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGCHLD", "setitimer", "alarm"):
        delattr(signal, name)
    torch.set_num_threads(1)

    class msvcrt:  # of Windows, by what this system has
        LK_NBLCK = unix.LOCK_EX | unix.LOCK_NB

        def locking(file, mode, size):
            unix.flock(file, mode)

    sys.modules["msvcrt"] = msvcrt
"""


def elsewhere(code: str, folder: Path) -> str:
    """What the code prints."""
    whole = textwrap.dedent(ELSEWHERE) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", whole], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_training_deciding_and_checking_need_nothing_of_unix(tmp_path: Path) -> None:
    rows = "".join(f"{number % 7},{number % 5},{int(number % 7 > 3)}\n" for number in range(80))
    (tmp_path / "t.csv").write_text("a,b,y\n" + rows)
    said = elsewhere(
        """
        from aimfor.__main__ import main
        from aimfor.runs.process import in_turn, locked
        from aimfor.errors import InputError
        from aimfor.targets import folds
        from pathlib import Path
        import json

        def run(*words):
            sys.argv = ["aimfor", *words]
            try:
                code = main()
            except SystemExit as error:
                code = error.code
            print(words[0], code or 0)

        folds.SMALL_FOLDS = 2
        run("train", "t.csv", "--target", "y", "--metric", "ap", "--members", "linear", "--out", "run", "--quiet")
        run("predict", "run", "t.csv", "--out", "scores.csv")
        decision = {
            "kind": "decision", "score": "a", "target": "y", "positive": "1", "groups": {}, "direction": "maximize",
            "objective": "recall", "constraints": ["precision >= 0.1"],
            "decision": {"threshold": 3.5, "attribute": None, "thresholds": {}},
        }
        Path("decision.json").write_text(json.dumps(decision))
        run("check", ".", "t.csv")
        with locked(Path("run")):
            try:
                with locked(Path("run")):
                    pass
            except InputError as error:
                print(error)
        with locked(Path("run")), in_turn(Path("check.jsonl")):
            pass
        try:
            with in_turn(Path("nowhere/check.jsonl")):
                pass
        except InputError as error:
            print(error)
        """,
        tmp_path,
    )
    assert said.splitlines()[:2] == ["train 0", "predict 0"]
    assert "check 0" in said
    assert "another run is working" in said
    assert "nowhere/check.jsonl, which could not be written" in said
    assert (tmp_path / "scores.csv").read_text().count("\n") == 81
    assert (tmp_path / "check.jsonl").read_text().count("\n") == 1


def test_memory_that_nobody_tells_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> float:
        raise OSError(name)

    monkeypatch.setattr(executors, "status_megabytes", nothing)
    assert 1.0 < executors.peak_megabytes() < 1e6
    monkeypatch.setattr(sys, "platform", "darwin")
    assert executors.peak_megabytes() < 100  # this machine's kilobytes, taken for bytes
    monkeypatch.setattr(executors, "resource", None)
    assert executors.peak_megabytes() is None
    one = {"test": {"metric": 0.5}, "validation": 0.5, "seconds": 1.0, "megabytes": None}
    assert plan._numbers([one, one])["megabytes"] is None
    assert plan._numbers([one, {**one, "megabytes": 3.0}])["megabytes"] == 3.0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a peak cannot be started anew")
def test_the_peak_of_a_worker_is_of_what_it_does_now() -> None:
    np.ones(300 << 17)  # 300 MB that an earlier cell had
    before = executors.peak_megabytes()
    executors.reset_peak()
    after = executors.peak_megabytes()
    assert before is not None
    assert after is not None
    assert 1.0 < after < before - 250
