"""Cells for the tests of executors: functions that workers can import."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

IMPORTED_BY = os.getpid()


def meet(folder: str, number: int = 2) -> None:
    """Waits until so many processes have been here; each leaves a file that names it."""
    (Path(folder) / f"{os.getpid()}-was-here").touch()
    while len(list(Path(folder).glob("*-was-here"))) < number:
        time.sleep(0.01)


def origin(cell: dict[str, Any]) -> dict[str, Any]:
    """Processes: this one, its parent, and the one that imported this module."""
    meet(cell["folder"])
    return {"here": os.getpid(), "parent": os.getppid(), "imported": IMPORTED_BY}


def square(cell: dict[str, Any]) -> dict[str, Any]:
    return {"square": cell["number"] ** 2}


def endless_after_zero(cell: dict[str, Any]) -> dict[str, Any]:
    """Cells but the first meet in two processes and then take ten minutes, after which there is a file."""
    if cell["number"]:
        meet(cell["folder"])
        time.sleep(600)
        (Path(cell["folder"]) / "ended").touch()
    return square(cell)


def second_dies(cell: dict[str, Any]) -> dict[str, Any]:
    """As soon as two of Dask's workers have begun a cell, the one named "second" dies, as if out of memory."""
    from distributed import get_worker

    meet(cell["folder"])
    if get_worker().name == "second":
        os.kill(os.getpid(), signal.SIGKILL)
    return square(cell)


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
