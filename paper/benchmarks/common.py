"""What every benchmark shares: medians of one thread, ratios in the same run, peak memory, one JSON row each.

A benchmark is a script `paper/benchmarks/bench_<what>.py` that calls `record(...)`; `python paper/benchmarks/render.py`
turns all recorded rows into docs/benchmarks.md.
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"
#: A script is started by its path; the package `paper` is beside `src`, where Python does not look by itself.
sys.path.append(str(Path(__file__).parents[2]))


def median_seconds(functions: Mapping[str, Callable[[], Any]], repeats: int = 15, warmup: int = 3) -> dict[str, float]:
    """Median CPU time of each function on one thread, interleaved so that a busy machine slows all of them alike.

    CPU time, because on a busy machine wall time charges a longer function for more of other programs' turns.
    """
    torch.set_num_threads(1)
    for function in functions.values():
        for _ in range(warmup):
            function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


_PEAK = """
import torch
torch.set_num_threads(1)

def _kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))
"""


def peak_extra_megabytes(setup: str, statement: str) -> float:
    """Peak memory that `statement` adds over `setup`, measured in a process of its own (Linux).

    The high-water mark is reset first: a child process inherits its parent's.
    """
    code = (
        f"{_PEAK}\n{setup}\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"
        "before = _kilobytes('VmRSS')\n"
        f"{statement}\n"
        "print((_kilobytes('VmHWM') - before) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def record(name: str, title: str, command: str, rows: list[dict[str, Any]]) -> None:
    """Writes results/<name>.json: what was measured, when, and on what. Rows are flat dicts with the same keys."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "title": title,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "setting": f"Python {platform.python_version()}, torch {torch.__version__}, 1 thread, {platform.machine()}",
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    width = max(len(key) for key in rows[0])
    for row in rows:
        print("\n".join(f"{key:>{width}}  {value}" for key, value in row.items()), end="\n\n")
