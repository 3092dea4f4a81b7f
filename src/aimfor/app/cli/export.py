"""``aimfor export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="File to write; by default model.onnx in the run.")] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX (pip install 'aimfor[export]').")] = False,
) -> None:
    """Export for deployment: the ensemble of a table, from raw columns to decisions, as one ONNX file."""
    with one_line_errors():
        from ..run.export import export as write

        print(write(run, out, onnx))
