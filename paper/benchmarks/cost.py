"""What a whole command costs, with every process that it starts: processor time, wall time, peak memory (Linux)."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import threading
import time
from pathlib import Path

_SET_CHILD_SUBREAPER = 36


def cost_of(words: list[str]) -> dict[str, float]:
    """Processor seconds, wall seconds and peak megabytes of a command and its workers.

    Workers are forked from a server for which the command does not wait, so that nobody would count them: processes
    whose parent is gone become children of this one, which waits for them. It must have no others.

    Raises:
        RuntimeError: The command failed; with what it said.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, began = _children_seconds(), time.monotonic()
    process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            peak[0] = max(peak[0], group_megabytes(process.pid))

    threading.Thread(target=watch, daemon=True).start()
    _, said = process.communicate()
    wall = time.monotonic() - began
    over.set()
    _wait_for_orphans()
    if process.returncode:
        raise RuntimeError(said.decode())
    return {"seconds": _children_seconds() - before, "wall": wall, "megabytes": peak[0]}


def group_megabytes(leader: int) -> float:
    """Resident memory of all processes of the group, shared pages counted by share where the system tells."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) != leader:
                continue
            text = (entry / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    return total


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_orphans() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return
