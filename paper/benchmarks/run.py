"""Every benchmark, one after the other, and the page they make: `make bench`.

    python paper/benchmarks/run.py [--only sorted curves …] [--since 2026-11-18] [--list]

What is run are the commands that stand on docs/benchmarks.md, so that every row of it is measured again, and scripts
that have not recorded anything yet. Each runs in a process of its own; one that fails keeps the rows of its last run,
and is named. So are the peers that are not installed: a table without a peer is not one in which it lost. Commands with
the word DATA want the folder of data sets in AIMFOR_DATA. All together take half an hour to hours: `--since` goes on
with a run that was stopped, and leaves out what was measured on that day or later.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import peers
import render

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def recorded() -> dict[str, dict[str, str]]:
    """Commands in the order of the page, each with its tables and the days on which they were measured."""
    found: dict[str, dict[str, str]] = {}
    for tables in render.chapters().values():
        for name, document in tables.items():
            found.setdefault(str(document["command"]), {})[name] = str(document["date"])
    return found


def commands() -> list[str]:
    """Each once, in the order of the page, then scripts without a record."""
    stored = list(recorded())
    known = " ".join(stored)
    fresh = [path.name for path in sorted(HERE.glob("bench_*.py")) if path.name not in known]
    return [*stored, *(f"python paper/benchmarks/{name}" for name in fresh)]


def is_done(days: Collection[str], entry: Mapping[str, Any], since: str | None) -> bool:
    """Whether all tables of a command are that new, and its last start here came to its end.

    The second, because some scripts record a table row by row: one that was stopped has a new day on a part of it.
    """
    return since is not None and bool(days) and min(days) >= since and bool(entry.get("finished", True))


def words(command: str, data: str | None) -> list[str] | None:
    """The command for this interpreter; None if it wants data and there are none."""
    parts = shlex.split(command)
    if "DATA" in parts and data is None:
        return None
    return [sys.executable, *(str(data) if part == "DATA" else part for part in parts[1:])]


def measure(command: str, log: dict[str, Any]) -> str:
    """Runs one command and notes in the log how long it took; returns what became of it, in a line."""
    call = words(command, os.environ.get("AIMFOR_DATA"))
    if call is None:
        return "left out, AIMFOR_DATA is not set"
    missing = peers.missing_for(command)
    if missing is not None:
        return f"left out, {missing} is not installed"
    began, today = time.monotonic(), datetime.date.today().isoformat()
    entry = log["commands"][command] = {"date": today, "minutes": None, "finished": False}
    render.write_log(log)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    code = subprocess.run(call, env=environment, cwd=ROOT, check=False).returncode
    wrong = f"failed with code {code}, the page keeps its last rows" if code else not_measured(command, today)
    entry |= {"minutes": round((time.monotonic() - began) / 60, 1), "finished": not wrong}
    render.write_log(log)
    return wrong or f"{entry['minutes']} min"


def not_measured(command: str, today: str) -> str:
    """Empty if every table that stands under the command is of today: a script may keep rows, or name another one."""
    days = recorded().get(command, {})
    old = [table for table, day in days.items() if day < today]
    if not days:
        return "failed, no table stands under this command"
    return f"failed, ended well without measuring again: {', '.join(old)}" if old else ""


def chosen(only: Sequence[str], since: str | None, log: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(to be run, left out because they are new enough)."""
    days = recorded()
    asked = [one for one in commands() if not only or any(word in one for word in only)]
    done = [one for one in asked if is_done(days.get(one, {}).values(), log["commands"].get(one, {}), since)]
    return [one for one in asked if one not in done], done


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="commands that contain one of these words")
    parser.add_argument("--since", type=datetime.date.fromisoformat, help="leave out what was measured since that day")
    parser.add_argument("--list", action="store_true", help="say what would be run, and how long it took the last time")
    return parser.parse_args()


def main() -> int:
    arguments, log = parse(), render.read_log()
    to_run, done = chosen(arguments.only, arguments.since and arguments.since.isoformat(), log)
    if arguments.list:
        for command in to_run:
            minutes = log["commands"].get(command, {}).get("minutes")
            print(command if minutes is None else f"{command}    ({minutes} min)")
        return 0
    if to_run:
        log |= {"date": datetime.date.today().isoformat(), "peers": peers.versions()}
    became: dict[str, str] = {}
    try:
        for command in to_run:
            print(f"\n{command}", flush=True)
            became[command] = measure(command, log)
            print(f"{command}: {became[command]}", flush=True)
    finally:
        render.main()
    print("\n".join(("", *summary(became, done, log["peers"]))))
    return 1 if any(text.startswith("failed") for text in became.values()) else 0


def summary(became: Mapping[str, str], done: Sequence[str], versions: Mapping[str, str | None]) -> list[str]:
    """What was run and what became of it, failures last, so that they are seen."""
    lines = [f"{command}: measured already" for command in done]
    for failed in (False, True):
        lines += [f"{command}: {text}" for command, text in became.items() if text.startswith("failed") == failed]
    absent = [name for name, version in versions.items() if version is None]
    return [*lines, f"not installed, and so not measured: {', '.join(absent) or 'none'}"]


if __name__ == "__main__":
    raise SystemExit(main())
