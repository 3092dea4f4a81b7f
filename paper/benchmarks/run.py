"""Every benchmark, one after the other, and the page they make: `make bench`.

    python paper/benchmarks/run.py [--only sorted curves …] [--list]

What is run are the commands that stand on docs/benchmarks.md, so that every row of it is measured again, and scripts
that have not recorded anything yet. Each runs in a process of its own; one that fails keeps the rows of its last run,
and is named. So are the peers that are not installed: a table without a peer is not one in which it lost. Commands with
the word DATA want the folder of data sets in AIMFOR_DATA. All together take hours on one core.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import render

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
#: Peers that some script measures, by the module that must be there.
PEERS = ("libauc", "ap_perf", "cvxpylayers", "qpth", "moreau", "cooper", "fairlearn", "torchmetrics", "lightgbm")


def commands() -> list[str]:
    """Each once, in the order of the page, then scripts without a record."""
    stored = [str(json.loads(path.read_text())["command"]) for path in sorted(render.RESULTS.glob("*.json"))]
    stored = [command.removeprefix("PYTHONPATH=src ") for command in stored]
    known = " ".join(stored)
    fresh = [
        f"python paper/benchmarks/{path.name}" for path in sorted(HERE.glob("bench_*.py")) if path.name not in known
    ]
    return list(dict.fromkeys(stored + fresh))


def words(command: str, data: str | None) -> list[str] | None:
    """The command for this interpreter; None if it wants data and there are none."""
    parts = shlex.split(command)
    if "DATA" in parts and data is None:
        return None
    return [sys.executable, *(str(data) if part == "DATA" else part for part in parts[1:])]


def absent_peers() -> list[str]:
    return [peer for peer in PEERS if importlib.util.find_spec(peer) is None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="commands that contain one of these words")
    parser.add_argument("--list", action="store_true", help="say what would be run")
    arguments = parser.parse_args()
    chosen = [one for one in commands() if not arguments.only or any(word in one for word in arguments.only)]
    if arguments.list:
        print("\n".join(chosen))
        return 0
    failed = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    for command in chosen:
        call = words(command, os.environ.get("AIMFOR_DATA"))
        print(f"{command}{'' if call else ': left out, AIMFOR_DATA is not set'}", flush=True)
        if call and subprocess.run(call, env=environment, cwd=ROOT, check=False).returncode:
            failed.append(command)
    if absent_peers():
        print(f"not installed, and so not measured: {', '.join(absent_peers())}")
    for command in failed:
        print(f"failed, the page keeps its last rows: {command}")
    render.main()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
