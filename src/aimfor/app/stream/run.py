"""`aimfor train` on a stream: trees learn from all rows, the other members from a sample that fits into memory."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.calibrate import probability
from ...fitting.committee import Committee, FolderStore, Progress, fit_committee
from ...fitting.committee.decide import Threshold
from ...fitting.committee.folds import Folds
from ...fitting.committee.members import Member, members
from ...fitting.committee.members.trees import need_lightgbm
from ...fitting.committee.store import Store
from ...fitting.config import Settings
from ..data.tables import memory_needed
from ..run.card import committee_card
from ..run.committee_files import CELLS, forget_cells, save_committee
from ..run.convening import RULE, committee_facts, decision_of, keeping_floor
from ..run.evaluate import evaluate
from ..run.folder import check_unchanged, new_folder, stopped_run, write_config
from .prepare import Ready, prepare
from .table import is_stream
from .trees import StreamedTrees, share_that_fits

#: CSV files as Parquet, while the run is not finished.
STAGED = "rows"


def is_wanted(data: str, memory: int) -> bool:
    """Whether the data is read as a stream: a folder of tables, or a file too large for ``memory`` bytes (if not 0)."""
    path = Path(data)
    if path.is_file():
        return bool(memory) and path.suffix.lower() != ".npz" and memory_needed(path) > memory
    return is_stream(data)


def start(settings: Settings, out: Path | None) -> tuple[Path, Ready]:
    """Reads the table once, checks everything and writes config.json. A run that cannot start leaves no folder."""
    folder = new_folder(out, f"{Path(settings.data).name.split('.')[0]}-{settings.metric}")
    try:
        ready = prepare(settings, folder / STAGED)
        members_of(ready)
    except BaseException:
        shutil.rmtree(folder / STAGED, ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    config = {
        "aimfor": __version__,
        "kind": "stream",
        "settings": ready.settings.model_dump(),
        "labels": ready.labels.state,
        "encoder": ready.encoder.state,
        "fingerprint": ready.fingerprint,
    }
    write_config(folder, config)
    return folder, ready


def reopen(folder: Path) -> Ready:
    """A run to be continued. Raises `InputError` when it is finished or has other data now."""
    config, settings = stopped_run(folder)
    ready = prepare(settings, folder / STAGED)
    check_unchanged(folder, config, ready.fingerprint)
    return ready


def members_of(ready: Ready) -> tuple[tuple[Member, ...], list[str]]:
    """Who learns, and notes. Raises `InputError` where trees are wanted and cannot be."""
    settings, notes, found = ready.settings, list[str](), list[Member]()
    kinds = ("trees",) if settings.fast else settings.members
    if "trees" in kinds:
        need_lightgbm("--members")
        held_out = sum(count for part, count in ready.rows.items() if part != "train")
        share = share_that_fits(ready.reader, held_out, ready.memory)
        if share < 1.0:
            part = f"{100 * share:.0f} % of the training rows, the same share of each row group"
            notes.append(f"trees were grown from {part}")
        found.append(StreamedTrees(ready.reader, ready.sample[0], share, settings.threads))
    others = tuple(kind for kind in kinds if kind != "trees")
    if others:
        y = ready.sample[1][: ready.members]
        absent = set(range(len(ready.labels.classes))) - set(y.unique().tolist())
        if absent and found:
            name = ready.labels.classes[min(absent)]
            notes.append(f"trees alone: the {len(y):,} training rows in memory have none of class {name!r}")
        elif absent:
            came = f"{','.join(others)} for {len(y):,} training rows in memory without class {min(absent)}"
            raise InputError("--members", came, "trees, which learn from all rows")
        else:
            found += members(others)
            if len(y) < ready.rows["train"]:
                titles = ", ".join(member.title for member in members(others))
                notes.append(f"{titles}: learned from {len(y):,} training rows, as many as are kept in memory")
    return tuple(found), notes


def fit(ready: Ready, store: Store, report: Callable[[Progress], None], stop: Callable[[], bool]) -> Committee:
    """The ensemble of a stream. The validation rows stop its members, weigh them and place the threshold."""
    wanted, notes = members_of(ready)
    x, y = (part[: ready.members] for part in ready.sample)
    n = len(y) + len(ready.validation[1])
    committee = fit_committee(
        torch.cat((x, ready.validation[0])),
        torch.cat((y, ready.validation[1])),
        ready.objective,
        outputs=ready.labels.outputs,
        who=wanted,
        folds=Folds((torch.arange(len(y), n),), n),
        seed=ready.settings.seed,
        minutes=ready.settings.budget_minutes,
        store=store,
        report=report,
        stop=stop,
    )
    text = committee.threshold.text.replace("out-of-fold", "validation")
    committee = replace(
        committee, threshold=Threshold(committee.threshold.value, text), notes=[*notes, *committee.notes]
    )
    if ready.aside is None:
        return committee
    scores, grouped = committee.scores(ready.aside[0]), ready.settings.split_by is not None
    return keeping_floor(committee, scores, ready.aside[1], "validation", grouped)


def finish(folder: Path, ready: Ready, report: Callable[[Progress], None], stop: Callable[[], bool]) -> dict[str, Any]:
    """Learns what is not in the folder yet and writes every output file, metrics.json last; returns the metrics."""
    began = time.monotonic()
    committee = fit(ready, FolderStore(folder / CELLS), report, stop)
    test, cut = committee.scores(ready.test[0]), committee.threshold.value
    stated = probability(test) if ready.labels.binary else test.softmax(1)
    found = evaluate(ready.objective, test, ready.test[1], cut, ready.groups, probabilities=stated.numpy())
    metrics = {
        "metric": ready.settings.metric,
        "validation": committee.promised,
        "test": found,
        "importance": {"left_out": "the rows of a stream are not kept"},
        "threshold": cut,
        "threshold_text": committee.threshold.text,
        "committee": committee_facts(committee, RULE.replace("out-of-fold", "validation")),
        "rows": ready.rows,
        "notes": [*ready.notes, *committee.notes],
        "torch": torch.__version__,
        "history": [],
        "seconds": round(time.monotonic() - began, 3),
    }
    name = Path(ready.settings.data).name
    checkpoint.write_json(folder / "threshold.json", decision_of(ready.labels, committee))
    save_committee(folder, committee)
    checkpoint.write_text(
        folder / "README.md", committee_card(name, ready.settings, ready.labels, metrics, "tabular-classification")
    )
    checkpoint.write_json(folder / "metrics.json", metrics)
    forget_cells(folder)
    shutil.rmtree(folder / STAGED, ignore_errors=True)
    for part in folder.rglob(".*.part"):  # of a save in whose middle the process was killed
        part.unlink(missing_ok=True)
    return metrics
