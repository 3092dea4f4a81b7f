"""The program in processes of its own: forked from one that has imported it, which takes hundredths of a second.

A child knows nothing of the test: it is forked from a server that was started fresh and has done nothing but import.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from undrawn import ALL

_SERVER = multiprocessing.get_context("forkserver")


def start_server() -> None:
    """Once. With the paths of the tests, which it would not know otherwise: it is told them only for its children."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    _SERVER.set_forkserver_preload(["programs_warm"])
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


class Program:
    """``aimfor WORDS`` in a process of its own, or ``code`` of Python's; its output is in ``stdout`` and ``stderr``.

    Args:
        words: Of the command line, ``sys.argv[1:]`` for code.
        code: Python source to run instead of the program.
        folds: Folds of a small table, where ten would only take longer.
        environment: Variables of its own, beside those of the test.
    """

    def __init__(
        self,
        *words: object,
        code: str | None = None,
        folds: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        start_server()
        self._said = [Path(tempfile.mkstemp(prefix="said-")[1]) for _ in range(2)]
        given, around = [str(word) for word in words], {**os.environ, **(environment or {})}
        self.process: BaseProcess = _SERVER.Process(
            target=_run, args=(given, code and textwrap.dedent(code), folds, self._said, around)
        )
        self.process.start()

    def wait(self, seconds: float = 600.0) -> int:
        """The exit code, minus the signal's number where one ended it."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"still at work after {seconds:g} s"
        self.stdout, self.stderr = (path.read_text() for path in self._said)
        for path in self._said:
            path.unlink()
        return self.process.exitcode


def finished(*words: object, code: str | None = None, folds: int | None = None) -> Program:
    """The program, run to its end without an error."""
    program = Program(*words, code=code, folds=folds)
    assert program.wait() == 0, program.stdout + program.stderr
    return program


def until(condition: Callable[[], object], seconds: float = 600.0) -> None:
    """Waits for what another process is going to do, and stays done."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"nothing after {seconds:g} s"
        time.sleep(0.01)


def tool(name: str, *words: object, folds: int | None = None) -> str:
    """What ``python tools/NAME WORDS`` prints when nothing is wrong; its runs draw no figures, and few rows."""
    code = """
        import runpy, sys, pytest
        from undrawn import ALL

        for change in ALL:
            change(pytest.MonkeyPatch())
        runpy.run_path(sys.argv.pop(1), run_name="__main__")
    """
    path = Path(__file__).parent.parent / "tools" / name
    return finished(path, *words, code=code, folds=folds).stdout


def _run(words: list[str], code: str | None, folds: int | None, said: list[Path], around: dict[str, str]) -> None:
    os.environ.update(around)
    for number, path in enumerate(said, start=1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    sys.argv = ["aimfor", *words]
    if folds is not None:
        from aimfor.targets import folds as module

        module.SMALL_FOLDS = folds
    if code is not None:
        exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
    else:
        from aimfor.__main__ import main

        for change in ALL:
            change(pytest.MonkeyPatch())
        sys.exit(main())
