"""``aimfor train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options
from .errors import missing, one_line_errors

#: Name, type and default of every option, in the order of the help.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "data": (options.DataOrResume, None),
    "target": (options.Target, None),
    "metric": (options.MetricName, None),
    "positive": (options.Positive, None),
    "column": (options.Columns, None),
    "group": (options.Group, None),
    "cluster": (options.Cluster, None),
    "query": (options.Query, None),
    "model": (options.Model, "auto"),
    "time": (options.Time, None),
    "test": (options.Test, None),
    "holdout": (options.Holdout, 0.0),
    "members": (options.Members, None),
    "fast": (options.Fast, False),
    "budget": (options.Budget, None),
    "jobs": (options.Jobs, None),
    "out": (options.Out, None),
    "resume": (Annotated[Path | None, typer.Option(help="Continue the run in this folder.")], None),
    "epochs": (
        Annotated[int | None, typer.Option(help="Masks, neighbours: passes over the pictures.")],
        None,
    ),
    "seed": (Annotated[int, typer.Option(help="Sets the split, the initial weights and the order of rows.")], 0),
    "threads": (
        Annotated[int, typer.Option(help="Streams: CPU threads of the trees; more change the last bits.")],
        1,
    ),
    "image_size": (options.ImageSize, None),
    "skip_corrupt": (options.SkipCorrupt, False),
    "masks": (
        Annotated[
            str | None,
            typer.Option(help="Folder of PNG masks: a class for every pixel (--metric iou)."),
        ],
        None,
    ),
    "classes": (Annotated[str | None, typer.Option(help="Masks: file of class names, one per line, or JSON.")], None),
    "ignore": (Annotated[int | None, typer.Option(help="Masks: value of the pixels to ignore.")], None),
    "loss": (
        Annotated[str | None, typer.Option(help="Masks: iou, lovasz or cross-entropy (default: lovasz).")],
        None,
    ),
    "encoding": (options.Encoding, None),
    "rows": (options.Rows, None),
    "memory": (options.Memory, None),
    "json": (options.Json, False),
    "quiet": (options.Quiet, False),
}
#: Those that say what is shown, not what is done.
_SHOWN = ("json", "quiet")


def train(**given: Any) -> None:
    """Train for a metric: an ensemble on a table or pictures, an embedding for neighbours, or a network for masks."""
    with one_line_errors():
        typed = [name for name, (_, default) in OPTIONS.items() if given[name] != default and name not in _SHOWN]
        if given["resume"] is not None:
            _refuse_beside_resume(typed)
            _go_on(given["resume"], given["quiet"], given["json"])
            return
        if given["data"] is None or given["metric"] is None:
            raise missing("DATA" if given["data"] is None else "--metric")
        from . import progress

        progress.finish(*begin(given, typed), given["quiet"], given["json"])


options.declare(train, OPTIONS)


def _refuse_beside_resume(typed: list[str]) -> None:
    from ..errors import InputError
    from ..runs.kinds import flag

    other = next((name for name in typed if name != "resume"), None)
    if other is not None:
        name = "DATA" if other == "data" else flag(other)
        raise InputError(name, "the option beside --resume", "none: a run goes on as it was begun", "Leave it out.")


def begin(given: dict[str, Any], typed: list[str]) -> tuple[Path, Any]:
    """Finds out what kind of run it is and refuses what would have no effect on it; then its folder and its task."""
    from ..runs import driver
    from ..runs.kinds import check_options
    from . import progress

    options.check_model(given["model"])
    options.refuse_mixed(given)
    settings, out = _settings(given), given["out"]
    with progress.features(Path("runs") if out is None else out.resolve().parent, given["quiet"]) as work:
        return driver.start(settings, out, work, lambda kinds: check_options(typed, kinds, given["data"]))


def _settings(given: dict[str, Any]) -> Any:
    from ..data.backbones import is_backbone
    from ..data.settings import settings

    members = options.kinds_of(given["members"], features=is_backbone(given["model"]))
    own = {"memory": options.bytes_of(given["memory"]), "members": members, "budget_minutes": given["budget"]}
    plain = {name: value for name, value in given.items() if name not in ("out", "resume", "budget", *_SHOWN)}
    return settings(**{**plain, **own})


def _go_on(folder: Path, quiet: bool, as_json: bool) -> None:
    """Finishes a run that was stopped, whatever kind of run it is."""
    from ..runs import driver
    from . import progress

    with progress.features(folder.resolve().parent, quiet) as work:
        task = driver.reopen(folder, work)
    progress.finish(folder, task, quiet, as_json)
