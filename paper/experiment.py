"""What an experiment is: cells to run, a function that runs one, and a report made of all their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aimfor.errors import InputError

#: The settings of one cell, including its seed; plain JSON, because they are the key of the cache.
Cell = dict[str, Any]
#: What one cell measured; plain JSON. Numbers that are not finite are stored as null.
Result = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What the user asked for, the same for every cell.

    Attributes:
        seeds: Number of paired seeds.
        data: Folder of data sets, or None when none was found (`data_folder` raises then, with the remedy).
        full: The paper's own sizes instead of those that fit a small machine.
        device: Where to train.
        model: Name of the network, where the experiment has a choice; None is the experiment's own.
    """

    seeds: int = 5
    data: Path | None = None
    full: bool = False
    device: str = "cpu"
    model: str | None = None


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper, or a comparison of our own.

    Attributes:
        name: The module's name; also the name of the folder of results.
        title: One line for ``--list``.
        paper: Which paper and where in it, or "aimfor" for comparisons beyond the papers.
        cells: The cells that ``options`` ask for. Must not read data, so that reports need none.
        run: Measures one cell. Must depend on nothing but its two arguments.
        report: Writes a Markdown table (``table.md``) and figures into a folder, from dicts with the keys "cell",
            "result" and "seconds". Called with whatever is there, which may be part of the cells.
        seeds: How many seeds to run when the user does not say.
        networks: What ``options.model`` may be.
    """

    name: str
    title: str
    paper: str
    cells: Callable[[Options], list[Cell]]
    run: Callable[[Cell, Options], Result]
    report: Callable[[list[dict[str, Any]], Path], None]
    seeds: int = 5
    networks: Collection[str] = ()


def find_data(given: Path | None) -> Path | None:
    """The folder of data sets: the one given, else ``AIMFOR_DATA``, else ``../shared/data``, else none."""
    if given is not None:
        if not given.is_dir():
            raise InputError("data", f"{given}, which is not a folder", "the folder that holds the data sets")
        return given
    for candidate in (os.environ.get("AIMFOR_DATA"), Path("..") / "shared" / "data"):
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    return None


def data_folder(options: Options, *needed: str) -> Path:
    """The data folder, after checking that the data sets ``needed`` are in it.

    Raises:
        InputError: No folder was found, or a data set is missing from it.
    """
    remedy = "Pass --data DIR, or set the environment variable AIMFOR_DATA."
    if options.data is None:
        raise InputError("data", "no folder", f"a folder with {', '.join(needed) or 'the data sets'}", remedy)
    missing = [name for name in needed if not (options.data / name).exists()]
    if missing:
        raise InputError("data", f"{options.data}, without {', '.join(missing)}", "a folder that holds it", remedy)
    return options.data
