"""Writes which option of `aimfor train` acts on which kind of run into docs/program.md; prints it with --print.

python tools/options.py [--print]
"""

from __future__ import annotations

import sys
from pathlib import Path

from aimfor.runs.kinds import matrix

PAGE = Path(__file__).parents[1] / "docs" / "program.md"
BEGIN, END = "<!-- options -->\n", "\n<!-- end of options -->"


def page() -> str:
    """The page with the matrix of today."""
    before, rest = PAGE.read_text(encoding="utf8").split(BEGIN)
    return before + BEGIN + matrix() + END + rest.split(END)[1]


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(matrix())
    else:
        PAGE.write_text(page(), encoding="utf8")
