"""``aimfor decide``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import InputError
from .errors import one_line_errors
from .options import Encoding, Positive, Rows


def decide(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with scores and labels of rows not trained on.")],
    target: Annotated[str, typer.Option(help="Column of the labels.")],
    score: Annotated[str | None, typer.Option(help="Column of the scores; higher means more positive.")] = None,
    score_of: Annotated[
        list[str] | None, typer.Option(help="CLASS=COLUMN, once per class, instead of --score for several classes.")
    ] = None,
    abstain: Annotated[
        float | None,
        typer.Option(help="Decide as many rows as possible with at most this share wrong; the rest go to a person."),
    ] = None,
    maximize: Annotated[str | None, typer.Option(help='A rate, e.g. recall, or "recall - 0.5*fpr".')] = None,
    minimize: Annotated[str | None, typer.Option(help="Instead of --maximize.")] = None,
    subject_to: Annotated[
        list[str] | None, typer.Option(help='e.g. "precision >= 0.9", "gap(fpr, sex) <= 0.05".')
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence that all constraints hold on new rows.")] = 0.95,
    learn: Annotated[
        Path | None, typer.Option(help="File of other rows, which set the order of the tests; by default 30 % of DATA.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column whose values each get a threshold of their own.")] = None,
    positive: Positive = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for decision.json and decision.html; a new one by default.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON document and nothing else.")] = False,
    encoding: Encoding = None,
    rows: Rows = None,
) -> None:
    """Find a threshold for any scores that is guaranteed to keep its floors. Exit code 1: none can be guaranteed."""
    with one_line_errors():
        folder = out or _new(Path("decisions") / data.name.split(".")[0])
        if score_of or abstain is not None:
            options = {
                "data": data, "target": target, "score_of": tuple(score_of or ()), "maximize": maximize,
                "minimize": minimize, "subject_to": tuple(subject_to or ()), "abstain": abstain,
                "confidence": confidence, "learn": learn, "encoding": encoding or "utf8", "rows": rows,
            }  # fmt: skip
            _several(folder, json, {"score": score, "group": group, "positive": positive}, options)
            return
        from ..decide import command

        if score is None:
            raise InputError(
                "score", "nothing", "the column of the scores", "Or --score-of CLASS=COLUMN, once per class."
            )
        request = command.Request(
            data, score, target, maximize, minimize, tuple(subject_to or ()), confidence, learn, group, positive,
            encoding or "utf8", rows,
        )  # fmt: skip
        found = command.answer(request)
        paths = command.write(found.document, folder)
        typer.echo(command.as_json(found.document) if json else command.as_text(found, paths))
        if found.decision.threshold is None:
            raise typer.Exit(1)


def _new(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3, … that holds no decision: a new decision replaces no other."""
    number = 2
    free = folder
    while (free / "decision.json").exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free


def _several(folder: Path, json: bool, unfit: dict[str, object], options: dict[str, Any]) -> None:
    """Several classes; the options in ``unfit`` cannot be combined with them."""
    from ..decide import command, several

    given = next((name for name, value in unfit.items() if value is not None), None)
    if given is not None:
        raise InputError(given, "the option together with --score-of or --abstain", "one of them")
    if not options["score_of"]:
        raise InputError(
            "score-of", "nothing", "CLASS=COLUMN for every class", "--score-of yes=p_yes --score-of no=p_no"
        )
    found = several.answer(several.Several(**options))
    _, page = command.write(found.document, folder)
    typer.echo(command.as_json(found.document) if json else several.as_text(found.document, page))
    if not found.given:
        raise typer.Exit(1)
