"""``aimfor predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Data, Encoding, Rows, SkipCorrupt, Trust


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write; by default standard output. Masks: folder of PNG files.")
    ] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    skip_corrupt: SkipCorrupt = False,
    trust: Trust = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column that names the rows of the output.")] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Compare with the labels in the data; the result goes to stderr.")
    ] = False,
) -> None:
    """Scores, probabilities and decisions at the stored threshold, as CSV. Exit code 0 means every row was scored."""
    with one_line_errors():
        from ..many.run import is_many
        from ..many.run import predict as many_predict
        from ..masks import command as mask_command
        from ..masks.run import is_mask_run
        from ..run import predict as whole
        from ..stream import command
        from ..stream import predict as stream
        from ..stream.table import is_stream

        if is_mask_run(run):
            mask_command.predict(run, data, out)
            return
        if is_many(run):
            many_predict(run, data, out, encoding or "utf8", rows, skip_corrupt)
            return
        streamed = is_stream(data) or (command.is_streamed(run) and stream.can_stream(data))
        if streamed:
            stream.predict(run, data, out, encoding or "utf8", rows, trust, id_column=id_column, judge=evaluate)
            return
        whole.predict(
            run,
            data,
            out,
            encoding or "utf8",
            rows,
            trust,
            id_column=id_column,
            judge=evaluate,
            skip_corrupt=skip_corrupt,
        )
