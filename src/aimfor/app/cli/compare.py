"""``aimfor compare``."""

from __future__ import annotations

from typing import Annotated

import typer

from .errors import missing, one_line_errors
from .options import (
    BatchSize,
    Columns,
    Data,
    Encoding,
    Epochs,
    ExecutorName,
    Group,
    Hidden,
    Jobs,
    Members,
    MetricNames,
    Model,
    Out,
    Positive,
    Query,
    Quiet,
    Rate,
    Rows,
    Target,
    executor_of,
    kinds_of,
)


def compare(
    data: Data,
    target: Target = None,
    metric: MetricNames = None,
    positive: Positive = None,
    column: Columns = None,
    query: Query = None,
    group: Group = None,
    members: Members = None,
    model: Model = "auto",
    seeds: Annotated[int, typer.Option(help="Paired seeds and splits.")] = 5,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    recipe: Annotated[
        list[str] | None, typer.Option(help="Recipes to run; by default the committee and its rivals.")
    ] = None,
    jobs: Jobs = None,
    executor: ExecutorName = None,
    out: Out = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: Rate = None,
    hidden: Hidden = None,
    image_size: Annotated[int | None, typer.Option(help="Side in pixels to which images are scaled.")] = None,
    encoding: Encoding = None,
    rows: Rows = None,
    quiet: Quiet = False,
) -> None:
    """Does what `train` makes beat what people use on this data? With the same --out, finished cells are reused."""
    with one_line_errors():
        from ...fitting.backbones import is_backbone
        from ...fitting.config import settings
        from ..compare import command as comparing
        from ..run.trust import find_typed_code

        find_typed_code(model)
        if not metric:
            raise missing("--metric")
        given = [
            settings(
                data=data,
                target=target,
                metric=one,
                positive=positive,
                column=column,
                query=query,
                group=group,
                model=model,
                epochs=epochs,
                batch_size=batch_size,
                learning_rate=learning_rate,
                hidden=hidden,
                seed=seed,
                image_size=image_size,
                encoding=encoding,
                rows=rows,
                members=kinds_of(members, features=is_backbone(model)),
            )
            for one in metric
        ]
        comparing.compare(given, seeds, recipe, executor_of(jobs, executor), out, quiet)
