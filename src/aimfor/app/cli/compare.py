"""``aimfor compare``."""

from __future__ import annotations

from typing import Annotated

import typer

from .errors import missing, one_line_errors
from .options import (
    Columns,
    Data,
    Encoding,
    ExecutorName,
    Group,
    ImageSize,
    Jobs,
    Members,
    MetricNames,
    Model,
    Out,
    Positive,
    Query,
    Quiet,
    Rows,
    Target,
    check_model,
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
    jobs: Jobs = None,
    executor: ExecutorName = None,
    out: Out = None,
    image_size: ImageSize = None,
    encoding: Encoding = None,
    rows: Rows = None,
    quiet: Quiet = False,
) -> None:
    """Does what `train` makes beat what people use on this data? With the same --out, finished cells are reused."""
    with one_line_errors():
        from ...fitting.backbones import is_backbone
        from ...fitting.config import settings
        from ..compare import command as comparing

        check_model(model)
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
                seed=seed,
                image_size=image_size,
                encoding=encoding,
                rows=rows,
                members=kinds_of(members, features=is_backbone(model)),
            )
            for one in metric
        ]
        comparing.compare(given, seeds, executor_of(jobs, executor), out, quiet)
