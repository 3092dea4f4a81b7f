"""SIGINT and SIGTERM at random points of `aimfor train` and `aimfor compare`.

    python tools/interrupts.py --moments 50 --seed 0

Each command first runs to its end, which says how many fail points it passes (`aimfor.failpoints`) and what it finds.
Then it is started again and again and sent a signal at one of them, drawn at random: the seed alone says which. It must
be out within ``--limit`` seconds, leave no process and no half-written file behind, and go on from there (``--resume``,
or the same command) to what the uninterrupted run found, bit for bit. Runs are forked from one process that has
imported everything.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aimfor import failpoints

PATIENCE = 600.0
#: Points are counted, and none of them is the last.
NOWHERE = "*:0=SIGSTOP"


@dataclass(frozen=True)
class Command:
    """Words after ``aimfor``, without the folder."""

    name: str
    words: tuple[str, ...]

    def start(self, folder: Path) -> list[str]:
        return [*self.words, "--out", str(folder)]

    def go_on(self, folder: Path) -> list[str] | None:
        """None where the signal came before anything was written."""
        if self.name == "compare":
            return self.start(folder)
        if (folder / "metrics.json").exists() or not (folder / "config.json").exists():
            return None
        return ["train", "--resume", str(folder), "-q"]

    def found(self, folder: Path) -> Any:
        """What the run is about, without times."""
        if self.name == "compare":
            parts = json.loads((folder / "comparison.json").read_text())["parts"]
            return [[(row["name"], row["test"], row["validation"]) for row in part["table"]] for part in parts]
        metrics = json.loads((folder / "metrics.json").read_text())
        return [metrics[key] for key in ("test", "expected", "threshold", "importance")]


def commands(table: Path) -> list[Command]:
    data = (str(table), "--target", "label", "--metric", "f1")
    return [
        Command("ensemble", ("train", *data, "--members", "linear,trees", "-q")),
        Command("compare", ("compare", *data, "--members", "linear", "--seeds", "2", "--jobs", "1")),
    ]


def write_table(path: Path) -> None:
    rng = random.Random(0)
    lines = ["a,b,label"]
    for _ in range(200):
        a, b = rng.gauss(0, 1), rng.gauss(0, 1)
        lines.append(f"{a:.4f},{b:.4f},{int(a + rng.gauss(0, 0.7) > 0.8)}")
    path.write_text("\n".join(lines) + "\n")


def fork(words: list[str], log: Path, point: str = "") -> int:
    """The program in a process and group of its own, with this fail point; returns its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        os.environ[failpoints.VARIABLE] = point
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["aimfor", *words]
        from aimfor.cli.main import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def used(process: int) -> float:
    """Seconds of processor time so far; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait(process: int, patience: float = PATIENCE) -> tuple[int | None, float]:
    """Exit code (negative: a signal; None: it had to be killed) and the processor time last seen."""
    end, last = time.monotonic() + patience, 0.0
    while time.monotonic() < end:
        last = max(last, used(process))
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), last
        time.sleep(0.01)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None, last


def left_over(process: int, folder: Path) -> str | None:
    """Processes of the group that live on, and files begun but not finished."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, 0)
        os.killpg(process, signal.SIGKILL)
        return "a process lived on"
    begun = [path for path in folder.rglob("*") if path.name.endswith(".part") or path.name.startswith(".config.")]
    return f"half-written: {begun}" if begun else None


def one_moment(
    command: Command, place: Path, point: int, number: signal.Signals, wanted: Any, limit: float
) -> tuple[str, float]:
    """A finding (empty: none), and the seconds from the signal to the end."""
    folder, log = place / "run", place / "log.txt"
    process = fork(command.start(folder), log, f"*:{point}=SIGSTOP")
    _, status = os.waitpid(process, os.WUNTRACED)
    what = f"{command.name}, {number.name} at point {point}"
    if not os.WIFSTOPPED(status):
        return f"{what}: it ended before: {log.read_text()[-300:]}", 0.0
    before, began = used(process), time.monotonic()
    os.kill(process, number)
    os.kill(process, signal.SIGCONT)
    code, after = wait(process)
    wall, own = time.monotonic() - began, max(0.0, after - before)
    if code not in (0, 130, -number):
        return f"{what}: exit code {code}: {log.read_text()[-300:]}", wall
    # On a crowded machine a process waits for its turn, so its own time counts.
    if code != 0 and min(wall, own + limit / 2) > limit:
        return f"{what}: out after {wall:.1f} s ({own:.1f} s of its own)", wall
    remains = left_over(process, folder)
    if remains:
        return f"{what}: {remains}", wall
    words = command.go_on(folder)
    if words is not None:
        code, _ = wait(fork(words, log), 10 * PATIENCE)
        if code != 0:
            return f"{what}: going on ended with {code}: {log.read_text()[-300:]}", wall
    if words is not None or code == 0:
        found = command.found(folder)
        if found != wanted:
            return f"{what}: it went on to something else", wall
    return "", wall


def whole_run(command: Command, folder: Path) -> tuple[int, Any]:
    """Points and result of the uninterrupted run, in this process: whatever is imported late is there afterwards."""
    from typer.testing import CliRunner

    from aimfor.cli.main import app

    failpoints.passed.clear()
    os.environ[failpoints.VARIABLE] = NOWHERE
    done = CliRunner().invoke(app, command.start(folder))
    del os.environ[failpoints.VARIABLE]
    assert done.exit_code == 0, f"{command.name} ended with {done.exit_code}: {done.output}"
    return failpoints.passed[NOWHERE], command.found(folder)


def run(moments: int, seed: int, limit: float) -> tuple[list[str], float, dict[str, int]]:
    """Findings, the longest wait, and how many moments each command had."""
    rng, findings, longest = random.Random(seed), list[str](), 0.0
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_table(place / "t.csv")
        whole: dict[str, tuple[int, Any]] = {}
        for number in range(moments):
            command = commands(place / "t.csv")[number % 3]
            if command.name not in whole:
                whole[command.name] = whole_run(command, place / command.name)
            points, wanted = whole[command.name]
            here = place / str(number)
            here.mkdir()
            sent = rng.choice((signal.SIGINT, signal.SIGTERM))
            finding, wall = one_moment(command, here, rng.randint(1, points), sent, wanted, limit)
            print(f"{number + 1}: {command.name} {sent.name} {wall:.2f} s {finding}", file=sys.stderr, flush=True)
            findings += [finding] if finding else []
            longest, counts[command.name] = max(longest, wall), counts.get(command.name, 0) + 1
    return findings, longest, counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=2.0, help="seconds from the signal to the end")
    given = parser.parse_args()
    findings, longest, counts = run(given.moments, given.seed, given.limit)
    for finding in findings:
        print(finding)
    print(f"{given.moments} moments ({counts}); the longest wait {longest:.2f} s; {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
