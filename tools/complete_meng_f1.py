"""Adds to the cached cells of `meng_f1` the methods that they lack; what is there stays as it is.

For rivals that were not installed, or not afforded, when a cell was run. Methods do not touch each other (tested), so
one that is added later has the numbers it would have had. Each is written when it is done: stop and go on at will.

    PYTHONPATH=src python tools/complete_meng_f1.py DATA [--only NAME] [--budget SECONDS]
"""

import argparse
import json
import time
from pathlib import Path

from paper import Options
from paper.experiments.meng import f1 as meng_f1
from paper.run import GATHERED, _plain, _write_cells


def lacking(cells, only):
    """Pairs of a method's name and a cell without it, method by method."""
    names = [method.name for method in meng_f1.methods(1)]
    wanted = [name for name in names if only is None or name.startswith(only)]
    return [(name, entry) for name in wanted for entry in cells if name not in entry["result"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", help="methods whose name begins so")
    parser.add_argument("--budget", type=float, default=float("inf"), help="start none after so many seconds")
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    path, start = arguments.out / "meng_f1" / GATHERED, time.monotonic()
    cells = json.loads(path.read_text())
    for name, entry in lacking(cells, arguments.only):
        began = time.monotonic()
        if began - start > arguments.budget:
            break
        options = Options(data=arguments.data, full=entry.get("full", False))
        method = next(m for m in meng_f1.methods(meng_f1.budget(options).steps) if m.name == name)
        entry["result"] |= _plain(meng_f1.measure(entry["cell"], options, [method]))
        entry["seconds"] = round(entry["seconds"] + time.monotonic() - began, 2)
        _write_cells(path, cells)
        print(f"{name}: {entry['cell']}", flush=True)


if __name__ == "__main__":
    main()
