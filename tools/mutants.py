"""Mutation testing of the core packages: `python tools/mutants.py sorted lp --count 60`, or `make mutants`.

Cosmic Ray knows where code can be mutated and how; this driver draws a sample (a place first, then one mutation of it),
runs the tests that cover the place, quickest first, and stops at the first that fails. A mutant that no test notices is
a survivor: a missing test, or a change without a difference, which is then named with its reason in
`tools/mutants_alike.toml`. Nothing on disk is changed: a mutant lives in a forked process that reads one module from
memory. Results are kept as JSON, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from mutant_operators import OWN

ROOT = Path(__file__).parent.parent
ALIKE = Path(__file__).parent / "mutants_alike.toml"
PACKAGES = ("metrics", "sorted", "lp", "direct", "lagrangian", "rates")
#: Operators that take the same operands.
FAMILIES = (
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Pow"},
    {"BitAnd", "BitOr", "BitXor"},
    {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
)
#: What every test process needs; imported once, before the forks.
HEAVY = ("torch", "numpy", "scipy.optimize", "scipy.sparse.linalg", "sklearn.metrics", "hypothesis", "pytest")


@dataclass(frozen=True)
class Mutant:
    """One change of one file; ``occurrence`` is the operator's own count."""

    path: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}:{self.column} {self.operator} {self.occurrence}"


def operator_named(name: str) -> Any:
    return OWN[name]() if name in OWN else get_operator(name)()


def usable_operators() -> list[str]:
    """Cosmic Ray's operators without those that can only crash, such as a shift of float tensors, and ours."""
    names = [name for name in operator_names() if not get_operator(name).arguments()]
    return [name for name in names if not _only_crashes(name)] + list(OWN)


def _only_crashes(name: str) -> bool:
    parts = name.split("_")
    if "BinaryOperator" in name or "ComparisonOperator" in name:
        return not any({*parts[1:]} <= family for family in FAMILIES)
    return "UnaryOperator" in name and parts[-1] in ("Invert", "Not")


@cache
def source_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def mutants_of(path: str) -> Iterator[Mutant]:
    """Every mutant of a file, but those of annotations, which nothing evaluates."""
    source, skipped = source_of(path), set(_annotation_places(source_of(path)))
    nodes = list(ast_nodes(get_ast(source)))
    for name in usable_operators():
        operator = operator_named(name)
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(places):
            if (line, column) not in skipped:
                yield Mutant(path, line, column, name, occurrence)


def _annotation_places(source: str) -> Iterator[tuple[int, int]]:
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        unread = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            unread.append(node)
        for part in unread:
            if isinstance(part, ast.AST):
                yield from _places(part, lines)


def _places(node: Any, lines: list[str]) -> Iterator[tuple[int, int]]:
    for line in range(node.lineno, node.end_lineno + 1):
        first = node.col_offset if line == node.lineno else 0
        last = node.end_col_offset if line == node.end_lineno else len(lines[line - 1])
        yield from ((line, column) for column in range(first, last))


def sample(package: str, count: int, seed: int) -> list[Mutant]:
    """``count`` places of the package, drawn without repetition, and one mutation of each."""
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for path in sorted((ROOT / "src" / "aimfor" / package).rglob("*.py")):
        for mutant in mutants_of(str(path.relative_to(ROOT))):
            places.setdefault((mutant.path, mutant.line, mutant.column), []).append(mutant)
    draw = random.Random(f"{package} {seed}")
    chosen = draw.sample(sorted(places), min(count, len(places)))
    return [draw.choice(places[place]) for place in chosen]


def mutated(mutant: Mutant) -> str:
    code: str = mutate_code(source_of(mutant.path), operator_named(mutant.operator), mutant.occurrence)
    return code


def change(mutant: Mutant) -> tuple[str, str]:
    """The lines that differ, before and after, without indentation."""
    before, after = source_of(mutant.path).split("\n"), mutated(mutant).split("\n")
    head = next(i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    most, tail = min(len(before), len(after)) - head, 0
    while tail < most and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    return " ".join(line.strip() for line in old), " ".join(line.strip() for line in new)


# ------------------------------------------------------------ test processes


class _Stopwatch:
    """Notes which test is running, how long each took, and whether any failed."""

    def __init__(self, switch: Any) -> None:
        self.switch, self.seconds, self.failed = switch, {}, []  # type: ignore[var-annotated]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.switch(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)


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
        clock = _Stopwatch(monitor.switch_context)
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
    return sorted(chosen & set(seconds), key=lambda test: seconds[test])


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
        return _pytest(tests)

    limit = 20.0 + 6.0 * sum(known["seconds"][test] for test in tests)
    return "survived" if in_child(work, log, limit) == 0 else "killed"


# ------------------------------------------------------------ the run


def alike(mutant: Mutant) -> str | None:
    """Why a mutant makes no difference, where somebody has found that out."""
    before, after = change(mutant)
    for entry in tomllib.loads(ALIKE.read_text(encoding="utf-8")).get("alike", []):
        if entry["file"] == mutant.path and entry["before"] == before and after in entry["after"]:
            return str(entry["why"])
    return None


def report(results: list[dict[str, Any]]) -> str:
    """One line a package and one for all: killed, without difference, survived."""
    rows = []
    for package in (*PACKAGES, "all"):
        mine = [row for row in results if package in (row["package"], "all")]
        if mine:
            count = {kind: sum(row["outcome"] == kind for row in mine) for kind in ("killed", "alike")}
            counted = len(mine) - count["alike"]
            score = 100.0 * count["killed"] / max(counted, 1)
            rows.append(
                f"{package:<11} {len(mine):>4} mutants  {count['killed']:>4} killed  {count['alike']:>3} alike"
                f"  {counted - count['killed']:>3} survived  {score:5.1f} %"
            )
    return "\n".join(rows)


def main() -> None:
    """Runs the sample, package by package, and prints score and survivors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--count", type=int, default=60, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--again", action="store_true", help="run survivors and the coverage again, after new tests")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    for name in HEAVY:
        importlib.import_module(name)
    results = []
    for package in options.packages:
        kept = options.out / f"{package}.{options.seed}.json"
        before = json.loads(kept.read_text()) if kept.exists() else {}
        if options.again:
            (options.out / f"{package}.baseline.json").unlink(missing_ok=True)
            before = {key: row for key, row in before.items() if row["outcome"] == "killed"}
        known, rows = baseline(package, options.out), {}
        for mutant in sample(package, options.count, options.seed):
            row = before.get(mutant.key)
            if row is None:
                start = time.monotonic()
                outcome = run(mutant, covering(mutant, known), known, options.out / f"{package}.log")
                old, new = change(mutant)
                row = {**asdict(mutant), "package": package, "outcome": outcome, "before": old, "after": new}
                row["seconds"] = round(time.monotonic() - start, 1)
            if row["outcome"] != "killed":
                why = alike(mutant)
                row["outcome"] = "alike" if why else "survived" if row["outcome"] == "alike" else row["outcome"]
                print(
                    f"{row['outcome']:<9} {mutant.path}:{mutant.line}\n  - {row['before']}\n  + {row['after']}",
                    flush=True,
                )
            rows[mutant.key] = row
            kept.write_text(json.dumps({**before, **rows}, indent=1))
        results += rows.values()
    print(report(results))


if __name__ == "__main__":
    main()
