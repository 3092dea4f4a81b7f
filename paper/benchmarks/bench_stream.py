"""Training on a table on disk: the loader alone, its share of a step, and whole runs under a memory limit.

    python paper/benchmarks/bench_stream.py [--only loader fast members levels trees] [--keep]

Each part has its own number of rows and its own limit (`PARTS`), and is recorded when it is finished. The limit is a
memory cgroup (version 1); making one takes the right to do so. Rows are written to a folder that goes away, unless it
is to be kept: 20 million take 3.4 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from common import record

from aimfor.cli.options import bytes_of
from aimfor.data.chunks import open_table
from aimfor.runs.survey import HashSplit, Reader, Survey
from aimfor.targets.classes import labels_of_counts

COLUMNS = 20
FILE_ROWS = 500_000
#: Part → rows, memory limit, and what `aimfor train` is asked for.
PARTS: dict[str, tuple[int, str, list[str]]] = {
    "loader": (2_000_000, "", []),
    "fast": (20_000_000, "1.5GB", ["--fast"]),
    "members": (2_000_000, "900MB", []),
    "levels": (10_000_000, "1GB", ["--fast", "--column", "members=category"]),
    "trees": (2_000_000, "", []),
}


def make(folder: Path, rows: int) -> None:
    """Normal columns, an interaction, a tenth of positives; the same rows for the same number of them."""
    folder.mkdir(parents=True)
    for number, begin in enumerate(range(0, rows, FILE_ROWS)):
        rng = np.random.default_rng(number)
        n = min(FILE_ROWS, rows - begin)
        x = rng.standard_normal((n, COLUMNS))
        y = x[:, :5].sum(1) + x[:, 5] * x[:, 6] + 1.5 * rng.standard_normal(n) > 3.5
        columns = {f"c{i}": x[:, i] for i in range(COLUMNS)} | {"y": y.astype(np.int8)}
        pq.write_table(pa.table(columns), folder / f"{number:04d}.parquet", row_group_size=65536)


def make_levels(folder: Path, levels: int) -> None:
    """Four number columns and a text that every row has for itself alone."""
    folder.mkdir(parents=True)
    for number, begin in enumerate(range(0, levels, FILE_ROWS)):
        rng, n = np.random.default_rng(number), min(FILE_ROWS, levels - begin)
        x = rng.standard_normal((n, 4))
        y = (x.sum(1) + rng.standard_normal(n) > 2.5).astype(np.int8)
        who = pc.binary_join_element_wise("user", pa.array(np.arange(begin, begin + n)).cast(pa.string()), "-")
        columns = {f"c{i}": x[:, i] for i in range(4)} | {"who": who, "y": y}
        pq.write_table(pa.table(columns), folder / f"{number:04d}.parquet", row_group_size=65536)


def reader_of(folder: Path, units: int) -> Reader:
    """On the first units only: speed is a matter of units, not of their number."""
    table, split, survey = open_table(str(folder)), HashSplit("y", 0.05, 0), Survey()
    table.units = table.units[:units]
    for number in range(len(table.units)):
        survey.add(table, number, split)
    labels = labels_of_counts(survey.class_counts(), binary=True)
    return Reader(table, split, survey.encoder(split, None), labels, survey.train, survey.digests)


def cpu_seconds(function: object, repeats: int = 5) -> float:
    """The best of a few: other programs can only slow it down."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()  # type: ignore[operator]
        best = min(best, time.process_time() - start)
    return float(best)


def measure_loader(folder: Path) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    reader = reader_of(folder, 8)
    rows, units = sum(reader.train.values()), range(len(reader.table.units))
    read = cpu_seconds(lambda: [reader.table.arrow(number) for number in units])
    load = cpu_seconds(lambda: sum(len(reader.read(number)[1]) for number in units))
    return [
        {
            "what": "reader: read, hash, split, encode",
            "million rows per CPU-second": f"{rows / load / 1e6:.2f}",
            "of which Arrow reads": f"{100 * read / load:.0f} %",
            "target": "≥ 1.5",
        }
    ]


def train(folder: Path, memory: str, words: list[str]) -> dict[str, float]:
    """A whole command in a memory cgroup: what it took, and what it reached."""
    out, group = folder.parent / f"{folder.name}_run", Path("/sys/fs/cgroup/memory/aimfor_bench")
    shutil.rmtree(out, ignore_errors=True)
    group.mkdir(exist_ok=True)
    (group / "memory.limit_in_bytes").write_text(str(bytes_of(memory)))
    (group / "memory.max_usage_in_bytes").write_text("0")
    command = [sys.executable, "-m", "aimfor", "train", str(folder), "--target", "y", "--metric", "auroc"]
    command += [*words, "--memory", memory, "--quiet", "--out", str(out)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    inside = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    subprocess.run(["sh", "-c", inside, "sh", *command], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    metrics = json.loads((out / "metrics.json").read_text())
    failures = int((group / "memory.failcnt").read_text())
    print(words, "pages taken back at the limit:", failures, metrics["notes"], flush=True)
    return {
        "wall": time.monotonic() - began,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "megabytes": after.ru_maxrss / 1024,
        "auroc": metrics["test"]["metric"],
        "rows": metrics["rows"]["train"],
    }


def rivals(folder: Path, rows: int) -> list[dict[str, object]]:
    """Boosted trees in memory on a sample (the first files), judged on the file after it."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    files = sorted(folder.glob("*.parquet"))
    count = min(len(files) - 1, -(-rows // FILE_ROWS))
    tables = [pq.read_table(files[i]).to_pandas() for i in (*range(count), count)]
    y = np.concatenate([one.pop("y").to_numpy() for one in tables[:-1]])
    x, judge, truth = np.concatenate([one.to_numpy() for one in tables[:-1]]), tables[-1], tables[-1].pop("y")
    found = []
    for name, model in (
        ("LightGBM, 100 trees", LGBMClassifier(n_jobs=1, verbose=-1)),
        ("HistGradientBoosting", HistGradientBoostingClassifier(early_stopping=False)),
    ):
        start = time.process_time()
        model.fit(x, y)
        seconds = time.process_time() - start
        value = roc_auc_score(truth, model.predict_proba(judge.to_numpy())[:, 1])
        found.append(
            {
                "model, in memory": name,
                "training rows": f"{len(y):,}",
                "CPU s per million training rows": f"{1e6 * seconds / len(y):.1f}",
                "AUROC on 500,000 other rows": f"{value:.4f}",
            }
        )
    return found


def row(rows: int, what: str, memory: str, found: dict[str, float]) -> dict[str, object]:
    return {
        "rows": f"{rows:,}",
        "`aimfor train` with": what,
        "limit": memory,
        "peak MB of a process": f"{found['megabytes']:.0f}",
        "CPU s, whole command": f"{found['cpu']:.0f}",
        "CPU s per million training rows": f"{1e6 * found['cpu'] / found['rows']:.1f}",
        "AUROC on test rows": f"{found['auroc']:.4f}",
    }


def run(part: str, place: Path) -> None:
    """Measures one part and records it. Parts with the same rows share a folder."""
    rows, memory, words = PARTS[part]
    folder = place / f"{'levels' if part == 'levels' else 'rows'}_{rows}"
    if not folder.exists():
        (make_levels if part == "levels" else make)(folder, rows)
    if part == "loader":
        title, table = "Reader of tables on disk, 20 float64 columns", measure_loader(folder)
    elif part == "trees":
        title, table = "Boosted trees in memory on a sample of the same rows", rivals(folder, 1_000_000)
    else:
        title = f"`{' '.join(['aimfor train', *words])}` on a folder of Parquet files in a memory cgroup"
        if part == "levels":
            title = "Ten million levels in a column, each of one row, in a memory cgroup"
        table = [row(rows, " ".join(words), memory, train(folder, memory, words))]
    record(f"stream_{part}", title, f"python paper/benchmarks/bench_stream.py --only {part}", table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--keep", type=Path, help="a folder for the rows; those that are there are used")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = given.keep or Path(temporary)
        if len(given.only) == 1:
            run(given.only[0], place)
            return
        for part in given.only:  # the peak memory of children is that of all that a process ever had
            subprocess.run([sys.executable, __file__, "--only", part, "--keep", str(place)], check=True)


if __name__ == "__main__":
    main()
