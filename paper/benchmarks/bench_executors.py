"""A Dask cluster of two worker processes beside the local pool of two, on one machine.

python paper/benchmarks/bench_executors.py

Cells that sleep for a second show what the executors add, on a busy machine as well. Then `aimfor compare` as a whole,
by the clock on a quiet machine: the same table must come out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import record

from aimfor.data.executors import run_cells

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


def write_table(path: Path) -> Path:
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 8))
    y = x[:, 0] + x[:, 1] * x[:, 2] + rng.standard_normal(4000) > 1.5
    lines = [",".join([*(f"{one:.5f}" for one in row), str(int(label))]) for row, label in zip(x, y, strict=True)]
    path.write_text("\n".join([",".join([*(f"c{i}" for i in range(8)), "y"]), *lines]) + "\n")
    return path


def compare_seconds(executor: str, place: Path) -> tuple[float, Any]:
    """The whole command, and its table without times."""
    out = place / executor.split(":")[0]
    words = ["compare", str(place / "t.csv"), "--target", "y", "--metric", "ap", "--seeds", "4", "--executor", executor]
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "aimfor", *words, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    parts = json.loads((out / "comparison.json").read_text())["parts"]
    return seconds, [[(row["name"], row["test"], row["validation"]) for row in part["table"]] for part in parts]


def main() -> None:
    from distributed import Client

    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        here = ["--scheduler-file", str(Path(folder, "scheduler.json")), "--no-dashboard"]
        dask = [sys.executable, "-m", "dask"]
        scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", *here]
        parts = [subprocess.Popen(scheduler, env=environment, stderr=subprocess.DEVNULL)]  # it unpacks the cells, too
        worker = [*dask, "worker", "--no-nanny", "--nthreads", "1", *here]
        parts += [subprocess.Popen(worker, env=environment, stderr=subprocess.DEVNULL) for _ in range(WORKERS)]
        try:
            while not Path(here[1]).exists():
                time.sleep(0.1)
            with Client(scheduler_file=here[1], timeout=60, set_as_default=False) as client:
                client.wait_for_workers(WORKERS, timeout=120)
                address = client.scheduler.address.replace("tcp://", "dask://")
            found = {f"local:{WORKERS}": seconds(f"local:{WORKERS}"), "dask://": seconds(address)}
            write_table(Path(folder, "t.csv"))
            tables = {name: compare_seconds(name, Path(folder)) for name in (f"local:{WORKERS}", address)}
            assert len({json.dumps(table) for _, table in tables.values()}) == 1, "the tables differ"
        finally:
            for part in reversed(parts):
                part.terminate()
                part.wait()
    local, remote = (one for one, _ in tables.values())
    rows = []
    for what, here, there in (
        (f"{CELLS} cells that sleep a second", *found.values()),
        ("`aimfor compare`, 4,000 rows, 4 seeds, the same table", local, remote),
    ):
        times = {
            "local:2, seconds": f"{here:.1f}",
            "dask://, seconds": f"{there:.1f}",
            "× local": f"{there / here:.2f}",
        }
        rows.append({"what": what, "workers": WORKERS, **times})
    record(
        "executors",
        "A Dask cluster of two workers beside two local processes; wanted: ≤ 1.15 ×",
        "python paper/benchmarks/bench_executors.py",
        rows,
    )


if __name__ == "__main__":
    main()
