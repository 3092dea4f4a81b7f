"""The command line. `--version` and `support` answer at once; everything else belongs to the program (aimfor.cli)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

from . import __version__

#: Commands that need NumPy and SciPy alone.
BASE = ("decide", "plan", "check")
USAGE = """usage: aimfor [--version] [--help] COMMAND …

  support     which metric runs on which engine, and what it costs
  train       train a model on a table or an image folder, for a metric
  compare     does it beat cross-entropy with a tuned threshold on your data?
  predict     scores and decisions of a trained run
  embed       one vector per picture, from a run for neighbours
  decide      a threshold for any scores that is guaranteed to keep its floors
  plan        which rows to label next for a bound on a rate
  check       do the floors of a decision still hold on new labelled rows?
  report      one HTML file about a run or a comparison
  export      a trained model for deployment
  demo        the ensemble against trees and networks on built-in data

`aimfor COMMAND --help` shows its options and examples.
Start with: aimfor compare customers.csv --target churned --metric f1"""


SUPPORT_HELP = """usage: aimfor support

Every metric by the name that --metric and MetricLoss take, its class, and for each engine what one loss costs
(n rows; – where that engine cannot train it). Numbers after = and @ are examples: recall@precision=0.75 is as good.

Example:
  aimfor support | grep recall"""


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the ``aimfor`` command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words in (["--version"], ["-V"]):
        print(f"aimfor {__version__}")
        return 0
    if words[:1] == ["support"]:
        return _support(words[1:])
    if words in ([], ["--help"], ["-h"]):
        print(USAGE)
        return 0 if words else 2
    if words[0] in BASE:
        home = importlib.import_module("aimfor.cli.deciding")
        command: Callable[[list[str]], int] = getattr(home, words[0])
        return command(words[1:])
    return _program(words)


def _support(rest: list[str]) -> int:
    if set(rest) & {"--help", "-h"}:
        print(SUPPORT_HELP)
        return 0
    if rest:
        print(f"aimfor: support takes no arguments, but got {' '.join(rest)}", file=sys.stderr)
        return 2
    from importlib.resources import files

    # The stored copy spares the user the import of torch; a test holds it equal to the live table.
    print(files("aimfor").joinpath("support.txt").read_text(encoding="utf-8"), end="")
    return 0


def _program(words: list[str]) -> int:
    # Between two parallel loops OpenMP's threads spin unless told not to, and a run that uses one thread nearly all the
    # time pays for every core. It is read when torch is imported, which nothing has done yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # One budget for every library that brings threads of its own.
    from .data.executors import cores

    os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
    try:
        app = importlib.import_module("aimfor.cli.main").app
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.startswith("aimfor"):
            raise
        print(
            f"aimfor {words[0]} needs the package {missing.name!r}. In a clone: pip install '.[train]'",
            file=sys.stderr,
        )
        return 2
    app(args=words, prog_name="aimfor")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
