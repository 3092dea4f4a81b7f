"""A stranger's data: every set trains and reports with one command and no option but target and metric.

    python paper/benchmarks/strangers.py [--data FOLDER] [--only NAME …]     (with --only nothing is recorded)

The folder (AIMFOR_DATA) holds the 24 small tables, Adult, bank marketing, credit-card fraud, and cats and dogs, from
which a folder of PNG files is made. Nothing is tuned here: the numbers are what a newcomer gets at the first try.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import record
from cost import cost_of


def png_folder(source: Path, out: Path) -> Path:
    """300 cats and 60 dogs as PNG files in one subfolder per class."""
    from PIL import Image

    with np.load(source) as file:
        images, labels = file["x"], file["y"]
    for name, label, count in (("cat", 0, 300), ("dog", 1, 60)):
        folder = out / "pictures" / name
        folder.mkdir(parents=True)
        for i in np.flatnonzero(labels == label)[:count]:
            Image.fromarray(images[i]).save(folder / f"{i}.png")
    return out / "pictures"


def sets(data: Path, out: Path) -> list[tuple[str, Path, str | None, str]]:
    """(name, file or folder, target, metric)."""
    small = [(path.stem, path, "y", "f1") for path in sorted((data / "imbalanced_small").glob("*.npz"))]
    return [
        *small,
        ("adult", data / "adult" / "train.csv.gz", "income", "auroc"),
        ("bank_marketing", data / "bank_marketing" / "train.csv.gz", "y", "f1"),
        ("creditcard_fraud", data / "creditcard_fraud" / "train.npz", "y", "ap"),
        ("cats_and_dogs_png", png_folder(data / "cats_vs_dogs" / "train.npz", out), None, "auroc"),
    ]


def loudest(metrics: dict[str, Any]) -> str:
    """Who decides: the member of a committee with the largest weight, or the loss that gave a single network's."""
    if "committee" in metrics:
        member = max(metrics["committee"]["members"], key=lambda one: float(one["weight"]))
        return f"{member['title']} {member['weight']:.2f}"
    return str(metrics["chosen"]["loss"]) + (", balanced" if metrics["chosen"]["balanced"] else "")


def one(name: str, path: Path, target: str | None, metric: str, out: Path) -> dict[str, Any]:
    """One command. Seconds are CPU time of all its processes: the machine may be busy."""
    words = ["train", str(path), *(["--target", target] if target else []), "--metric", metric, "--holdout", "0.2"]
    row: dict[str, Any] = {"set": name, "metric": metric}
    try:
        cost = cost_of([sys.executable, "-m", "aimfor", *words, "--out", str(out / name)])
    except RuntimeError as error:
        return row | {"message": str(error).strip().splitlines()[-1]}
    metrics = json.loads((out / name / "metrics.json").read_text())
    return row | {
        "validation": round(metrics["expected"]["metric"], 4),
        "test": round(metrics["test"]["metric"], 4),
        "test positives": metrics["test"]["positives"],
        "loudest member": loudest(metrics),
        "report kB": round((out / name / "report.html").stat().st_size / 1000),
        "seconds": round(cost["seconds"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("AIMFOR_DATA"))
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("say where the data is: --data FOLDER or AIMFOR_DATA")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        wanted = [s for s in sets(Path(arguments.data), Path(folder)) if not arguments.only or s[0] in arguments.only]
        rows = []
        for row in pool.map(one, *zip(*wanted, strict=True), [Path(folder)] * len(wanted)):
            rows.append(row)
            print(row, flush=True)
    keys = {key: None for row in rows for key in row}
    table = [{key: row.get(key, "") for key in keys} for row in rows]
    if not arguments.only:
        title = "A stranger's data: one command each, no option but target and metric"
        record("strangers", title, "python paper/benchmarks/strangers.py --data DATA", table)


if __name__ == "__main__":
    main()
