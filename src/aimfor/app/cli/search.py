"""``aimfor search``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors


def search(
    where: Annotated[Path, typer.Argument(help="A run, whose own pictures are searched, or a file of vectors.")],
    query: Annotated[
        list[str], typer.Argument(help="Pictures, folders of pictures, names among the vectors, or files of vectors.")
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each query.")] = 10,
    run: Annotated[
        Path | None, typer.Option(help="The run that made the vectors, for queries that are pictures.")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; by default standard output.")] = None,
) -> None:
    """Find the nearest vectors by cosine, exactly; faiss does it where it is installed."""
    with one_line_errors():
        from ...checks import one_of
        from ..retrieval.search import FORMATS, as_text
        from ..retrieval.search import search as find
        from ..run.predict import put

        text = as_text(find(where, query, run, k), one_of("--format", kind, FORMATS))
        put(text, out)
