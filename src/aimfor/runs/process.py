"""A command among other processes: alone in its folder, and out within two seconds of Ctrl-C or SIGTERM.

Loops ask `stop` between their steps and leave in order. A single step may last longer than anyone wants to wait (a fit
inside a library on a large table), so a timer ends the process then: finished cells and checkpoints are written whole
or not at all, so that nothing is lost but the step itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..failpoints import fail_point

#: None on Windows.
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
#: Seconds to wait for one's turn, and between two attempts.
PATIENCE, PAUSE = 60.0, 0.02
#: Seconds for an orderly end.
GRACE = 1.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a folder for the block, which may last hours; the system frees it with the process.

    Raises:
        InputError: Another process holds it.
    """
    came, file = f"{folder}, where another run is working", folder / ".lock"
    with _held(file, 0.0, InputError("--out", came, "a folder of its own for each", "Wait for it.")):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows keeps a file that is open
                file.unlink()


def in_turn(log: Path) -> contextlib.AbstractContextManager[Any]:
    """Waits until nobody else reads and writes the log, which may be replaced meanwhile: a file beside it is held.

    Raises:
        InputError: It is not our turn within a minute, or nothing can be written there.
    """
    came = f"{log}, which another aimfor check is writing to"
    late = InputError("log", came, "a log that is free within a minute", "Check again when it is done.")
    try:
        return _held(log.with_name(f".{log.name}.lock"), PATIENCE, late)
    except OSError as error:
        came = f"{log}, which could not be written ({error.strerror or error})"
        raise InputError("log", came, "a file in a folder that may be written", "Name another --log.") from None


def _held(file: Path, patience: float, otherwise: InputError) -> contextlib.AbstractContextManager[Any]:
    last = time.monotonic() + patience
    while (handle := _lock(file)) is None:
        if time.monotonic() >= last:
            raise otherwise
        time.sleep(PAUSE)
    return contextlib.closing(handle)


def _lock(file: Path) -> IO[bytes] | None:
    """The file, locked until it is closed or the process ends, or None where another has it.

    `filelock` does the same, but `aimfor check` runs where NumPy and SciPy alone are installed.
    """
    handle = file.open("ab")
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            msvcrt: Any = importlib.import_module("msvcrt")
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        if os.path.samestat(os.fstat(handle.fileno()), file.stat()):  # or it was taken away while we opened it
            return handle
    except OSError:
        pass
    handle.close()
    return None


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
    stopping: list[bool] = []

    def ask() -> None:
        if stopping:
            raise KeyboardInterrupt
        stopping.append(True)

    def stop() -> bool:
        fail_point("step")
        return bool(stopping)

    with _on_signal(ask, folder, how_to_go_on):
        yield stop


@contextlib.contextmanager
def interrupt_on_signal(folder: Path, how_to_go_on: str) -> Iterator[None]:
    """Both signals raise KeyboardInterrupt, for work that nobody asks whether it should stop."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with _on_signal(interrupt, folder, how_to_go_on):
        yield


@contextlib.contextmanager
def _on_signal(act: Callable[[], None], folder: Path | None, how_to_go_on: str) -> Iterator[None]:
    """``act`` at every signal; from the first one on the block has `GRACE` seconds before the process ends."""
    timer = threading.Timer(GRACE, _end, (folder, how_to_go_on))
    timer.daemon = True

    def handle(number: int, frame: Any) -> None:
        if _Program.own_process and not timer.is_alive():
            timer.start()
        act()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        timer.cancel()


def _end(folder: Path | None, how_to_go_on: str) -> None:
    for child in multiprocessing.active_children():
        child.kill()
    for begun in () if folder is None else folder.rglob(f".*.{os.getpid()}.part"):  # files it was writing
        with contextlib.suppress(OSError):
            begun.unlink()
    if how_to_go_on:
        print(how_to_go_on, file=sys.stderr, flush=True)
    os._exit(130)
