"""One command at work in a folder at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import InputError


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds a file until the end, however that comes: the system gives the lock back with the process.

    Raises:
        InputError: Another process holds it.
    """
    with file.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                "--out",
                f"{file.parent}, where another run is working",
                "a folder of its own for each",
                "Wait for it.",
            ) from None
        yield
