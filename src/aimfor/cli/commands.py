"""The small commands: `predict`, `report`, `embed`, `export` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import one_line_errors
from .options import Data, Encoding, Jobs, Out, Quiet, Rows, SkipCorrupt, executor_of
from .words import from_stdin


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
    raw: Annotated[
        bool, typer.Option("--raw", help="Texts as they are, without the apostrophe before what begins as a formula.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="What --evaluate finds as JSON on standard output; the rows go to --out alone."),
    ] = False,
) -> None:
    """Scores, probabilities and decisions at the stored threshold, as CSV; DATA may be -, CSV from standard input."""
    with one_line_errors(), from_stdin(data) as data:
        from ..data.chunks import is_stream
        from ..errors import InputError
        from ..runs import predict as whole
        from ..runs.folder import kind_of
        from ..runs.labels import predict as predict_labels
        from ..runs.stream import predict as stream
        from .written import write_masks

        kind = kind_of(run)
        if kind == "embedding":
            raise InputError("run", f"{run}, which finds neighbours", "a run that decides", "Use aimfor embed.")
        if kind == "masks":
            given = {"--skip-corrupt": skip_corrupt, "--rows": rows is not None, "--encoding": encoding is not None}
            given |= {"--id": id_column is not None, "--evaluate": evaluate, "--raw": raw, "--json": json}
            _refuse("masks", given)
            write_masks(run, data, out)
            return
        if kind == "labels":
            _refuse("several labels", {"--id": id_column is not None, "--evaluate": evaluate, "--json": json})
            predict_labels(run, data, out, encoding or "utf8", rows, skip_corrupt, raw)
            return
        how: dict[str, Any] = {"id_column": id_column, "evaluate": evaluate or json, "raw": raw, "as_json": json}
        streamed = is_stream(data) or (kind == "stream" and stream.can_stream(data))
        if streamed:
            stream.predict(run, data, out, encoding or "utf8", rows, **how)
            return
        whole.predict(run, data, out, encoding or "utf8", rows, skip_corrupt=skip_corrupt, **how)


def _refuse(what: str, given: dict[str, bool]) -> None:
    """Options that mean nothing for this sort of run are an error, not silence."""
    from ..errors import InputError

    for name, there in given.items():
        if there:
            raise InputError(name, f"given for a run of {what}", "a run on tables", "Leave it out.")


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run or comparison.")],
) -> None:
    """Write report.html of a run or comparison again, and print its path."""
    with one_line_errors():
        from ..report.write import write_report

        print(write_report(run))


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
        from .written import write_embedding

        for path in write_embedding(run, data, out, quiet):
            print(path)


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="File to write; by default model.onnx in the run.")] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX (pip install onnx onnxscript onnxruntime).")] = False,
) -> None:
    """Export for deployment: the ensemble of a table, from raw columns to decisions, as one ONNX file."""
    with one_line_errors():
        from ..onnx.export import export as write

        print(write(run, out, onnx))


def demo(
    out: Out = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 3,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """`compare` on 1,797 handwritten digits (is it 5 or more?): the ensemble against trees and networks."""
    with one_line_errors():
        from ..data.settings import settings
        from . import comparing as comparing

        given = settings(data="digits_high", metric=comparing.DEMO, positive="5 to 9")
        comparing.show(*comparing.run([given], seeds, executor_of(jobs, None), out, quiet))
