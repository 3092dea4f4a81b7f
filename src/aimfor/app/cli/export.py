"""``aimfor export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Trust


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default model.pt2 or model.onnx in the run.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="ONNX instead of torch.export (pip install 'aimfor[export]').")
    ] = False,
    trust: Trust = None,
) -> None:
    """Export for deployment: a committee from raw columns to decisions (ONNX), or a network on encoded rows."""
    with one_line_errors():
        from ..run.export import export as write

        print(write(run, out, onnx, trust))
