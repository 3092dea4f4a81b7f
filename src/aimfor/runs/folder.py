"""The folder of a run: a new one or one to go on with, its config.json, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..data import checkpoint
from ..data.settings import Settings
from ..errors import InputError
from .evaluation import FINISHED
from .task import CELLS

#: Digests of the files that decide.
FILES = "files.json"
#: What decides nothing: pages, logs, and what is not finished.
_BESIDE = ("README.md", "report.html", "log.jsonl", "sheets.json", FINISHED, FILES, CELLS)
#: Kinds as 0.2 called them.
_EARLIER = {"many": "labels", "retrieval": "embedding"}


def fingerprint_of(*parts: Any) -> str:
    """Changes when any of the parts does: tensors and arrays by their bytes, the rest by its JSON; None is nothing."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor | np.ndarray):
            total.update(np.ascontiguousarray(part).tobytes())
        elif part is not None:
            total.update(json.dumps(part, sort_keys=True).encode())
    return total.hexdigest()


def stopped_run(folder: Path) -> tuple[dict[str, Any], Settings]:
    """config.json and settings of a run to be continued. Raises `InputError` when it is finished."""
    config = checkpoint.read_json(folder / "config.json")
    if (folder / FINISHED).exists():
        raise InputError("--resume", f"{folder}, which is finished", "a run that was stopped")
    with checkpoint.reading(folder / "config.json"):
        return config, Settings.stored(config["settings"])


def check_unchanged(folder: Path, config: dict[str, Any], fingerprint: str) -> None:
    """Raises `InputError` when the data is no longer what the run was started with."""
    if config.get("fingerprint", fingerprint) != fingerprint:  # some kinds had none in 0.1
        raise InputError("--resume", f"{folder}, whose data has changed since", "the data the run was started with")


def seal(folder: Path) -> None:
    """Writes down what every file that decides holds; `check_sealed` compares."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    names = [name for name in names if not (name.name.startswith(".") or name.suffix == ".held")]  # parts and locks
    decide = [name for name in names if name.parts[0] not in _BESIDE]
    found = {name.as_posix(): hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in decide}
    checkpoint.write_json(folder / FILES, {"sha256": found})


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


def check_finished(folder: Path) -> None:
    """Raises `InputError` for a run that was stopped."""
    if not (folder / FINISHED).exists():
        raise InputError("run", f"{folder}, which is not finished", "a finished run", "Continue it with --resume.")


def kind_of(folder: Path) -> str:
    """The kind of run, as `kinds.KINDS` calls it; empty for a folder that cannot be read: whoever opens it says why."""
    try:
        kind = str(checkpoint.read_json(folder / "config.json").get("kind", "table"))
    except InputError:
        return ""
    return _EARLIER.get(kind, kind)


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
