"""Mutation testing of the core packages: `python tools/mutants sorted lp --count 60`, or `make mutants`.

Cosmic Ray knows where code can be mutated and how; this driver draws a sample (a place first, then one mutation of it),
runs the tests that cover the place, quickest first, and stops at the first that fails. A mutant that no test notices is
a survivor: a missing test, or a change without a difference, which is then named with its reason in `equivalent.toml`.
Nothing on disk is changed: a mutant lives in a forked process. Results are kept as JSON, so that an interrupted run
goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from processes import Session, baseline, functions_by_file, run, start
from sampling import ROOT, Mutant, change, files, sample

ALIKE = Path(__file__).parent / "equivalent.toml"
PACKAGES = (
    "metrics",
    "sorted",
    "smooth",
    "lp",
    "direct",
    "lagrangian",
    "rates",
    "checks",
    "retrieval",
    "integrations",
    "contract",
)
#: The program, which has one set of tests.
PROGRAM = "data+targets+learners+runs+cli"
#: What tests a package beside its own folder: a metric's forms are tested with the engines that solve them.
ELSEWHERE = {
    PROGRAM: ("tests/program", "tests/test_silent_acts.py"),
    "metrics": ("tests/lp/test_metric_programs.py", "tests/smooth", "tests/sorted", "tests/test_regularized.py"),
    "checks": (
        "tests/test_gate.py",
        "tests/test_bad_input.py",
        "tests/test_probabilities.py",
        "tests/metrics/test_ragged.py",
    ),
    "contract": (
        *(f"tests/test_{name}.py" for name in ("counts", "delimited", "failpoints", "positive_unlabelled", "registry")),
        *(f"tests/test_{name}.py" for name in ("conventions", "files", "probabilities", "spelling")),
        *(f"tests/test_{name}.py" for name in ("bad_input", "regularized", "ties", "transforms", "undefined")),
        "tests/sorted/test_bank.py",
        "tests/metrics/test_tie_orders.py",
        "tests/program/runs/test_from_python.py",
    ),
}


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
    for package in (*PACKAGES, PROGRAM, "all"):
        mine = [row for row in results if package in (row["package"], "all") and row["outcome"] != "unfit"]
        if mine:
            count = {kind: sum(row["outcome"] == kind for row in mine) for kind in ("killed", "alike")}
            counted = len(mine) - count["alike"]
            score = 100.0 * count["killed"] / max(counted, 1)
            rows.append(
                f"{package:<11} {len(mine):>4} mutants  {count['killed']:>4} killed  {count['alike']:>3} alike"
                f"  {counted - count['killed']:>3} survived  {score:5.1f} %"
            )
    return "\n".join(rows)


def examine(package: str, options: argparse.Namespace) -> None:
    """Runs the package's sample; every outcome goes to the file at once."""
    kept = options.out / f"{package}.{options.seed}.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    if options.again:
        (options.out / f"{package}.baseline.json").unlink(missing_ok=True)
        before = {key: row for key, row in before.items() if row["outcome"] == "killed"}

    def work(session: Session) -> None:
        for path in files(package):  # whatever the tests import late
            import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"))
        functions_by_file()
        known, rows = baseline(session, package, options.out), {}
        for mutant in sample(package, options.count, options.seed):
            row = before.get(mutant.key) or examined(session, mutant, package, known, options.out)
            if row["outcome"] not in ("killed", "unfit"):
                row["outcome"] = "alike" if alike(mutant) else "survived"
                print(f"{row['outcome']:<9} {mutant.path}:{mutant.line}", flush=True)
                print(f"  - {row['before']}\n  + {row['after']}", flush=True)
            rows[mutant.key] = row
            kept.write_text(json.dumps({**before, **rows}, indent=1))
        kept.write_text(json.dumps(rows, indent=1))

    own = [f"tests/{package}"] if (ROOT / "tests" / package).exists() else []
    alone = options.own or package in (PROGRAM, "integrations")
    laws = () if alone else ("tests/test_laws.py", "tests/test_gradients.py")
    start([*own, *ELSEWHERE.get(package, ()), *laws], work)


def examined(session: Session, mutant: Mutant, package: str, known: dict[str, Any], out: Path) -> dict[str, Any]:
    begun = time.monotonic()
    outcome = run(session, mutant, known, out / f"{package}.log")
    old, new = change(mutant)
    row = {**asdict(mutant), "package": package, "outcome": outcome, "before": old, "after": new}
    return {**row, "seconds": round(time.monotonic() - begun, 1)}


def main() -> None:
    """Runs the sample, package by package, and prints score and survivors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--count", type=int, default=60, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--own", action="store_true", help="leave out the laws: quicker, and a share that is too low")
    parser.add_argument("--again", action="store_true", help="run survivors and the coverage again, after new tests")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    results: list[dict[str, Any]] = []
    for package in options.packages:
        child = os.fork()  # a session of its own for each package
        if child == 0:
            try:
                examine(package, options)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        kept = options.out / f"{package}.{options.seed}.json"
        results += json.loads(kept.read_text()).values() if kept.exists() else ()
    print(report(results))


if __name__ == "__main__":
    main()
