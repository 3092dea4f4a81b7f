"""Processes on this machine: how many cores there are for them, and a pool of them."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: How processes begin.
START = "forkserver" if sys.platform == "linux" else "spawn"
CONTROL_GROUP = Path("/sys/fs/cgroup")
#: How many times in a row workers may die before a single cell is finished.
TRIES = 3
#: None on Windows.
resource: Any = importlib.import_module("resource") if importlib.util.find_spec("resource") else None


def peak_megabytes() -> float | None:
    """The most memory this process has had; None where nobody tells."""
    try:
        return status_megabytes("VmHWM")
    except OSError:
        if resource is None:
            return None
        most = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)  # macOS counts bytes, others kilobytes


def status_megabytes(name: str) -> float:
    """A line of Linux's own account. Raises `OSError` elsewhere."""
    with open("/proc/self/status", encoding="utf8") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise OSError(name)


def process_pool(
    count: int, initializer: Callable[..., None], initargs: tuple[Any, ...] = (), modules: Sequence[str] = ()
) -> concurrent.futures.ProcessPoolExecutor:
    """A pool of processes on this machine, one core each.

    On Linux they are forked from a server that has imported ``modules`` once for all; every process for itself would
    spend seconds on that. Elsewhere each starts anew, as Python's own default has it.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # they inherit it: one core each, whatever this process takes
    context = multiprocessing.get_context(START)
    if START == "forkserver":
        context.set_forkserver_preload(["__main__", *modules])
    return concurrent.futures.ProcessPoolExecutor(count, context, initializer, initargs)


def cores() -> int:
    """Cores that this process may use: by its affinity, and by its share of processor time where it has a quota."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = (quota for quota in map(_quota, ("cpu.max", "cpu/cpu.cfs_quota_us")) if quota)
    return min([free, *quotas])


def _quota(name: str) -> int | None:
    """Whole cores of a control group's quota, at least one: version 2 has one file, version 1 a file for the period."""
    try:
        words = (CONTROL_GROUP / name).read_text().split()
        period = words[1:] or (CONTROL_GROUP / name).with_name("cpu.cfs_period_us").read_text().split()
        quota = int(words[0]) / int(period[0])
    except (OSError, ValueError, IndexError, ZeroDivisionError):  # no such file, or "max"
        return None
    return max(1, int(quota)) if quota > 0 else None


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever; this ends it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
