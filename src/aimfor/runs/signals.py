"""Ctrl-C and SIGTERM: every command is out within two seconds, and what it had finished is on disk.

Loops ask `stop` between their steps and leave in order. A single step may last longer than anyone wants to wait (a fit
inside a library on a large table), so a timer ends the process then: finished cells and checkpoints are written whole
or not at all, so that nothing is lost but the step itself.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..failpoints import fail_point

#: Seconds for an orderly end.
GRACE = 1.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Program:
    """Whether this process is the program itself; only then may it be ended from within. The entry point says so."""

    own_process = False


def this_is_the_program() -> None:
    """Called by the entry point: from now on a signal may end this process from within."""
    _Program.own_process = True


@contextlib.contextmanager
def stop_on_signal(folder: Path | None = None, how_to_go_on: str = "") -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask the loop to save and stop; a second one ends at once.

    Args:
        folder: Where a file may be half-written when the timer ends the process; such parts are removed.
        how_to_go_on: What is said then.
    """
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        last.start()

    def stop() -> bool:
        fail_point("step")
        return bool(asked)

    last = _Last(folder, how_to_go_on)
    with _handled(ask), last:
        yield stop


@contextlib.contextmanager
def interrupt_on_signal(folder: Path, how_to_go_on: str) -> Iterator[None]:
    """Both signals raise KeyboardInterrupt, for work that nobody asks whether it should stop."""

    def raise_it(number: int, frame: Any) -> None:
        last.start()
        raise KeyboardInterrupt

    last = _Last(folder, how_to_go_on)
    with _handled(raise_it), last:
        yield


@contextlib.contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Last:
    """The timer that ends the process."""

    def __init__(self, folder: Path | None, how_to_go_on: str) -> None:
        self.folder, self.how_to_go_on = folder, how_to_go_on
        self.timer: threading.Timer | None = None

    def start(self) -> None:
        if self.timer is None and _Program.own_process:
            self.timer = threading.Timer(GRACE, self._end)
            self.timer.daemon = True
            self.timer.start()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _end(self) -> None:
        for child in multiprocessing.active_children():
            child.kill()
        if self.folder is not None:
            forget_parts(self.folder, os.getpid())
        if self.how_to_go_on:
            print(self.how_to_go_on, file=sys.stderr, flush=True)
        os._exit(130)


def forget_parts(folder: Path, process: int) -> None:
    """Removes files that this process had begun to write beside their place."""
    for path in folder.rglob(f".*.{process}.part"):
        with contextlib.suppress(OSError):
            path.unlink()
