"""The options of the commands, spelled once: types and help, tables of `train` and `compare`, words to values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, nearest

#: The default of an option that has none.
REQUIRED = inspect.Parameter.empty


def declared(options: dict[str, tuple[Any, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command that takes ``**given`` the signature of its options: name → (annotation, default)."""

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {name: annotation for name, (annotation, _) in options.items()}
        return command

    return declare


def metric_names() -> str:
    """Every metric's name, read off the stored support table: the live one would import torch."""
    lines = files("aimfor").joinpath("support.txt").read_text(encoding="utf-8").splitlines()[2:]
    return ", ".join(line.split()[0] for line in lines)


METRICS = f"{metric_names()}; other numbers after = and @ as you need them. `aimfor support` says more."
_SOURCES = "CSV, Parquet or npz file, folder of images, or a built-in set (digits, …)"
Data = Annotated[str, typer.Argument(help=f"{_SOURCES}.")]
DataOrResume = Annotated[str | None, typer.Argument(help=f"{_SOURCES}; not with --resume.")]
Target = Annotated[str | None, typer.Option(help="Column (or array) to predict; image folders need none.")]
MetricName = Annotated[str | None, typer.Option("--metric", help=f"The metric to train for: {METRICS}")]
MetricNames = Annotated[
    list[str] | None, typer.Option("--metric", help=f"The metric to compare by; repeatable: {METRICS}")
]
Positive = Annotated[str | None, typer.Option(help="The value of the target that is the positive class.")]
Group = Annotated[str | None, typer.Option(help="Column of up to 50 groups, by which the report breaks rates down.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Column whose rows belong together (a patient, a site) and stay together in every split; "
        "masks: a regular expression that matches it in a picture's path."
    ),
]
Query = Annotated[
    str | None, typer.Option(help="Column that names each row's query: ranked lists, with ndcg@10, ndcg or ap (MAP).")
]
Model = Annotated[
    str,
    typer.Option(help="Pictures: efficientnet-lite0 or timm/NAME, whose pretrained features are learned from."),
]
ImageSize = Annotated[int | None, typer.Option(help="Side in pixels to which images are scaled.")]
Out = Annotated[Path | None, typer.Option(help="Output folder; by default a new one under runs/.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="NAME=KIND: number, category, date[:%d/%m/%Y], text or ignore; repeatable."),
]
Encoding = Annotated[str | None, typer.Option(help="Text encoding of the CSV, e.g. latin-1.")]
Rows = Annotated[int | None, typer.Option(help="Read only this many rows from the top of the table.")]
Time = Annotated[
    str | None,
    typer.Option(help="Column of moments: folds learn from what was before and are judged on what came."),
]
Test = Annotated[str | None, typer.Option(help="A file of test rows; by default all rows learn and judge.")]
Holdout = Annotated[float, typer.Option(help="Share of the rows that only test, such as 0.2; by default none.")]
Members = Annotated[
    str | None,
    typer.Option(help="Members of the ensemble: any of linear,trees,network; on pretrained features also head."),
]
SkipCorrupt = Annotated[
    bool, typer.Option("--skip-corrupt", help="Leave out pictures that cannot be read, and list them.")
]
Fast = Annotated[bool, typer.Option("--fast", help="Trees alone on one split, instead of the ensemble.")]
Budget = Annotated[float | None, typer.Option(help="Limit in minutes; members that would take longer are left out.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print what was found as JSON, and nothing else, to standard output.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes.")]
Memory = Annotated[
    str | None, typer.Option(help="Memory limit, such as 1.5GB; a table that does not fit is read as a stream.")
]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of processes; by default one per core (train: on larger tables).")
]
ExecutorName = Annotated[
    str | None, typer.Option("--executor", help="Where cells run: local:N, dask://HOST:PORT, ray or module:factory.")
]
#: Name, type and default of every option of `aimfor train`, in the order of the help.
TRAIN: dict[str, tuple[Any, Any]] = {
    "data": (DataOrResume, None),
    "target": (Target, None),
    "metric": (MetricName, None),
    "positive": (Positive, None),
    "column": (Columns, None),
    "group": (Group, None),
    "cluster": (Cluster, None),
    "query": (Query, None),
    "model": (Model, "auto"),
    "time": (Time, None),
    "test": (Test, None),
    "holdout": (Holdout, 0.0),
    "members": (Members, None),
    "fast": (Fast, False),
    "budget": (Budget, None),
    "jobs": (Jobs, None),
    "out": (Out, None),
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
    "image_size": (ImageSize, None),
    "skip_corrupt": (SkipCorrupt, False),
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
    "encoding": (Encoding, None),
    "rows": (Rows, None),
    "memory": (Memory, None),
    "json": (Json, False),
    "quiet": (Quiet, False),
}
COMPARE: dict[str, tuple[Any, Any]] = {
    "data": (Data, REQUIRED),
    "target": (Target, None),
    "metric": (MetricNames, None),
    "positive": (Positive, None),
    "column": (Columns, None),
    "query": (Query, None),
    "cluster": (Cluster, None),
    "members": (Members, None),
    "model": (Model, "auto"),
    "seeds": (Annotated[int, typer.Option(help="Paired seeds and splits.")], 5),
    "seed": (Annotated[int, typer.Option(help="The first seed.")], 0),
    "jobs": (Jobs, None),
    "executor": (ExecutorName, None),
    "out": (Out, None),
    "image_size": (ImageSize, None),
    "encoding": (Encoding, None),
    "rows": (Rows, None),
    "json": (Json, False),
    "quiet": (Quiet, False),
}


def executor_of(jobs: int | None, executor: str | None) -> str | None:
    """One executor from the two flags; None leaves the choice to the command."""
    if jobs is not None and executor is not None:
        raise InputError("--jobs", f"{jobs} beside --executor {executor}", "one of the two", f"Write local:{jobs}.")
    return executor if jobs is None else f"local:{jobs}"


def kinds_of(members: str | None, *, features: bool = False) -> tuple[str, ...] | None:
    """``"linear, trees"`` as a tuple; None where nothing was given. On ``features`` each has a form of its own."""
    from ..learners.ensemble import FOR_FEATURES, FOR_TABLES

    if members is None:
        return FOR_FEATURES if features else None
    words = tuple(word.strip() for word in members.split(",") if word.strip())
    names = [name.removeprefix("features_") for name in (FOR_FEATURES if features else FOR_TABLES)]
    for word in words:
        if word not in names:
            raise InputError("--members", repr(word), f"some of {', '.join(names)}", nearest(word, names))
    return tuple(f"features_{word}" for word in words) if features else words


def check_model(model: str) -> None:
    """Raises `InputError` for anything but a pretrained network."""
    from ..data.backbones import LITE0, is_backbone

    if model != "auto" and not is_backbone(model):
        remedy = "A network of your own is trained in a loop with aimfor.MetricLoss."
        raise InputError("--model", repr(model), f"{LITE0} or timm/NAME, for pictures", remedy)


def refuse_mixed(given: dict[str, Any]) -> None:
    """Raises `InputError` for options of which one leaves nothing for the other to do."""
    others = ("members", "budget", "jobs") if given["fast"] else ()
    other = next((name for name in others if given[name] not in (None, False)), None)
    if other is not None:
        name = "--" + other.replace("_", "-")
        raise InputError("--fast", f"the option together with {name}", "one of the two", "Leave one of them out.")


def bytes_of(text: str | None) -> int:
    """``"1.5GB"`` or ``"800MB"`` in bytes; 0 for nothing."""
    if text is None:
        return 0
    units = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
    number, unit = text.strip()[:-2], text.strip()[-2:].upper()
    try:
        size = float(number) * units[unit]
    except (KeyError, ValueError):
        raise InputError("--memory", repr(text), "a size such as 800MB or 1.5GB") from None
    if not 0 < size < float("inf"):
        raise InputError("--memory", repr(text), "a size above zero, such as 1.5GB")
    return int(size)
