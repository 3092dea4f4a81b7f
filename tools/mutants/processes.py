"""A pytest session that is collected once; every mutant is a fork of it with the code of one file exchanged.

Importing torch and collecting tests takes seconds, a fork hundredths of one. In the fork, each function of the mutated
file gets the code object (and the default arguments) that the mutated source compiles to, so that whoever holds a
reference to the function runs the mutant.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from sampling import ROOT, Mutant, files, mutated, source_of

#: Processor time of the tests that one mutant may meet: the quickest first, so that this cuts off the slowest alone.
MOST_SECONDS = 30.0
#: A test that takes longer is left out.
LONGEST = 3.0
ENGINES = ("sorted", "smooth", "lp", "direct", "lagrangian")
SURVIVED, KILLED, TOO_SLOW, UNFIT, BROKEN = 0, 1, 2, 3, 70


class Session:
    """A pytest plugin that runs ``work(session)`` in place of the tests."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self.work, self.items, self.failed = work, {}, False  # type: ignore[var-annotated]

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed = self.failed or report.failed

    def passes(self, test: str) -> bool:
        """Runs one test here and now."""
        item = self.items[test]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.failed


def start(tests: list[str], work: Callable[[Session], None]) -> None:
    """Collects the tests and calls ``work`` in their place."""
    import pytest

    quiet = ["-q", "-p", "no:cacheprovider", "-n", "0", "--tb=line", "--assert=plain", "-k", "not compile"]
    if pytest.main([*quiet, *tests], plugins=[Session(work)]) == pytest.ExitCode.USAGE_ERROR:
        raise RuntimeError("pytest did not take the words of this tool")


def in_child(work: Callable[[], int], log: Path) -> int:
    """The exit code of ``work()`` in a forked process, with its output in a file."""
    child = os.fork()
    if child == 0:
        with log.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            code = BROKEN
            try:
                code = work()
            except BaseException:
                traceback.print_exc(file=stream)  # sys.stderr is pytest's, which would swallow it
            stream.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ------------------------------------------------------------ which test covers what


def baseline(session: Session, package: str, out: Path) -> dict[str, Any]:
    """For each line of the package the tests that run it, and the processor time of each test; kept in a file."""
    kept = out / f"{package}.baseline.json"
    if not kept.exists():
        print(f"{package}: which of {len(session.items)} tests covers what …", flush=True)
        log = out / f"{package}.baseline.log"
        if in_child(lambda: _measure(session, package, kept), log) != 0:
            kept.unlink(missing_ok=True)
            raise SystemExit(f"a test fails without any mutant: see {log}")
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def concerns(test: str, package: str) -> bool:
    """Of the laws: those of the package's own engine; for rates, those without one; for metrics, all."""
    name, _, parameters = test.partition("[")
    if "test_laws.py" not in name:
        return True
    engines = [engine for engine in ENGINES if engine in parameters.removesuffix("]").split("-")]
    return package in engines if package in ENGINES else package == "metrics" or not engines


def _measure(session: Session, package: str, kept: Path) -> int:
    import coverage

    def stop(*_: Any) -> None:
        raise TimeoutError

    monitor = coverage.Coverage(data_file=None, include=[str(file) for file in files(package)])
    seconds = {}
    signal.signal(signal.SIGVTALRM, stop)
    monitor.start()
    for test in (test for test in session.items if concerns(test, package)):
        monitor.switch_context(test)
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        passed, spent = session.passes(test), time.process_time() - begun
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        if passed:
            seconds[test] = round(spent, 3)
        elif spent < 0.9 * LONGEST:  # the two clocks are not one
            raise RuntimeError(f"{test} fails without any mutant")
        session.failed = False
    monitor.stop()
    data = monitor.get_data()
    lines = {
        str(Path(file).relative_to(ROOT)): {str(line): found for line, found in data.contexts_by_lineno(file).items()}
        for file in data.measured_files()
    }
    kept.write_text(json.dumps({"seconds": seconds, "lines": lines}))
    return 0


def covering(mutant: Mutant, known: dict[str, Any]) -> list[str]:
    """The tests that run the mutant's statement, quickest first; for default arguments, those that run its function."""
    lines, seconds = known["lines"].get(mutant.path, {}), known["seconds"]
    first, last = _statement(mutant)
    tests = {test for line in range(first, last + 1) for test in lines.get(str(line), ())}
    ordered = sorted(tests & set(seconds), key=lambda test: seconds[test])
    spent = accumulate(seconds[test] for test in ordered)
    return [test for test, total in zip(ordered, spent, strict=True) if total <= MOST_SECONDS]


def _statement(mutant: Mutant) -> tuple[int, int]:
    """Lines of the innermost statement around the mutant, without the body of an ``if`` or ``for``."""
    best = (mutant.line, mutant.line)
    for node in ast.walk(ast.parse(source_of(mutant.path))):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if isinstance(node, ast.FunctionDef):
                best = (node.lineno, node.end_lineno or node.lineno)
            elif mutant.line <= max(last, node.lineno):
                best = (node.lineno, max(last, node.lineno))
    return best


# ------------------------------------------------------------ one mutant


def run(session: Session, mutant: Mutant, known: dict[str, Any], log: Path) -> str:
    """ "killed", "survived", "uncovered", or "unfit" for a mutant that cannot be made this way."""
    tests = covering(mutant, known)
    if not tests:
        return "uncovered"

    def work() -> int:
        try:
            exchange(mutant)
        except ValueError:  # without its only `super()` a method has another closure, which Python does not exchange
            return UNFIT
        signal.signal(signal.SIGVTALRM, lambda *_: os._exit(TOO_SLOW))
        for test in tests:
            # A mutant that never returns: ten times the usual time is too much.
            signal.setitimer(signal.ITIMER_VIRTUAL, 5.0 + 10.0 * known["seconds"][test])
            if not session.passes(test):
                return KILLED
        return SURVIVED

    code = in_child(work, log)
    if code == BROKEN:
        raise SystemExit(f"{mutant.key}: see {log}")
    return {SURVIVED: "survived", UNFIT: "unfit"}.get(code, "killed")


def exchange(mutant: Mutant) -> None:
    """Gives the functions of the mutated file their mutated code."""
    path, text = str(ROOT / mutant.path), mutated(mutant)
    new: dict[str, list[CodeType]] = {}
    for code in _codes(compile(text, path, "exec")):
        new.setdefault(code.co_qualname, []).append(code)
    defaults = {
        name: values for name, values in _defaults(text) if (name, values) not in [*_defaults(source_of(mutant.path))]
    }
    for name, functions in functions_by_file()[path].items():
        starts = sorted({function.__code__.co_firstlineno for function in functions})
        for function in functions:
            place = starts.index(function.__code__.co_firstlineno)
            if name in new and place < len(new[name]) and len(new[name]) == len(starts):
                function.__code__ = new[name][place]
                if name in defaults:
                    function.__defaults__, function.__kwdefaults__ = defaults[name]


@cache
def functions_by_file() -> dict[str, dict[str, list[FunctionType]]]:
    """The functions of the package that are alive, by file and qualified name; gathered once, before the forks."""
    found: dict[str, dict[str, list[FunctionType]]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and "aimfor" in thing.__code__.co_filename:
            mine = found.setdefault(os.path.realpath(thing.__code__.co_filename), {})
            mine.setdefault(thing.__code__.co_qualname, []).append(thing)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code objects of all functions, in the order of the source."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _defaults(text: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Default arguments of every function whose defaults are plain values."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            if isinstance(child, ast.FunctionDef):
                spec = child.args
                try:
                    plain = tuple(ast.literal_eval(value) for value in spec.defaults) or None
                    pairs = zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
                    named = {arg.arg: ast.literal_eval(value) for arg, value in pairs if value is not None} or None
                except ValueError:
                    continue
                yield prefix + child.name, (plain, named)

    yield from walk(ast.parse(text), "")
