"""`run_cells` on a Dask cluster of two worker processes beside the local pool of two, on one machine.

python paper/benchmarks/bench_executors.py

A cell sleeps for a second; one that trains works for longer. What differs is what the executors add, and shows
as well on a busy machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import record

from aimfor.fitting.executors import run_cells

CELLS, WORKERS = 30, 2


def sleep(cell: dict[str, Any]) -> dict[str, Any]:
    time.sleep(1.0)
    return {"number": cell["number"]}


def seconds(executor: str) -> float:
    # Workers must find the function under a name that they can import.
    from bench_executors import sleep as importable

    began = time.monotonic()
    run_cells({str(number): {"number": number} for number in range(CELLS)}, importable, executor)
    return time.monotonic() - began


def main() -> None:
    from distributed import Client

    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        here = ["--scheduler-file", str(Path(folder, "scheduler.json")), "--no-dashboard"]
        dask = [sys.executable, "-m", "dask"]
        scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", *here]
        parts = [subprocess.Popen(scheduler, stderr=subprocess.DEVNULL)]
        worker = [*dask, "worker", "--no-nanny", "--nthreads", "1", *here]
        parts += [subprocess.Popen(worker, env=environment, stderr=subprocess.DEVNULL) for _ in range(WORKERS)]
        try:
            while not Path(here[1]).exists():
                time.sleep(0.1)
            with Client(scheduler_file=here[1], timeout=60, set_as_default=False) as client:
                client.wait_for_workers(WORKERS, timeout=120)
                address = client.scheduler.address.replace("tcp://", "dask://")
            found = {f"local:{WORKERS}": seconds(f"local:{WORKERS}"), "dask://": seconds(address)}
        finally:
            for part in reversed(parts):
                part.terminate()
                part.wait()
    least = found[f"local:{WORKERS}"]
    rows = [
        {"executor": name, "cells": CELLS, "workers": WORKERS, "seconds": f"{one:.1f}", "× local": f"{one / least:.2f}"}
        for name, one in found.items()
    ]
    record("executors", "Cells of one second on two workers", "python paper/benchmarks/bench_executors.py", rows)


if __name__ == "__main__":
    main()
