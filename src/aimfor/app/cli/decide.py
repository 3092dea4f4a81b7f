"""``aimfor decide``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Encoding, Positive, Rows


def decide(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with scores and labels of rows not trained on.")],
    target: Annotated[str, typer.Option(help="Column of the labels.")],
    score: Annotated[str, typer.Option(help="Column of the scores; higher means more positive.")],
    maximize: Annotated[str | None, typer.Option(help='A rate, e.g. recall, or "recall - 0.5*fpr".')] = None,
    minimize: Annotated[str | None, typer.Option(help="Instead of --maximize.")] = None,
    subject_to: Annotated[
        list[str] | None, typer.Option(help='e.g. "precision >= 0.9", "gap(fpr, sex) <= 0.05".')
    ] = None,
    confidence: Annotated[float, typer.Option(help="Chance that all constraints truly hold.")] = 0.95,
    learn: Annotated[
        Path | None, typer.Option(help="File of other rows; by default 30 % of these are split off.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column whose values get thresholds of their own.")] = None,
    positive: Positive = None,
    out: Annotated[Path | None, typer.Option(help="Folder for decision.json and decision.html.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON document and nothing else.")] = False,
    encoding: Encoding = None,
    rows: Rows = None,
) -> None:
    """A threshold for anyone's scores that keeps its floors, guaranteed. Exit code 1: none can be guaranteed."""
    with one_line_errors():
        from ..decide import command

        request = command.Request(
            data, score, target, maximize, minimize, tuple(subject_to or ()), confidence, learn, group, positive,
            encoding or "utf8", rows,
        )  # fmt: skip
        found = command.answer(request)
        paths = command.write(found, out or Path("decisions") / data.name.split(".")[0])
        typer.echo(command.as_json(found) if json else command.as_text(found, paths))
        if found.decision.threshold is None:
            raise typer.Exit(1)
