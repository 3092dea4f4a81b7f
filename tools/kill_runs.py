"""Streamed runs killed by SIGKILL at random points and resumed: each must end as one that nobody disturbed did.

python tools/kill_runs.py [--times 20] [--seed 0] [--kind ensemble | csv] [--rows 1000]

A point is drawn from all the fail points that a run passes (`aimfor.failpoints`): training, saving, growing trees,
writing results. Python, torch and aimfor are imported once and every run is a fork, so that a trial takes a second.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from aimfor import failpoints
from aimfor.__main__ import main as aimfor

#: Points are counted, and none of them is the last.
NOWHERE = "*:0=SIGKILL"

#: What a run imports on its way.
IMPORTED = ("torch._dynamo", "lightgbm", "aimfor.cli.main", "aimfor.cli.progress", "aimfor.runs.stream")

KINDS = {
    "ensemble": [],
    "csv": ["--members", "linear,trees"],
}


def write(folder: Path, kind: str, n: int, files: int = 4) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    folder.mkdir(parents=True)
    for number in range(files):
        rng = np.random.default_rng(number)
        x = rng.standard_normal((n, 3))
        y = (x.sum(1) + rng.standard_normal(n) > 1).astype(np.int8)
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})
        if kind == "csv":
            csv.write_csv(table, folder / f"{number}.csv")
        else:
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=200)


def forked(function: Callable[[], object]) -> int:
    """Runs it in a child; its exit code, minus the signal's number where one ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(function() or 0)  # type: ignore[call-overload]
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def start(data: Path, out: Path, kind: str, point: str = NOWHERE) -> int:
    """Starts the run, or goes on with it; the points that it passed are in a file beside the folder."""
    words = ["train", str(data), "--target", "y", "--metric", "auroc", *KINDS[kind], "--out", str(out)]
    if (out / "config.json").exists():
        words = ["train", "--resume", str(out)]

    def run() -> int:
        os.environ[failpoints.VARIABLE] = point
        try:
            return aimfor([*words, "--quiet"])
        finally:
            out.with_suffix(".points").write_text(str(failpoints.passed[point]))

    return forked(run)


def difference(ours: Path, theirs: Path) -> str | None:
    """The first file of the two runs that is not the same, or None. Seconds may differ, and nothing else."""
    for path in sorted(theirs.rglob("*.safetensors")):
        mine, other = load_file(ours / path.relative_to(theirs)), load_file(path)
        if mine.keys() != other.keys() or not all(torch.equal(mine[name], other[name]) for name in other):
            return str(path.relative_to(theirs))
    for path in sorted([*theirs.rglob("*.json"), *theirs.rglob("*.txt"), *theirs.rglob("*.jsonl")]):
        if _timeless(ours / path.relative_to(theirs)) != _timeless(path):
            return str(path.relative_to(theirs))
    files = [{str(one.relative_to(run)) for one in run.rglob("*") if one.is_file()} for run in (ours, theirs)]
    return None if files[0] == files[1] else f"files {sorted(files[0] ^ files[1])}"


def _timeless(path: Path) -> object:
    text = path.read_text() if path.exists() else ""
    if path.suffix == ".jsonl":
        return [_without_seconds(json.loads(line)) for line in text.splitlines()]
    return _without_seconds(json.loads(text)) if path.suffix == ".json" and text else text


def _without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_seconds(one) for key, one in value.items() if key != "seconds"}
    return [_without_seconds(one) for one in value] if isinstance(value, list) else value


def trials(times: int, seed: int, kind: str, rows: int, folder: Path) -> list[str]:
    """What went wrong; nothing if all is well."""
    for module in IMPORTED:
        importlib.import_module(module)
    chance, wrong = random.Random(seed), list[str]()
    data, calm = folder / "rows", folder / "calm"
    assert forked(lambda: write(data, kind, rows)) == 0
    assert start(data, calm, kind) == 0
    points = int(calm.with_suffix(".points").read_text())
    for trial in range(times):
        out = folder / f"killed-{trial}"
        point = chance.randint(1, points)
        code = start(data, out, kind, f"*:{point}=SIGKILL")
        if code != -signal.SIGKILL:
            wrong.append(f"trial {trial}: the run that was to be killed at point {point} of {points} ended with {code}")
            continue
        begun = (out / "cells").exists()
        if not (out / "metrics.json").exists():
            code = start(data, out, kind)
            if code != 0:
                wrong.append(f"trial {trial}, killed at point {point}: the run that went on ended with {code}")
                continue
        found = difference(out, calm)
        print(f"trial {trial}: killed at point {point} of {points}, trained {begun}: {found or 'equal'}")
        if found is not None:
            wrong.append(f"trial {trial}, killed at point {point}: {found} differs")
        shutil.rmtree(out)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS], default="ensemble")
    parser.add_argument("--rows", type=int, default=1_000, help="in each of four files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = trials(given.times, given.seed, given.kind, given.rows, Path(folder))
    print("\n".join(wrong) or f"{given.times} runs of kind {given.kind} were killed and resumed; all ended equal")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
