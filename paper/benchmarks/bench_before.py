"""Is anything slower than it was? The same calls in this checkout and in an older one, turn by turn.

    python paper/benchmarks/bench_before.py [--commit 1e704a8] [--only auroc]

The older sources are checked out for the time of the run. Each checkout has a process of its own, which answers one
call at a time, so that a busy machine slows both alike. Times are medians of CPU time on one thread. Engines are named,
because defaults have changed: what is compared is the code.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from common import record

ROOT = Path(__file__).parents[2]
#: The last commit before the packages were named as their engines.
BEFORE = "1e704a8"
WARM_UP, ROUNDS = 3, 31
#: By name: what is prepared once, and what is timed. Only what both checkouts have under the same name.
CASES = {
    **{
        f"{metric}, {engine}, n = {n:,}": (f"step = loss({metric!r}, aimfor.{engine}(), {n})", "step()")
        for metric, engine, n in (
            ("auroc", "SortedEngine", 128),
            ("auroc", "SortedEngine", 8_192),
            ("auroc", "SortedEngine", 1_000_000),
            ("ap", "DirectEngine", 128),
            ("ap", "DirectEngine", 65_536),
            ("f1", "DirectEngine", 8_192),
            ("iou", "DirectEngine", 8_192),
            ("ndcg", "DirectEngine", 8_192),
            ("f1", "LPEngine", 128),
            ("f1", "LPEngine", 8_192),
            ("recall@precision=0.9", "RateEngine", 512),
        )
    },
    "auc_mu, SortedEngine, n = 8,192": (
        """
t = torch.randint(10, (8192,), generator=g)
s = torch.randn(8192, 10, generator=g).requires_grad_()
f = aimfor.MetricLoss("auc_mu", aimfor.SortedEngine())
def step(): s.grad = None; f(s, t).backward()
""",
        "step()",
    ),
    "lp.solve, 32 programs of 200 rows and 50 variables, both passes": (
        """
A = torch.randn(32, 200, 50, generator=g, dtype=torch.float64)
x0 = torch.randn(32, 50, generator=g, dtype=torch.float64)
b = (A @ x0[..., None])[..., 0] + torch.rand(32, 200, generator=g, dtype=torch.float64)
c = -(A.transpose(1, 2) @ torch.rand(32, 200, 1, generator=g, dtype=torch.float64))[..., 0]
c.requires_grad_()
def step(): c.grad = None; aimfor.lp.solve(c, A, b).value.sum().backward()
""",
        "step()",
    ),
    "lagrangian.project_cap, n = 1,000,000": (
        "from aimfor.lagrangian import project_cap\nt = torch.randn(1_000_000, generator=g)\ne = torch.tensor(0.1)",
        "project_cap(e, t)",
    ),
    **{
        f"exact {metric}, n = 1,000,000": (
            f"m = aimfor.MetricLoss({metric!r}).metric\ns, t = batch(1_000_000)",
            "m.value(s, t)",
        )
        for metric in ("auroc", "ap", "ndcg", "f1")
    },
}
WORKER = """
import sys, time, torch, aimfor, aimfor.lp
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
def batch(n):
    t = (torch.rand(n, generator=g) < 0.1).long()
    return torch.randn(n, generator=g) + t, t
def loss(name, engine, n):
    s, t = batch(n)
    s.requires_grad_()
    f = aimfor.MetricLoss(name, engine)
    def step():
        s.grad = None
        f(s, t).backward()
    return step
space = dict(globals())
print(aimfor.__file__, flush=True)
for line in sys.stdin:
    kind, code = eval(line)
    if kind == "set":
        space = dict(globals())
        exec(code, space)
        print("ready", flush=True)
    else:
        compiled = compile(code, "timed", "exec")
        start = time.process_time()
        exec(compiled, space)
        print(time.process_time() - start, flush=True)
"""


class Checkout:
    """A process that runs calls with the sources of one checkout."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = Path(self._answer())
        if not found.is_relative_to(folder.resolve()):
            raise SystemExit(f"{folder}: its sources were not used, but {found}")

    def prepare(self, code: str) -> None:
        self._say("set", code)

    def seconds(self, code: str) -> float:
        return float(self._say("time", code))

    def _say(self, kind: str, code: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{(kind, code)!r}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a checkout could not run this case; its error is above")
        return line.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default=BEFORE, help="of the older checkout")
    parser.add_argument("--only", default="", help="cases whose names contain this; nothing is recorded")
    options = parser.parse_args()
    with older(options.commit) as before:
        checkouts = {"before": Checkout(before), "now": Checkout(ROOT)}
        rows = [compare(checkouts, name) for name in CASES if options.only in name]
    if not options.only and options.commit == BEFORE:
        title = f"The same calls before the packages were arranged anew ({BEFORE}) and now"
        record("before", title, "python paper/benchmarks/bench_before.py", rows)


@contextmanager
def older(commit: str) -> Iterator[Path]:
    """The sources of a commit, in a folder that goes away."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def compare(checkouts: dict[str, Checkout], name: str) -> dict[str, Any]:
    """One row: medians of both, their calls in turn."""
    setting, timed = CASES[name]
    times: dict[str, list[float]] = {which: [] for which in checkouts}
    for checkout in checkouts.values():
        checkout.prepare(setting)
    for turn in range(WARM_UP + ROUNDS):
        for which, checkout in checkouts.items():
            took = checkout.seconds(timed)
            if turn >= WARM_UP:
                times[which].append(took)
    before, now = (statistics.median(times[which]) for which in ("before", "now"))
    row = {
        "call": name,
        "before, ms": round(1e3 * before, 2),
        "now, ms": round(1e3 * now, 2),
        "now / before": round(now / before, 2),
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
