"""What `aimfor train` costs on tables of three sizes: processor time, peak memory, and LightGBM beside it.

    python paper/benchmarks/bench_committee.py [10000x20 200000x40 1000x2000]

With sizes named, nothing is recorded. Time on two cores is stated as processor
time divided by two, which does not depend on who else uses the machine; the command itself uses two processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import record
from cost import cost_of

TARGETS = {"10000x20": "≤ 3 min", "200000x40": "≤ 20 min, ≤ 4,096 MB", "1000x2000": "not below LightGBM"}


def make(path: Path, rows: int, columns: int) -> None:
    """A tenth positives; a few columns matter, alone and in pairs, most do not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    signal = x[:, 0] + 0.7 * x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + 0.5 * x[:, 4] + rng.standard_normal(rows)
    np.savez(path, X=x, y=(signal > np.quantile(signal, 0.9)).astype(np.int64))


def measured(size: str) -> dict[str, Any]:
    rows, columns = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make(place / "t.npz", rows, columns)
        words = ["train", str(place / "t.npz"), "--target", "y", "--metric", "ap", "--jobs", "2", "-q"]
        cost = cost_of([sys.executable, "-m", "aimfor", *words, "--out", str(place / "run")])
        metrics = json.loads((place / "run" / "metrics.json").read_text())
        trees = lightgbm_value(place / "t.npz")
    return {
        "rows × columns": f"{rows:,} × {columns:,}",
        "processor minutes / 2": f"{cost['seconds'] / 120:.1f}",
        "wall minutes": f"{cost['wall'] / 60:.1f}",
        "peak MB": f"{cost['megabytes']:.0f}",
        "AP, committee": f"{metrics['test']['metric']:.4f}",
        "AP, LightGBM": f"{trees:.4f}",
        "target": TARGETS.get(size, ""),
    }


def lightgbm_value(data: Path) -> float:
    """LightGBM on the same training and test rows, with its own settings."""
    from aimfor.data.settings import settings
    from aimfor.runs.compare.entrants import run_entrant
    from aimfor.runs.prepared import prepare

    ready = prepare(settings(data=str(data), target="y", metric="ap", holdout=0.2))
    return ready.objective.value(run_entrant("lightgbm", ready).scores, ready.test[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", nargs="*")
    sizes, rows = parser.parse_args().sizes, []
    for size in sizes or TARGETS:
        rows.append(measured(size))
        print(rows[-1], flush=True)
    if not sizes:
        command = "python paper/benchmarks/bench_committee.py"
        record("committee_cost", "What `aimfor train` costs (average precision, a tenth positives)", command, rows)


if __name__ == "__main__":
    main()
