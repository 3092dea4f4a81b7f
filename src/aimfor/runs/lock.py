"""One at a time: one command at work in a folder, one that adds to a log.

Where there is `fcntl` (Linux, macOS) the system gives a lock back with the process, however that ends. Elsewhere a
lock is a file that only one process can create; Windows removes it with the process.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError

#: None on Windows.
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
#: Seconds to wait for one's turn, and between two attempts.
PATIENCE, PAUSE = 60.0, 0.02
#: Windows removes such a file when the process that has it open ends; other systems know no such flag.
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_TEMPORARY", 0) | getattr(os, "O_NOINHERIT", 0)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds a file until the end, for a command that may take hours.

    Raises:
        InputError: Another process holds it.
    """
    give_back = _taken(file)
    if give_back is None:
        raise InputError(
            "--out",
            f"{file.parent}, where another run is working",
            "a folder of its own for each",
            _remedy("Wait for it.", file),
        )
    try:
        yield
    finally:
        give_back()


@contextmanager
def in_turn(log: Path) -> Iterator[None]:
    """Waits until nobody else reads and writes the log, which may be replaced meanwhile: a file beside it is held.

    Raises:
        InputError: It is not our turn within a minute, or nothing can be written there.
    """
    beside, last = log.with_name(f".{log.name}.lock"), time.monotonic() + PATIENCE
    try:
        while (give_back := _taken(beside)) is None:
            if time.monotonic() > last:
                raise InputError(
                    "log",
                    f"{log}, which another aimfor check is writing to",
                    "a log that is free within a minute",
                    _remedy("Check again when it is done.", beside),
                )
            time.sleep(PAUSE)
    except OSError as error:
        came = f"{log}, which could not be written ({error.strerror or error})"
        raise InputError("log", came, "a file in a folder that may be written", "Name another --log.") from None
    try:
        yield
    finally:
        give_back()


def _taken(file: Path) -> Callable[[], None] | None:
    """What gives the file back, or None where another has it. Raises `OSError` where nothing can be written."""
    if fcntl is None:
        return _created(_marker(file))
    held = file.open("ab")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        return None
    return held.close


def _created(marker: Path) -> Callable[[], None] | None:
    try:
        held = os.open(marker, _NEW)
    except (FileExistsError, PermissionError):
        if not os.access(marker.parent, os.W_OK):
            raise
        return None

    def give_back() -> None:
        os.close(held)
        marker.unlink(missing_ok=True)

    return give_back


def _marker(file: Path) -> Path:
    """The file that stands for the lock where the system has none."""
    return file.with_name(f"{file.name}.held")


def _remedy(words: str, file: Path) -> str:
    return words if fcntl is not None else f"{words} If nothing is at work there, delete {_marker(file)}."
