"""What it takes to choose one threshold: the install, and a decision on 10,000 scores from a cold start.

    python paper/benchmarks/bench_cold.py

Two new environments with nothing else in them: this project's base install, and MAPIE. In each, fresh processes take
the same CSV file to a threshold under a floor on precision, turn by turn: `aimfor decide` with its page, and MAPIE's
`BinaryClassificationController` with its own reading of the file. CPU seconds are of the process and its children;
megabytes and packages are those of site-packages.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import record

ROOT = Path(__file__).parent.parent.parent
ROWS, REPEATS = 10_000, 7
BY_MAPIE = """
import sys
import numpy as np
from mapie.risk_control import BinaryClassificationController
table = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1)
def probabilities(x):
    column = np.asarray(x, dtype=float).reshape(-1)
    return np.stack((1 - column, column), 1)
controller = BinaryClassificationController(
    probabilities, "precision", 0.8, confidence_level=0.95, best_predict_param_choice="recall")
controller.calibrate(table[:, :1], table[:, 1].astype(int))
print(controller.best_predict_param)
"""


def environment(folder: Path, *packages: str) -> Path:
    """Its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *packages]
    subprocess.run(install, check=True, env=alone())
    return python


def alone() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "OMP_NUM_THREADS": "1"}


def weight(python: Path) -> tuple[int, int]:
    """(packages, megabytes)."""
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    files = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    return len(list(site.glob("*.dist-info"))), round(files / 1e6)


def once(words: list[str], place: Path) -> tuple[float, float]:
    """(wall, CPU) seconds."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(words, check=True, cwd=place, env=alone(), stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return wall, cpu


def main() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(ROWS) < 0.2
    s = 1 / (1 + np.exp(-rng.normal(size=ROWS) - 2.5 * y + 2))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.savetxt(place / "s.csv", np.stack((s, y), 1), delimiter=",", header="s,y", comments="", fmt=("%.6f", "%d"))
        (place / "by_mapie.py").write_text(BY_MAPIE)
        ours, theirs = environment(place / "ours", str(ROOT)), environment(place / "mapie", "mapie==1.6.0")
        asked = ["--target", "y", "--score", "s", "--maximize", "recall", "--subject-to", "precision >= 0.8"]
        calls = {
            "aimfor decide, page included": [str(ours), "-m", "aimfor", "decide", "s.csv", *asked, "--out", "out"],
            "MAPIE 1.6, threshold printed": [str(theirs), "by_mapie.py", "s.csv"],
            "python, nothing imported": [str(ours), "-c", "pass"],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for turn in range(REPEATS + 1):
            for name, words in calls.items():
                seconds = once(words, place)
                if turn:  # the first writes compiled files
                    taken[name].append(seconds)
        weights = {"aimfor decide, page included": weight(ours), "MAPIE 1.6, threshold printed": weight(theirs)}
    rows: list[dict[str, Any]] = []
    for name, seconds in taken.items():
        packages, megabytes = weights.get(name, ("–", "–"))
        wall, cpu = (round(statistics.median(column), 2) for column in zip(*seconds, strict=True))
        rows.append(
            {"call": name, "rows": ROWS, "wall seconds": wall, "CPU seconds": cpu, "packages": packages,
             "megabytes": megabytes}
        )  # fmt: skip
    title = (
        "One threshold from a file of 10,000 scores: a cold start, and what has to be installed (medians, turn by turn)"
    )
    record("cold", title, "python paper/benchmarks/bench_cold.py", rows)


if __name__ == "__main__":
    main()
