"""Test processes: which test covers what, and whether any notices a mutant."""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import time
import traceback
from importlib.machinery import SourceFileLoader
from itertools import accumulate
from pathlib import Path
from typing import Any

from sampling import ROOT, Mutant, mutated, source_of

PACKAGES = ("metrics", "sorted", "lp", "direct", "lagrangian", "rates")
#: Processor time of the tests that one mutant may meet: the quickest first, so that this cuts off the slowest alone.
MOST_SECONDS = 60.0
TOO_SLOW = 71


class _Clock:
    """Tells ``switch`` which test is running, and notes the processor time of each."""

    def __init__(self, switch: Any) -> None:
        self.switch, self.seconds, self.start = switch, {}, 0.0  # type: ignore[var-annotated]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.switch(nodeid)
        self.start = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = round(time.process_time() - self.start, 3)


class _Patience:
    """Ends the process when a test takes ten times its usual processor time: a mutant that never returns."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        signal.signal(signal.SIGVTALRM, lambda *_: os._exit(TOO_SLOW))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 5.0 + 10.0 * self.seconds.get(nodeid, 0.0))


def _pytest(arguments: list[str], plugin: Any = None) -> int:
    import pytest

    quiet = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", "--assert=plain"]
    return int(pytest.main([*quiet, *arguments], plugins=[plugin] if plugin else []))


def in_child(work: Any, log: Path, seconds: float) -> int | None:
    """The exit code of ``work()`` in a forked process, or None where it took too long."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        with log.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            code = 70
            try:
                code = work()
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def baseline(package: str, out: Path) -> dict[str, Any]:
    """For each line the tests that run it, and the time of each test: the package's own tests and the laws."""
    own, laws = measured(package, out), measured("laws", out)
    lines = {
        path: {
            line: own["lines"].get(path, {}).get(line, []) + laws["lines"].get(path, {}).get(line, [])
            for line in {*own["lines"].get(path, {}), *laws["lines"].get(path, {})}
        }
        for path in own["lines"]
    }
    return {"seconds": {**own["seconds"], **laws["seconds"]}, "lines": lines}


def measured(name: str, out: Path) -> dict[str, Any]:
    """One run under coverage, kept in a file: tests/<name> on its package, or the laws on all packages."""
    kept = out / f"{name}.baseline.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    print(f"{name}: which test covers what …", flush=True)
    watched, tests = ((name,), f"tests/{name}") if name in PACKAGES else (PACKAGES, f"tests/test_{name}.py")

    def work() -> int:
        import coverage

        monitor = coverage.Coverage(data_file=None, source=[str(ROOT / "src" / "aimfor" / part) for part in watched])
        monitor.start()
        clock = _Clock(monitor.switch_context)
        code = _pytest([tests], clock)
        monitor.stop()
        data = monitor.get_data()
        lines = {
            str(Path(file).relative_to(ROOT)): {
                str(line): tests for line, tests in data.contexts_by_lineno(file).items() if tests
            }
            for file in data.measured_files()
        }
        kept.write_text(json.dumps({"seconds": clock.seconds, "lines": lines}))
        return code

    if in_child(work, out / f"{name}.baseline.log", 3600) != 0:
        kept.unlink(missing_ok=True)
        raise SystemExit(f"the tests fail without any mutant: see {out / f'{name}.baseline.log'}")
    return measured(name, out)


def covering(mutant: Mutant, known: dict[str, Any]) -> list[str]:
    """The tests that run the mutant's statement, quickest first; all of the package's for what runs at import."""
    lines, seconds = known["lines"].get(mutant.path, {}), known["seconds"]
    first, last = _statement(mutant)
    tests = {test for line in range(first, last + 1) for test in lines.get(str(line), ())}
    chosen = set(seconds) if "" in tests else tests
    ordered = sorted(chosen & set(seconds), key=lambda test: seconds[test])
    spent = accumulate(seconds[test] for test in ordered)
    return [test for test, total in zip(ordered, spent, strict=True) if total <= MOST_SECONDS]


def _statement(mutant: Mutant) -> tuple[int, int]:
    """First and last line of the innermost statement around the mutant, without its body."""
    best = (mutant.line, mutant.line)
    for node in ast.walk(ast.parse(source_of(mutant.path))):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if mutant.line <= max(last, node.lineno):
                best = (node.lineno, max(last, node.lineno))
    return best


def run(mutant: Mutant, tests: list[str], known: dict[str, Any], log: Path) -> str:
    """ "killed", "survived" or "uncovered"."""
    if not tests:
        return "uncovered"
    code, path = mutated(mutant), str(ROOT / mutant.path)

    def work() -> int:
        original = SourceFileLoader.get_code

        def get_code(self: SourceFileLoader, fullname: str) -> Any:
            same = os.path.realpath(self.path) == os.path.realpath(path)
            return compile(code, path, "exec") if same else original(self, fullname)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
        return _pytest(tests, _Patience(known["seconds"]))

    return "survived" if in_child(work, log, 1800.0) == 0 else "killed"
