"""One comparison a folder at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import InputError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder until the end, however that comes: the system gives the lock back with the process.

    Raises:
        InputError: Another process holds it.
    """
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                "--out",
                f"{folder}, where another comparison is running",
                "a folder of its own for each",
                "Wait for it.",
            ) from None
        yield
