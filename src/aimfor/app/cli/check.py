"""``aimfor check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Encoding, Trust


def check(
    decision: Annotated[
        Path, typer.Argument(help="decision.json of `aimfor decide` or its folder, or a run of `aimfor train`.")
    ],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file of new rows with their labels.")],
    confidence: Annotated[
        float, typer.Option(help="Confidence of all verdicts together, however often you check.")
    ] = 0.95,
    log: Annotated[Path | None, typer.Option(help="By default check.jsonl in the folder.")] = None,
    encoding: Encoding = None,
    trust: Trust = None,
) -> None:
    """Do the floors still hold on what arrived since? Exit code 0: met, 1: missed, 3: undecided so far."""
    with one_line_errors():
        from ..decide.check import look

        found = look(decision, data, log, confidence, encoding or "utf8", trust)
        typer.echo(f"{found.new} new rows, {found.rows} in all; log: {found.log}")
        typer.echo(str(found))
        code = {"met": 0, "missed": 1}.get(found.certificate.verdict.value, 3)
        if code:
            raise typer.Exit(code)
