"""``aimfor train``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from . import options
from .errors import missing, one_line_errors
from .kinds import check_options, flag

#: Name, type and default of every option, in the order of the help.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "data": (options.DataOrResume, None),
    "target": (options.Target, None),
    "metric": (options.MetricName, None),
    "positive": (options.Positive, None),
    "column": (options.Columns, None),
    "group": (options.Group, None),
    "query": (options.Query, None),
    "model": (options.Model, "auto"),
    "members": (options.Members, None),
    "fast": (options.Fast, False),
    "budget": (options.Budget, None),
    "workers": (options.Workers, None),
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
    "augment": (options.Augment, None),
    "fine_tune": (options.FineTune, False),
    "skip_corrupt": (options.SkipCorrupt, False),
    "masks": (
        Annotated[
            str | None,
            typer.Option(help="Folder of PNG masks, or a COCO file: a class for every pixel (--metric iou)."),
        ],
        None,
    ),
    "classes": (Annotated[str | None, typer.Option(help="Masks: file of class names, one per line, or JSON.")], None),
    "ignore": (Annotated[int | None, typer.Option(help="Masks: value of the pixels to ignore.")], None),
    "encoding": (options.Encoding, None),
    "rows": (options.Rows, None),
    "memory": (options.Memory, None),
    "split_by": (
        Annotated[
            str | None, typer.Option(help="Streams: rows with the same value of this column stay in the same part.")
        ],
        None,
    ),
    "quiet": (options.Quiet, False),
}


def train(**given: Any) -> None:
    """Train for a metric: an ensemble on a table or pictures, an embedding for neighbours, or a network for masks."""
    with one_line_errors():
        typed = [name for name, (_, default) in OPTIONS.items() if given[name] != default and name != "quiet"]
        if given["resume"] is not None:
            _refuse_beside_resume(typed)
            _go_on(given["resume"], given["quiet"])
            return
        if given["data"] is None or given["metric"] is None:
            raise missing("DATA" if given["data"] is None else "--metric")
        _start(given, typed)


train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in OPTIONS.items()
    ]
)
train.__annotations__ = {name: annotation for name, (annotation, _) in OPTIONS.items()}


def _refuse_beside_resume(typed: list[str]) -> None:
    from ...errors import InputError

    other = next((name for name in typed if name != "resume"), None)
    if other is not None:
        name = "DATA" if other == "data" else flag(other)
        raise InputError(name, "the option beside --resume", "none: a run goes on as it was begun", "Leave it out.")


def _start(given: dict[str, Any], typed: list[str]) -> None:
    """Finds out what kind of run it is, refuses what would have no effect on it, and runs it."""
    from ...fitting.backbones import is_backbone
    from ..masks import command as masks
    from ..retrieval import command as retrieval
    from ..stream import run as stream
    from . import progress

    data, model, out, quiet = given["data"], given["model"], given["out"], given["quiet"]
    options.check_model(model)
    options.refuse_mixed(given)
    if given["masks"] is not None:
        check_options(typed, ("masks",), data)
        masks.train(_settings(given), out, quiet)
    elif retrieval.is_wanted(data, given["metric"], model, given["query"]):
        check_options(typed, ("embedding",), data)
        retrieval.train(_settings(given), out, quiet)
    elif not is_backbone(model) and stream.is_wanted(data, options.bytes_of(given["memory"])):
        check_options(typed, ("stream",), data)
        progress.streaming(*stream.start(_settings(given), out), quiet)
    else:
        _start_in_memory(given, typed)


def _start_in_memory(given: dict[str, Any], typed: list[str]) -> None:
    """A run whose kind shows when its data has been read: a table, lists, pictures, several labels."""
    from ...fitting.backbones import is_backbone
    from ..many import command as many_command
    from ..many import run as many
    from ..run import training
    from ..run.folder import read_source
    from . import progress

    pictures = is_backbone(given["model"])
    possible: tuple[str, ...] = ("features", "labels") if pictures else ("table", "pixels")
    possible = ("lists",) if given["query"] is not None else possible
    check_options(typed, possible, given["data"])
    settings, out = _settings(given), given["out"]
    runs = Path("runs") if out is None else out.resolve().parent
    with progress.features(runs, given["quiet"]) as work:
        source = read_source(settings, work)
        if len(possible) == 2:
            second = bool(source.label_names) if pictures else source.images is not None
            check_options(typed, (possible[second],), given["data"])
        if source.label_names:
            folder, several = many.start(settings, source, out, work)
        else:
            folder, ready = training.start(settings, out, source, work)
    if source.label_names:
        many_command.finish(folder, several, given["quiet"])
    else:
        progress.training(folder, ready, given["quiet"])


def _settings(given: dict[str, Any]) -> Any:
    from ...fitting.backbones import is_backbone
    from ...fitting.config import settings

    members = options.kinds_of(given["members"], features=is_backbone(given["model"]))
    own = {"memory": options.bytes_of(given["memory"]), "members": members, "budget_minutes": given["budget"]}
    plain = {name: value for name, value in given.items() if name not in ("out", "resume", "quiet", "budget")}
    return settings(**{**plain, **own})


def _go_on(folder: Path, quiet: bool) -> None:
    """Finishes a run that was stopped, whatever kind of run it is."""
    from ..many import command as many
    from ..masks import command as masks
    from ..retrieval import command as retrieval
    from ..run import training
    from ..run.folder import kind_of
    from ..stream import run as stream
    from . import progress

    kind = kind_of(folder)
    if kind == "masks":
        masks.resume(folder, quiet)
    elif kind == "retrieval":
        retrieval.resume(folder, quiet)
    elif kind == "stream":
        progress.streaming(folder, stream.reopen(folder), quiet)
    elif kind == "many":
        with progress.features(folder.resolve().parent, quiet) as work:
            several = many.reopen(folder, work)
        many.finish(folder, several, quiet)
    else:
        with progress.features(folder.parent, quiet) as work:
            ready = training.reopen(folder, work)
        progress.training(folder, ready, quiet)
