"""`make test` in fresh clones: quiet, beside a busy loop on each core, on one core, in another language and time zone.

    python tools/clones.py                      # ten runs: five, three, one and one
    python tools/clones.py --runs quiet=1       # one of them

Every run clones the last commit, makes its environment and runs all tests. The counts go to CONTRIBUTING.md and, with
the output of each run, to ``--out``; what is there already for this commit is not run again. A green clone is removed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, START, END = ROOT / "CONTRIBUTING.md", "<!-- clones -->\n", "<!-- clones end -->\n"
RUNS = {"quiet": 5, "busy": 3, "one core": 1, "elsewhere": 1}
TITLES = {
    "quiet": "`make test`",
    "busy": "`make test` beside a busy loop on each core",
    "one core": "`taskset -c 0 make test`",
    "elsewhere": "`LANG=C TZ=Asia/Kolkata make test` in a path with a space",
}
COUNTS = ("passed", "skipped", "failed", "error")


@contextmanager
def loops(number: int) -> Iterator[None]:
    """So many processes that do nothing but count."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def counted(output: str) -> dict[str, int]:
    """What pytest's last line counts: passed, skipped, failed, errors."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ (passed|failed|errors?)\b.* in ", line)]
    found = dict(
        reversed(pair) for pair in re.findall(r"(\d+) (passed|skipped|failed|error)", lines[-1] if lines else "")
    )
    return {kind: int(found.get(kind, 0)) for kind in COUNTS}


def run(condition: str, commit: str, folder: Path) -> dict[str, Any]:
    """One fresh clone, its tests, and what they counted."""
    home = folder / ("a clone elsewhere" if condition == "elsewhere" else f"clone-{condition.replace(' ', '-')}")
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(home)], check=True)
    subprocess.run(["git", "-C", str(home), "checkout", "-q", commit], check=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if condition == "elsewhere":
        environment |= {"LANG": "C", "TZ": "Asia/Kolkata"}
        environment.pop("LC_ALL", None)
    cores = sorted(os.sched_getaffinity(0))
    pinned = ["taskset", "-c", str(cores[0])] if condition == "one core" else []
    begun = time.monotonic()
    with loops(len(cores) if condition == "busy" else 0):
        done = subprocess.run([*pinned, "make", "test"], cwd=home, env=environment, capture_output=True, text=True)
    log = folder / f"{condition.replace(' ', '-')}.{time.strftime('%H%M%S')}.log"
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode == 0:
        shutil.rmtree(home)
    spent = round(time.monotonic() - begun)
    row = {
        "condition": condition,
        "commit": commit,
        "code": done.returncode,
        "seconds": spent,
        "day": str(date.today()),
    }
    return {**row, **counted(done.stdout), "log": str(log)}


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of CONTRIBUTING.md: a line for each condition."""
    lines = [
        "| run | day | green | passed | skipped | failed | seconds, with the environment |",
        "|---|---|---|---|---|---|---|",
    ]
    for condition in RUNS:
        mine = [row for row in rows if row["condition"] == condition]
        if mine:
            green = sum(row["code"] == 0 for row in mine)
            counts = [" ".join(sorted({f"{row[kind]:,}" for row in mine})) for kind in ("passed", "skipped")]
            failed, spent = sum(row["failed"] + row["error"] for row in mine), sorted(row["seconds"] for row in mine)
            lines.append(
                f"| {TITLES[condition]} | {mine[-1]['day']} | {green} of {len(mine)} | {' | '.join(counts)} | {failed}"
                f" | {spent[0]} to {spent[-1]} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="*", default=[f"{name}={count}" for name, count in RUNS.items()])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "clones")
    options = parser.parse_args()
    wanted = {name: int(count) for name, count in (text.rsplit("=", 1) for text in options.runs)}
    if not set(wanted) <= set(RUNS):
        parser.error(f"--runs: got {', '.join(wanted)}, expected {', '.join(RUNS)}, each with =NUMBER")
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / f"{commit.stdout.strip()[:12]}.json"
    rows: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    for condition, count in wanted.items():
        while sum(row["condition"] == condition for row in rows) < count:
            rows.append(run(condition, commit.stdout.strip(), options.out))
            kept.write_text(json.dumps(rows, indent=1))
            print({name: rows[-1][name] for name in ("condition", "code", *COUNTS, "seconds", "log")}, flush=True)
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(START)
    PAGE.write_text(head + START + table(rows) + END + rest.split(END)[1], encoding="utf-8")
    return 0 if all(row["code"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
