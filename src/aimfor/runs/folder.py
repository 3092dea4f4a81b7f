"""The folder of a run: a new one, one to go on with or one that is finished; its config.json, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..data import checkpoint
from ..data.settings import Settings
from ..errors import InputError
from .evaluation import FINISHED

#: Where a task puts its work that is not finished, below the run's folder.
CELLS = "cells"
#: Digests of the files that decide.
FILES = "files.json"
#: What decides nothing: pages, logs, and what is not finished.
_BESIDE = ("README.md", "report.html", "log.jsonl", "sheets.json", FINISHED, FILES, CELLS)
#: Kinds that no ensemble on one column of classes makes, and what is expected instead.
_OF_PICTURES, _ENSEMBLE = ("masks", "labels", "embedding"), "one column of classes or a table"


def fingerprint_of(*values: Any) -> str:
    """Changes when any of the values does: tensors and arrays by their bytes, the rest by its JSON; None is nothing."""
    total = hashlib.sha256()
    for value in values:
        if isinstance(value, Tensor | np.ndarray):
            total.update(np.ascontiguousarray(value).tobytes())
        elif value is not None:
            total.update(json.dumps(value, sort_keys=True).encode())
    return total.hexdigest()


def stopped_run(folder: Path) -> tuple[dict[str, Any], Settings]:
    """config.json and settings of a run to be continued. Raises `InputError` when it is finished."""
    if (folder / FINISHED).exists():
        raise InputError("--resume", f"{folder}, which is finished", "a run that was stopped")
    return _config(folder)


@contextmanager
def finished_run(folder: Path, kind: str = "", expected: str = _ENSEMBLE) -> Iterator[tuple[dict[str, Any], Settings]]:
    """config.json and settings of a finished run; at the end of the block, what decides must be as training left it.

    Args:
        folder: The run's.
        kind: What it must be; by default an ensemble on a table, lists or pictures.
        expected: What is said of a run of another kind.

    Raises:
        InputError: No run, one of another kind, one that was stopped, or a damaged one.
    """
    if not folder.is_dir():
        raise InputError("run", f"{folder}, which is no folder", "the folder of an aimfor run")
    config, settings = _config(folder)
    actual = kind_of(folder)
    if (actual if actual in _OF_PICTURES else "") != kind:
        raise InputError("run", f"{folder}, one of another kind ({actual})", expected)
    if not (folder / FINISHED).exists():
        raise InputError("run", f"{folder}, which is not finished", "a finished run", "Continue it with --resume.")
    yield config, settings
    check_sealed(folder)


def _config(folder: Path) -> tuple[dict[str, Any], Settings]:
    config = checkpoint.read_json(folder / "config.json")
    if config.get("recipe") is not None:
        came = f"{folder}, one network by aimfor {config.get('aimfor')}"
        raise InputError("run", came, "a run of this version", "Read it by that version, or train again.")
    with checkpoint.reading(folder / "config.json"):
        return config, Settings.stored(config["settings"])


def kind_of(folder: Path) -> str:
    """The kind of run, as `kinds.KINDS` calls it; empty for a folder that cannot be read: whoever opens it says why."""
    try:
        return str(checkpoint.read_json(folder / "config.json").get("kind", "table"))
    except InputError:
        return ""


def seal(folder: Path) -> None:
    """Writes down what every file that decides holds; `check_sealed` compares."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    names = [name for name in names if not name.name.startswith(".")]  # parts and locks
    decide = [name for name in names if name.parts[0] not in _BESIDE]
    digests = {name.as_posix(): hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in decide}
    checkpoint.write_json(folder / FILES, {"sha256": digests})


def check_sealed(folder: Path) -> None:
    """Raises `InputError` where a file that decides is not as training left it; earlier runs have no seal."""
    if not (folder / FILES).exists():
        return
    stored = checkpoint.read_json(folder / FILES)
    with checkpoint.reading(folder / FILES):
        for name, digest in stored["sha256"].items():
            path = folder / name
            checkpoint.check_plain(path)
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                came = f"{path}, which is missing or has changed since training"
                raise InputError("run", came, "the file as aimfor wrote it", "Put back a copy, or train again.")


def new_folder(out: Path | None, name: str) -> Path:
    """The output folder, made and writable; by default the next free ``runs/NAME``, ``runs/NAME-2``, …"""
    if out is None:
        out = _next_free(Path("runs") / "".join(c if c.isalnum() or c in "-_.=@" else "_" for c in name))
    elif (out / "config.json").exists():
        raise _taken(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError("--out", f"{out} ({error.strerror})", "a folder that may be written") from None
    return out


def _next_free(base: Path) -> Path:
    """Made here and now, so that two runs that start at once have two folders."""
    base.parent.mkdir(parents=True, exist_ok=True)
    number, candidate = 1, base
    while True:
        try:
            candidate.mkdir()
            return candidate
        except FileExistsError:
            number += 1
            candidate = base.with_name(f"{base.name}-{number}")


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """config.json of a new run. Raises `InputError` when another run has put its own there meanwhile."""
    draft = folder / f".config.{os.getpid()}.json"
    checkpoint.write_json(draft, config)
    try:
        os.link(draft, folder / "config.json")  # unlike a move, this fails where there is one already
    except FileExistsError:
        raise _taken(folder) from None
    finally:
        draft.unlink(missing_ok=True)


def _taken(out: Path) -> InputError:
    return InputError("--out", f"{out}, which holds a run", "a new folder", "Continue that run with --resume.")
