"""``aimfor embed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Quiet


def embed(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run with --metric map@r or recall@k.")],
    data: Annotated[str, typer.Argument(help="Folder of pictures, or one picture.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: vectors.npy (names in vectors.json) or .parquet.")
    ],
    quiet: Quiet = False,
) -> None:
    """Write one vector per picture; pictures of one class, seen in training or not, are near each other by cosine."""
    with one_line_errors():
        from ..retrieval.command import embed as write

        for path in write(run, data, out, quiet):
            print(path)
