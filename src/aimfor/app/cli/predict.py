"""``aimfor predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import one_line_errors
from .options import Data, Encoding, Rows, SkipCorrupt


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write; by default standard output. Masks: folder of PNG files.")
    ] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    skip_corrupt: SkipCorrupt = False,
    id_column: Annotated[str | None, typer.Option("--id", help="Column that names the rows of the output.")] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Compare with the labels in the data; the result goes to stderr.")
    ] = False,
) -> None:
    """Scores, probabilities and decisions at the stored threshold, as CSV. Exit code 0 means every row was scored."""
    with one_line_errors():
        from ...errors import InputError
        from ..many.run import predict as many_predict
        from ..masks import command as mask_command
        from ..run import predict as whole
        from ..run.folder import kind_of
        from ..stream import predict as stream
        from ..stream.table import is_stream

        kind = kind_of(run)
        if kind == "retrieval":
            raise InputError("run", f"{run}, which finds neighbours", "a run that decides", "Use aimfor embed.")
        if kind == "masks":
            given = {"--skip-corrupt": skip_corrupt, "--rows": rows is not None, "--encoding": encoding is not None}
            _refuse("masks", {"--id": id_column is not None, "--evaluate": evaluate, **given})
            mask_command.predict(run, data, out)
            return
        if kind == "many":
            _refuse("several labels", {"--id": id_column is not None, "--evaluate": evaluate})
            many_predict(run, data, out, encoding or "utf8", rows, skip_corrupt)
            return
        streamed = is_stream(data) or (kind == "stream" and stream.can_stream(data))
        if streamed:
            stream.predict(run, data, out, encoding or "utf8", rows, id_column=id_column, evaluate=evaluate)
            return
        whole.predict(
            run,
            data,
            out,
            encoding or "utf8",
            rows,
            id_column=id_column,
            evaluate=evaluate,
            skip_corrupt=skip_corrupt,
        )


def _refuse(what: str, given: dict[str, bool]) -> None:
    """Options that mean nothing for this sort of run are an error, not silence."""
    from ...errors import InputError

    for name, there in given.items():
        if there:
            raise InputError(name, f"given for a run of {what}", "a run on tables", "Leave it out.")
