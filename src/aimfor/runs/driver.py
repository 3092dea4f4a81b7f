"""What is the same for every run: a new folder or one to go on with, one at a time, the stop, and what is written when.

metrics.json is written last: a folder that has it has everything.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .. import __version__
from ..data import checkpoint
from ..data.executors import peak_megabytes
from ..data.features import Work
from ..data.settings import Settings
from ..errors import InputError
from . import kinds
from .evaluation import AnyEvaluation, card, write_evaluation
from .folder import CELLS, new_folder, seal, stopped_run, write_config
from .kinds import Task, Tell
from .process import locked, stop_on_signal
from .sheets import SHEETS


def start(
    settings: Settings,
    out: Path | None,
    work: Work | None = None,
    check: Callable[[tuple[str, ...]], None] = lambda possible: None,
) -> tuple[Path, Task]:
    """Checks everything, then makes the folder and writes config.json: a run that cannot start leaves no folder.

    Args:
        settings: What the run depends on.
        out: Its folder; None takes the next free one below ``runs``.
        work: How features of pictures are computed.
        check: Called with the kinds of run that are still possible; may refuse options without effect.
    """
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(new_folder(out, name))
        return made[0]

    task = kinds.prepare(settings, work or Work(), make, check)
    folder = made[0] if made else make(f"{task.name}-{settings.metric}")
    facts = {"kind": task.kind, "settings": task.settings.model_dump(), **task.facts}
    write_config(folder, {"aimfor": __version__, **facts, "fingerprint": task.fingerprint})
    return folder, task


def reopen(folder: Path, work: Work | None = None) -> Task:
    """A run to be continued. Raises `InputError` when it is finished or has other data now."""
    config, settings = stopped_run(folder)
    task = kinds.prepare(settings, work or Work(), lambda name: folder, lambda possible: None)
    if config.get("fingerprint", task.fingerprint) != task.fingerprint:  # some kinds had none in 0.1
        raise InputError("--resume", f"{folder}, whose data has changed since", "the data the run was started with")
    return task


def finish(folder: Path, task: Task, tell: Tell = lambda step: None) -> AnyEvaluation:
    """Learns (or goes on) to the end and writes every file."""
    with locked(folder), stop_on_signal(folder, how_to_go_on(folder)) as stop:
        began = time.monotonic()
        fitted = task.fit(folder, tell, stop)
        evaluation = task.evaluate(fitted, tell, stop)
        notes = [*evaluation.notes, *(over_limit(task.settings.memory) if task.kind == "table" else [])]
        evaluation = replace(evaluation, seconds=round(time.monotonic() - began, 3), notes=notes)
        sheets = task.sheets(fitted, evaluation)
        if sheets is not None:
            checkpoint.write_json(folder / SHEETS, {"sheets": sheets})
        task.save(folder, fitted, evaluation)
        seal(folder)
        checkpoint.write_text(folder / "README.md", card(task, kinds.KINDS[task.kind].hub, evaluation))
        write_evaluation(folder, evaluation)
        shutil.rmtree(folder / CELLS, ignore_errors=True)  # needed to go on; a finished run has all it needs
    return evaluation


def over_limit(memory: int) -> list[str]:
    """A note where the process had more memory than ``--memory`` allows; libraries alone take half a gigabyte."""
    peak = peak_megabytes()
    if not memory or peak is None or peak <= memory >> 20:
        return []
    return [f"--memory {memory >> 20}MB was not kept: at its peak the run had {peak:.0f} MB"]


def how_to_go_on(folder: Path) -> str:
    """What a user is told after a stop."""
    return f"Stopped; the state is saved. Continue with: aimfor train --resume {folder}"
