"""``aimfor train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import missing, one_line_errors
from .options import (
    BatchSize,
    Columns,
    DataOrResume,
    Encoding,
    Epochs,
    Group,
    Hidden,
    MetricName,
    Model,
    Out,
    Positive,
    Quiet,
    Rate,
    Rows,
    Target,
    Trust,
)


def train(
    data: DataOrResume = None,
    target: Target = None,
    metric: MetricName = None,
    positive: Positive = None,
    column: Columns = None,
    group: Group = None,
    model: Model = "auto",
    recipe: Annotated[str, typer.Option(help="A built-in recipe, FILE.toml, or FILE.toml:NAME.")] = "auto",
    all_data: Annotated[
        bool | None,
        typer.Option("--all-data/--no-all-data", help="Train on in the end, on validation rows too."),
    ] = None,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: Rate = None,
    hidden: Hidden = None,
    seed: Annotated[int, typer.Option(help="Decides the split, the first weights and the order of rows.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads; another number changes the last bits of the result.")] = 1,
    image_size: Annotated[int | None, typer.Option(help="Side in pixels to which images are scaled.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    checkpoint_seconds: Annotated[float | None, typer.Option(help="Seconds between saves of the state.")] = None,
    trust: Trust = None,
    quiet: Quiet = False,
) -> None:
    """Train a model on a table or an image folder, for a metric."""
    with one_line_errors():
        from ...fitting.config import find_recipe, settings
        from ..run import training
        from ..run.trust import find_typed_code
        from . import progress

        if resume is not None:
            folder = resume
            ready, plan = training.reopen(folder, trust)
        else:
            if data is None or metric is None:
                raise missing("DATA" if data is None else "--metric")
            find_typed_code(model)
            plan = find_recipe(recipe)
            if all_data is not None:
                plan = plan.model_copy(update={"all_data": all_data})
            given = settings(
                data=data,
                target=target,
                metric=metric,
                positive=positive,
                column=column,
                group=group,
                model=model,
                epochs=epochs,
                batch_size=batch_size,
                learning_rate=learning_rate,
                hidden=hidden,
                seed=seed,
                threads=threads,
                image_size=image_size,
                encoding=encoding,
                rows=rows,
                checkpoint_seconds=checkpoint_seconds,
            )
            folder, ready = training.start(given, plan, out)
        progress.training(folder, ready, plan, quiet)
