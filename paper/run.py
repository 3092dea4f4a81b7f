"""Runs an experiment's cells, one JSON file each, so that a stopped run goes on where it stopped.

Layout of a folder of results, per experiment::

    <out>/<name>/<key>.json    one finished cell, while a run is under way
    <out>/<name>/cells.json    all finished cells, gathered at the end of a run (this is what is committed)
    <out>/<name>/table.md …    the report
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aimfor
from aimfor.data.checkpoint import write_text
from aimfor.errors import InputError

from . import NAMES
from .experiment import Cell, Experiment, Options

GATHERED = "cells.json"
#: Called before each cell and once at the end: (cells done, cells in all, the cell about to run or None).
Progress = Callable[[int, int, Cell | None], None]


@dataclass
class Outcome:
    """How a run went: finished cells (in the experiment's order), those left, and those that failed."""

    finished: list[dict[str, Any]]
    left: list[Cell] = field(default_factory=list)
    failed: list[tuple[Cell, Exception]] = field(default_factory=list)


def load(name: str) -> Experiment:
    """The experiment of that name. Raises `InputError` with the names that exist."""
    name = name.replace("-", "_")
    if name not in NAMES:
        raise InputError("name", repr(name), "one of " + (", ".join(NAMES) or "(none yet)"), "See --list.")
    module, _, attribute = NAMES[name].partition(":")
    experiment: Experiment = getattr(
        importlib.import_module(f".{module}", "paper.experiments"), attribute or "EXPERIMENT"
    )
    return experiment


def cell_key(cell: Cell, full: bool = False, model: str | None = None) -> str:
    """A file name for a cell: readable at the front, exact by the hash at the end."""
    named = {} if model is None else {"model": model}
    exact = json.dumps({"cell": cell, "full": full, **named}, sort_keys=True, ensure_ascii=False)
    readable = re.sub(r"[^\w.=-]+", "_", "_".join(f"{value}" for value in cell.values()))[:60]
    return f"{readable}-{hashlib.sha256(exact.encode()).hexdigest()[:10]}"


def run(
    experiment: Experiment,
    options: Options,
    out: Path,
    *,
    budget: float | None = None,
    cached_only: bool = False,
    progress: Progress = lambda done, total, cell: None,
) -> Outcome:
    """Runs the cells that are not cached, then writes the report.

    Args:
        experiment: What to run.
        options: Passed on to it.
        out: Folder of results; the experiment gets a folder of its own in it.
        budget: Seconds after which no further cell is started.
        cached_only: Start no cell at all; report on what is there.
        progress: See `Progress`.

    Returns:
        What is finished, left and failed. A cell that raises does not stop the others, except for an `InputError`
        (missing data or wrong settings), which would befall them all.
    """
    if options.model is not None and options.model not in experiment.networks:
        choice = "one of " + ", ".join(experiment.networks) if experiment.networks else "none: it has its own networks"
        raise InputError("model", repr(options.model), f"for {experiment.name}, {choice}")
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    cells = experiment.cells(options)
    keys = [cell_key(cell, options.full, options.model) for cell in cells]
    if len(set(keys)) < len(keys):
        raise InputError("cells", "the same cell twice", "cells that differ", f"Look at {experiment.name}.cells().")
    cache, outcome, start = _read_cache(folder), Outcome([]), time.monotonic()
    for done, (cell, key) in enumerate(zip(cells, keys, strict=True)):
        if key not in cache:
            if cached_only or (budget is not None and time.monotonic() - start > budget):
                outcome.left.append(cell)
                continue
            progress(done, len(cells), cell)
            try:
                cache[key] = _run_cell(experiment, cell, options)
            except InputError:
                raise
            except Exception as error:
                outcome.failed.append((cell, error))
                continue
            _write_cells(folder / f"{key}.json", cache[key])
        outcome.finished.append(cache[key])
    progress(len(cells), len(cells), None)
    gather(folder)
    if outcome.finished:
        experiment.report(outcome.finished, folder)
    return outcome


def _run_cell(experiment: Experiment, cell: Cell, options: Options) -> dict[str, Any]:
    began = time.perf_counter()
    result = experiment.run(cell, options)
    seconds = round(time.perf_counter() - began, 2)
    return {
        "cell": cell,
        "result": _plain(result),
        "seconds": seconds,
        "full": options.full,
        **({} if options.model is None else {"model": options.model}),
        "version": aimfor.__version__,
    }


def gather(folder: Path) -> None:
    """Moves all finished cells into one file, so that the tree stays small."""
    single = [path for path in folder.glob("*.json") if path.name != GATHERED]
    if single:
        everything = _read_cache(folder)
        _write_cells(folder / GATHERED, [everything[key] for key in sorted(everything)])
        for path in single:
            path.unlink(missing_ok=True)


def _read_cache(folder: Path) -> dict[str, dict[str, Any]]:
    """All finished cells by key: the gathered file first, then single files, which are newer."""
    entries = gathered_cells(folder)
    for path in sorted(folder.glob("*.json")):
        if path.name != GATHERED:
            entries.append(json.loads(path.read_text(encoding="utf8")))
    return {_key(entry): entry for entry in entries}


def gathered_cells(folder: Path) -> list[dict[str, Any]]:
    """The cells of one experiment's gathered file, none if there is no such file.

    Raises:
        InputError: The same cell twice: a merge kept both, and means would count it twice.
    """
    path = folder / GATHERED
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf8")) if path.exists() else []
    seen: set[str] = set()
    for entry in entries:
        if _key(entry) in seen:
            raise InputError("cells", f"{_key(entry)} twice in {path}", "each cell once", "Delete one of the lines.")
        seen.add(_key(entry))
    return entries


def _key(entry: dict[str, Any]) -> str:
    return cell_key(entry["cell"], entry.get("full", False), entry.get("model"))


def _write_cells(path: Path, content: Any) -> None:
    """One line a cell; a reader, or a run that is killed, sees the old file or the new one, never half of one."""
    if isinstance(content, list):
        write_text(path, "[\n" + ",\n".join(_dump(entry) for entry in content) + "\n]\n")
    else:
        write_text(path, _dump(content) + "\n")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null. Floats keep seven digits, which is all a report shows."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    raise InputError("result", f"a value of type {type(value).__name__}", "plain numbers, texts, lists and dicts")
