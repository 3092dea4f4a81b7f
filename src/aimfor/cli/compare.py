"""``aimfor compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .errors import missing, one_line_errors

if TYPE_CHECKING:
    from ..data.settings import Settings

#: Name, type and default of every option, in the order of the help.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "data": (options.Data, options.REQUIRED),
    "target": (options.Target, None),
    "metric": (options.MetricNames, None),
    "positive": (options.Positive, None),
    "column": (options.Columns, None),
    "query": (options.Query, None),
    "cluster": (options.Cluster, None),
    "members": (options.Members, None),
    "model": (options.Model, "auto"),
    "seeds": (Annotated[int, typer.Option(help="Paired seeds and splits.")], 5),
    "seed": (Annotated[int, typer.Option(help="The first seed.")], 0),
    "jobs": (options.Jobs, None),
    "executor": (options.ExecutorName, None),
    "out": (options.Out, None),
    "image_size": (options.ImageSize, None),
    "encoding": (options.Encoding, None),
    "rows": (options.Rows, None),
    "json": (options.Json, False),
    "quiet": (options.Quiet, False),
}
#: Those that say where and how it runs, not what is compared.
_HOW = ("seeds", "jobs", "executor", "out", "json", "quiet")


def compare(**given: Any) -> None:
    """Does what `train` makes beat what people use on this data? With the same --out, finished cells are reused."""
    with one_line_errors():
        from . import comparing

        if not given["metric"]:
            raise missing("--metric")
        executor = options.executor_of(given["jobs"], given["executor"])
        found = comparing.run(settings_of(given), given["seeds"], executor, given["out"], given["quiet"])
        (comparing.show_json if given["json"] else comparing.show)(*found)


options.declare(compare, OPTIONS)


def settings_of(given: dict[str, Any]) -> list[Settings]:
    """Settings for each metric. Raises `InputError` for an option that is none."""
    from ..data.backbones import is_backbone
    from ..data.settings import settings

    options.check_model(given["model"])
    members = options.kinds_of(given["members"], features=is_backbone(given["model"]))
    same = {name: value for name, value in given.items() if name not in (*_HOW, "metric", "members")}
    return [settings(metric=metric, members=members, **same) for metric in given["metric"]]
