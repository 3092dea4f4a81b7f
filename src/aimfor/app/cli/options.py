"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str, typer.Argument(help="CSV, Parquet or npz file, folder of images, or a built-in set (digits, …).")]
Target = Annotated[str | None, typer.Option(help="Column (or array) to predict; image folders need none.")]
MetricName = Annotated[str, typer.Option(help="auroc, f1, fbeta=2, ap, recall@precision=0.9, …: see `aimfor support`.")]
Positive = Annotated[str | None, typer.Option(help="Which value of the target is the positive class.")]
Group = Annotated[str | None, typer.Option(help="Column for the group table of the report.")]
Model = Annotated[str, typer.Option(help="auto, linear, mlp, resnet, or your own as module:factory.")]
Out = Annotated[Path | None, typer.Option(help="Output folder; by default a new one under runs/.")]
Epochs = Annotated[int | None, typer.Option(help="Epoch budget; by default from the number of rows.")]
BatchSize = Annotated[int | None, typer.Option(help="Rows per batch; by default from the number of rows.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate.")]
Hidden = Annotated[int | None, typer.Option(help="Width of the MLP's hidden layers.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="NAME=KIND: number, category, date[:%d/%m/%Y], text or ignore; repeatable."),
]
Encoding = Annotated[str | None, typer.Option(help="Text encoding of the CSV, e.g. latin-1.")]
Rows = Annotated[int | None, typer.Option(help="Read only the first rows of a table.")]
Trust = Annotated[
    str | None, typer.Option(help="Run the code module:factory that the run folder asks for; by default none is run.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")]
ExecutorName = Annotated[
    str | None, typer.Option("--executor", help="Where cells run: local:N, dask://HOST:PORT, ray or module:factory.")
]


def executor_of(jobs: int | None, executor: str | None) -> str | None:
    """One executor from the two flags; None leaves the choice to the command."""
    from ...errors import InputError

    if jobs is not None and executor is not None:
        raise InputError("--jobs", f"{jobs} beside --executor {executor}", "one of the two", f"Write local:{jobs}.")
    return executor if jobs is None else f"local:{jobs}"
