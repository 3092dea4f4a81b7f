"""What `aimfor train PICTURES --model efficientnet-lite0` costs: the first run, and a second from kept features.

    python paper/benchmarks/bench_pictures.py [10000]     (with another number nothing is recorded)

Pictures of 144 × 144 of two kinds are made up and written as JPEG files. Time on two cores is stated as processor time
divided by two, which does not depend on who else uses the machine; wall time stands beside it.
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

SIDE, PICTURES = 144, 10_000
TARGETS = {"first run": "≤ 8 min, ≤ 2,048 MB", "second run, features kept": "≤ 0.5 min"}


def make(folder: Path, number: int) -> None:
    """Stripes of a direction that tells the kinds apart, in noise, at any colour; a fifth are of the second kind."""
    from PIL import Image

    y, x = np.mgrid[:SIDE, :SIDE]
    for seed in range(number):
        random = np.random.default_rng(seed)
        kind = int(seed % 5 == 0)
        angle = (0.9 if kind else 0.4) + 0.35 * random.standard_normal()
        wave = np.sin((np.cos(angle) * x + np.sin(angle) * y) * random.uniform(0.1, 0.5) + random.uniform(0, 6))
        pixels = 110 + 50 * wave[..., None] * random.uniform(0.3, 1.0, 3) + 35 * random.standard_normal((SIDE, SIDE, 3))
        place = folder / ("second" if kind else "first")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{seed}.jpg", quality=85)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pictures", nargs="?", type=int, default=PICTURES)
    number, rows = parser.parse_args().pictures, []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make(place / "photos", number)
        words = [sys.executable, "-m", "aimfor", "train", str(place / "photos"), "--metric", "ap", "-q"]
        words += ["--model", "efficientnet-lite0", "--positive", "second"]
        for title, out in zip(TARGETS, ("one", "two"), strict=True):
            cost = cost_of([*words, "--out", str(place / "runs" / out)])
            rows.append(_row(title, number, cost, place / "runs" / out))
            print(rows[-1], flush=True)
    if number == PICTURES:
        title = f"From {number:,} pictures of {SIDE} × {SIDE} to a trained committee"
        record("pictures_cost", title, "python paper/benchmarks/bench_pictures.py", rows)


def _row(title: str, number: int, cost: dict[str, float], run: Path) -> dict[str, Any]:
    metrics = json.loads((run / "metrics.json").read_text())
    return {
        "what": f"{title}, {number:,} pictures",
        "processor minutes / 2": f"{cost['seconds'] / 120:.1f}",
        "wall minutes": f"{cost['wall'] / 60:.1f}",
        "peak MB": f"{cost['megabytes']:.0f}",
        "AP, test": f"{metrics['test']['metric']:.4f}",
        "target": TARGETS[title],
    }


if __name__ == "__main__":
    main()
