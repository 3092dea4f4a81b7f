"""``aimfor predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Data, Encoding, Rows, Trust


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data: Data,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; by default standard output.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    trust: Trust = None,
) -> None:
    """Scores, probabilities and decisions at the stored threshold, as CSV. Exit code 0 means every row was scored."""
    with one_line_errors():
        from ..run.predict import predict as write

        write(run, data, out, encoding or "utf8", rows, trust)
