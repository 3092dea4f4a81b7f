"""Named points: the signal comes at the point and the time that were asked for, and nowhere else."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from aimfor import failpoints
from programs import Program

CODE = """
    import sys
    from pathlib import Path
    from aimfor.data import checkpoint
    for number in range(4):
        checkpoint.write_text(Path(sys.argv[1]) / f"{number}.txt", "whole")
"""


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("wrote */1.txt=SIGKILL", ["0.txt", "1.txt"]),
        ("wrote *:3=SIGKILL", ["0.txt", "1.txt", "2.txt"]),
        ("write */2.txt=SIGKILL", ["0.txt", "1.txt"]),
        ("*:4=SIGKILL", ["0.txt", "1.txt"]),
    ],
)
def test_the_process_ends_at_the_point(point: str, left: list[str], tmp_path: Path) -> None:
    program = Program(tmp_path, code=CODE, environment={failpoints.VARIABLE: point})
    assert program.wait() == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == left


@pytest.mark.parametrize("point", ["", "wrote nothing*=SIGKILL", "wrote *:9=SIGKILL"])
def test_any_other_point_is_passed(point: str, tmp_path: Path) -> None:
    program = Program(tmp_path, code=CODE, environment={failpoints.VARIABLE: point})
    assert program.wait() == 0, program.stderr
    assert len(list(tmp_path.iterdir())) == 4
