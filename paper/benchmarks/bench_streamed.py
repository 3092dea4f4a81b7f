"""Exact AUROC, AP and the best F1 threshold of scores on disk, beside numpy.sort of the same array.

python paper/benchmarks/bench_streamed.py [--rows 100000000] [--folder /tmp/streamed]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from common import record

_HEAD = """
import json, resource, sys, time
import numpy as np
folder = sys.argv[1]
def finish(started, **found):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.process_time() - started, "megabytes": peak, **found}))
"""
SORT = (
    _HEAD
    + """
scores = np.load(folder + "/scores.npy")
started = time.process_time()
np.sort(scores)
finish(started)
"""
)
STREAM = (
    _HEAD
    + """
from aimfor.fitting import streamed
started = time.process_time()
source = streamed.from_arrays(folder + "/scores.npy", folder + "/labels.npy")
found = streamed.evaluate(source, sys.argv[3].split(","), int(sys.argv[2]) << 20)
finish(started, values={name: one.value for name, one in found.items()})
"""
)


def measured(code: str, *arguments: object) -> dict[str, object]:
    """In a process of its own, because peak memory is of a process."""
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return dict(json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout))


def make(folder: Path, rows: int) -> None:
    """Normal scores, a tenth of them positive and one standard deviation higher; written in pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    scores = np.lib.format.open_memmap(folder / "scores.npy", "w+", np.float32, (rows,))
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.bool_, (rows,))
    rng = np.random.default_rng(0)
    for begin in range(0, rows, 1 << 22):
        part = slice(begin, min(begin + (1 << 22), rows))
        labels[part] = rng.random(part.stop - part.start) < 0.1
        scores[part] = rng.standard_normal(part.stop - part.start, np.float32) + labels[part]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/streamed"))
    given = parser.parse_args()
    make(given.folder, given.rows)
    sort = measured(SORT, given.folder)
    print("numpy.sort", sort, flush=True)
    rows = []
    for memory, names in ((512, "auroc,ap"), (512, "auroc,ap,f1"), (128, "auroc,ap"), (32, "auroc,ap")):
        found = measured(STREAM, given.folder, memory, names)
        print(memory, found, flush=True)
        rows.append(
            {
                "scores": f"{given.rows:,}",
                "metrics": names.replace(",", ", "),
                "buffer, MB": memory,
                "CPU seconds": f"{found['seconds']:.1f}",
                "× numpy.sort": f"{found['seconds'] / sort['seconds']:.2f}",
                "peak MB, torch included": f"{found['megabytes']:.0f}",
                "peak MB of numpy.sort": f"{sort['megabytes']:.0f}",
                "target": "≤ 3 × sort, < 1,500 MB" if (memory, names) == (512, "auroc,ap") else "",
            }
        )
    title = "Exact metrics of scores on disk (float32, 10 % positives)"
    record("streamed", title, "python paper/benchmarks/bench_streamed.py", rows)


if __name__ == "__main__":
    main()
