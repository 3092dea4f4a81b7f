"""``aimfor report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run or comparison.")],
) -> None:
    """Write report.html of a run or comparison again, and print its path."""
    with one_line_errors():
        from ..report.write import write_report

        print(write_report(run))
