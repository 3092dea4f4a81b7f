"""Cells for the tests of executors: functions that workers can import."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

IMPORTED_BY = os.getpid()


def origin(cell: dict[str, Any]) -> dict[str, Any]:
    """Processes: this one, its parent, and the one that imported this module."""
    time.sleep(cell["seconds"])
    return {"here": os.getpid(), "parent": os.getppid(), "imported": IMPORTED_BY}


def square(cell: dict[str, Any]) -> dict[str, Any]:
    return {"square": cell["number"] ** 2}


def slow_square(cell: dict[str, Any]) -> dict[str, Any]:
    time.sleep(cell["seconds"])
    return square(cell)


def noted(cell: dict[str, Any]) -> dict[str, Any]:
    """Leaves a file that names the process it ran in."""
    (Path(cell["folder"]) / f"{os.getpid()}-{cell['number']}-ran").touch()
    return slow_square(cell)


def fails_on_three(cell: dict[str, Any]) -> dict[str, Any]:
    if cell["number"] == 3:
        raise ZeroDivisionError("three")
    return square(cell)


def kills_its_worker(cell: dict[str, Any]) -> dict[str, Any]:
    """The first time cell 3 is run (or always, without a flag), its process dies as if out of memory."""
    flag = Path(cell["flag"])
    if cell["number"] == 3 and (not cell["flag"] or not flag.exists()):
        if cell["flag"]:
            flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(cell)


def threads() -> ThreadPoolExecutor:
    """A user's own executor."""
    return ThreadPoolExecutor(2)
