"""The program from Python: `aimfor.train` and `aimfor.compare` take the options of the commands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from .cli import compare as comparing
from .cli.main import begin
from .cli.options import COMPARE, TRAIN
from .data import checkpoint
from .errors import InputError, nearest
from .report.write import summary, verdict, write_report
from .runs import driver
from .runs.evaluation import AnyEvaluation, read_evaluation
from .runs.finished import load

__all__ = ["Comparison", "FinishedRun", "compare", "train"]

#: What a Python call says by its own arguments, or has no use for.
_OWN = {"data", "metric", "target", "out", "json", "quiet", "resume", "seeds", "jobs", "executor"}


class FinishedRun:
    """A run that `train` made: what it found, its report, and what it says about new rows.

    Attributes:
        folder: Where everything is; `aimfor.load(folder)` reads the model again.

    Example:
        >>> import tempfile, aimfor
        >>> run = aimfor.train("iris", metric="accuracy", members="linear", out=tempfile.mkdtemp() + "/run")
        >>> run.evaluation.test.metric > 0.8
        True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def evaluation(self) -> AnyEvaluation:
        """What the run found, as types: see `aimfor.runs.evaluation`."""
        return read_evaluation(self.folder)

    def report(self) -> Path:
        """Writes report.html anew and says where it is."""
        return write_report(self.folder)

    def predict(self, data: Any) -> Any:
        """The decided label of each row of a frame, a mapping of columns, an array or a file."""
        return load(self.folder).predict(data)

    def predict_proba(self, data: Any) -> Any:
        """Calibrated probabilities ``(n, c)``."""
        return load(self.folder).predict_proba(data)

    def __repr__(self) -> str:
        return f"FinishedRun({str(self.folder)!r}: {verdict(self.evaluation)})"

    def _repr_html_(self) -> str:
        rows = _table([*summary(self.evaluation), ("folder", str(self.folder))])
        return f"<p>{escape(verdict(self.evaluation))}</p>{rows}"


class Comparison:
    """What `compare` found: sentences, a table for each metric, and the report.

    Attributes:
        folder: Where everything is.
        verdicts: A sentence or more for each metric.
        parts: For each metric what comparison.json holds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: list[dict[str, Any]] = checkpoint.read_json(folder / "comparison.json")["parts"]
        self.verdicts: list[str] = [sentence for compared in self.parts for sentence in compared["verdicts"]]

    def report(self) -> Path:
        """Writes report.html anew and says where it is."""
        return write_report(self.folder)

    def __repr__(self) -> str:
        return f"Comparison({str(self.folder)!r}: {' '.join(self.verdicts)})"

    def _repr_html_(self) -> str:
        return _table([(compared["metric"], " ".join(compared["verdicts"])) for compared in self.parts])


def train(data: Any, *, metric: str, target: str | None = None, out: Any = None, **options: Any) -> FinishedRun:
    """What ``aimfor train`` does: an ensemble on a table or pictures, an embedding, or a network for masks.

    Args:
        data: A path, a built-in set, or a data frame (pandas, polars, Arrow), which is kept as Parquet beside the runs.
        metric: The metric to train for.
        target: The column to predict.
        out: The run's folder; a new one under ``runs`` by default.
        options: Those of the command, with underscores: ``members="linear,trees"``, ``group="site"``, ``seed=1``.

    Returns:
        The finished run.

    Raises:
        InputError: Whatever the command refuses, in the same words.

    Example:
        >>> import tempfile, aimfor
        >>> aimfor.train("iris", metric="accuracy", member="linear")
        Traceback (most recent call last):
            ...
        aimfor.errors.InputError: member: got 'linear', expected an option of aimfor train. Did you mean 'members'?
    """
    folder = None if out is None else Path(out)
    given = _given(TRAIN, options, "aimfor train", "jobs")
    given |= {"data": _path(data, folder), "metric": metric, "target": target, "out": folder, "quiet": True}
    typed = [name for name, (_, default) in TRAIN.items() if given[name] != default and name != "quiet"]
    folder, task = begin(given, typed)
    driver.finish(folder, task)
    write_report(folder)
    return FinishedRun(folder)


def compare(
    data: Any,
    *,
    metric: str | Iterable[str],
    target: str | None = None,
    seeds: int = 5,
    out: Any = None,
    **options: Any,
) -> Comparison:
    """What ``aimfor compare`` does: the ensemble beside what people use on such data, over paired seeds and splits.

    Args:
        data: As for `train`.
        metric: One, or several.
        target: The column to predict.
        seeds: Paired seeds and splits.
        out: The folder; finished cells in it are used again.
        options: Those of the command, with underscores.

    Returns:
        The comparison.

    Raises:
        InputError: Whatever the command refuses, in the same words.

    Example:
        >>> import aimfor
        >>> aimfor.compare("iris", metric="accuracy", membre=3)
        Traceback (most recent call last):
            ...
        aimfor.errors.InputError: membre: got 3, expected an option of aimfor compare. Did you mean 'members'?
    """
    folder = None if out is None else Path(out)
    given = _given(COMPARE, options, "aimfor compare", "seeds")
    metrics = [metric] if isinstance(metric, str) else list(metric)
    given |= {"data": _path(data, folder), "target": target, "metric": metrics}
    return Comparison(comparing.run(comparing.settings_of(given), seeds, None, folder, quiet=True)[0])


def _given(declared: dict[str, tuple[Any, Any]], options: dict[str, Any], what: str, *own: str) -> dict[str, Any]:
    """Every option with its value. Raises `InputError` for one that the command does not have."""
    names = [*(name for name in declared if name not in _OWN), *own]
    for name, value in options.items():
        if name not in names:
            raise InputError(name, repr(value), f"an option of {what}", nearest(name, names))
    given = {name: options.get(name, default) for name, (_, default) in declared.items()}
    if isinstance(given["members"], list | tuple):  # the command takes words
        for member in given["members"]:
            if not isinstance(member, str):
                remedy = "MetricClassifier(members=[...]) takes classifiers of your own, in memory."
                came = f"a {type(member).__name__}, which a run folder cannot hold as data"
                raise InputError("members", came, "names of kinds such as 'linear'", remedy)
        given["members"] = ",".join(given["members"])
    return given


def _path(data: Any, out: Path | None) -> str:
    """Where the data lies; a frame is written as Parquet beside the runs, under a digest of its bytes."""
    if isinstance(data, str | Path):
        return str(data)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        came = f"a {type(data).__name__} ({str(error)[:80]})"
        raise InputError("data", came, "a path, a built-in set or a data frame") from None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content = sink.getvalue().to_pybytes()
    folder = (Path("runs") if out is None else out.resolve().parent) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"frame-{hashlib.sha256(content).hexdigest()[:12]}.parquet"
    if not path.exists():
        checkpoint.write_bytes(path, content)
    return str(path)


def _table(rows: list[tuple[str, str]]) -> str:
    lines = "".join(f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
    return f"<table>{lines}</table>"
