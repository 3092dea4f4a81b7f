"""Which files of the package a call enters, in order: how far a reader has to walk to follow it.

    python tools/walk.py [loss train decide masks predict]

Function bodies only: importing a file is not entering it. Several stretches of one file are counted once as a file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "aimfor"


@dataclass
class Walk:
    """Files in the order in which they were entered (once per stretch), and the functions called there."""

    stretches: list[str] = field(default_factory=list)
    functions: set[tuple[str, str]] = field(default_factory=set)

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(self.stretches))

    @property
    def again(self) -> list[str]:
        """Files that were entered, left, and entered again."""
        return [file for file in self.files if self.stretches.count(file) > 1]


def traced(call: Callable[[], Any]) -> Walk:
    """Follows ``call`` in this thread."""
    walk, root = Walk(), f"{PACKAGE}/"

    def see(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not code.co_filename.startswith(root):
            return
        file = code.co_filename[len(root) :]
        if not walk.stretches or walk.stretches[-1] != file:
            walk.stretches.append(file)
        walk.functions.add((file, code.co_qualname))

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def _loss(place: Path) -> Walk:
    import torch

    import aimfor

    scores, y = torch.randn(64, requires_grad=True), torch.arange(64) % 2
    aimfor.MetricLoss("ap")(scores, y).backward()
    return traced(lambda: aimfor.MetricLoss("ap")(scores, y).backward())


def _command(kind: str, position: int) -> Callable[[Path], Walk]:
    """A command of a kind of `run_kinds`, traced when it is called a second time: nothing is imported then."""

    def follow(place: Path) -> Walk:
        from run_kinds import KINDS
        from typer.testing import CliRunner

        from aimfor.cli.main import app

        commands, new = KINDS[kind].make(place)
        lines = (*commands, *KINDS[kind].commands)

        def call(position: int, name: str) -> None:
            said = {"RUN": str(place / name), "DATA": str(new), "OUT": str(place / f"{name} out")}
            done = CliRunner().invoke(app, [said.get(word, word) for word in lines[position]])
            assert done.exit_code in KINDS[kind].fine, done.output

        for earlier in range(position + 1):
            call(earlier, "run")
        return traced(lambda: call(position, "run" if position else "second"))

    return follow


WALKS: dict[str, Callable[[Path], Walk]] = {
    "loss": _loss,
    "train": _command("ensemble", 0),
    "decide": _command("decision", 0),
    "masks": _command("masks", 0),
    "predict": _command("ensemble", 1),
}


def walked(name: str) -> Walk:
    with tempfile.TemporaryDirectory() as place:
        return WALKS[name](Path(place))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(WALKS))
    parser.add_argument("--list", action="store_true", help="every file, in the order in which it is first entered")
    given = parser.parse_args()
    for name in given.names or WALKS:
        walk = walked(name)
        print(f"{name}: {len(walk.files)} files, {len(walk.functions)} functions, {len(walk.again)} entered again")
        if given.list:
            print("\n".join(f"  {file}" for file in walk.files))


if __name__ == "__main__":
    main()
