"""What a run starts from: data made ready for training, and a folder of its own with its settings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import __version__
from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.augment import SAID, sort_of
from ...fitting.backbones import WORTH, is_backbone, load_backbone
from ...fitting.columns import TableEncoder
from ...fitting.columns.suspects import near_perfect
from ...fitting.committee.members.base import Rows
from ...fitting.config import Settings
from ...fitting.objective import Objective
from ...metrics import NDCG
from ...metrics.at_rate import AtRate
from ..data.encode import Encoder, encode, fit_encoder
from ..data.features import SIDE, Work
from ..data.labels import GRADES, SEVERAL, Labels, Split, fit_labels, split
from ..data.lists import grades_of, list_numbers, split_lists
from ..data.source import Source
from ..data.sources import load


@dataclass
class Prepared:
    """A source made ready for training: encoders, split and tensors."""

    source: Source
    objective: Objective
    labels: Labels
    ids: Tensor
    parts: Split
    encoder: Encoder
    x: Tensor
    settings: Settings
    #: The list of each row, where the table is one of ranked lists.
    lists: Tensor | None = None

    def part(self, name: str) -> Rows:
        """The rows of ``"train"``, ``"validation"`` or ``"test"``."""
        return Rows(self.x, self.ids, lists=self.lists).take(torch.from_numpy(getattr(self.parts, name)))

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        rows = self.part("test")
        return rows.x, rows.y

    @property
    def notes(self) -> list[str]:
        return [*self.source.notes, *self.labels.notes, *self.encoder.notes]

    def fingerprint(self) -> str:
        """Changes when the data does; a resumed run checks it."""
        return fingerprint_of(self.x, self.ids, self.lists)


def read_source(settings: Settings, work: Work | None = None) -> Source:
    """The data of the settings. For a pretrained network its weights are looked for first: they may not be there."""
    known: Container[str] = ()
    if is_backbone(settings.model):
        known = (work or Work()).store(load_backbone(settings.model), settings.image_size or SIDE).known
    return load(
        settings.data,
        settings.target,
        group=settings.group,
        query=settings.query,
        encoding=settings.encoding,
        rows=settings.rows,
        image_size=settings.image_size,
        lazy=is_backbone(settings.model),
        skip_corrupt=settings.skip_corrupt,
        known=known,
    )


def prepare(
    settings: Settings, source: Source | None = None, *, committee: bool = False, work: Work | None = None
) -> Prepared:
    """Reads, labels, splits (by the seed) and encodes. All input errors surface here, before anything is written.

    For a ``committee`` there are no validation rows, except under a metric with a floor: a threshold that guarantees
    the floor needs rows that took no part in anything. ``work`` says how features of pictures are computed.
    """
    objective = Objective.of(settings.metric)
    if settings.query is not None:
        objective = objective.by_list()
    work = work or Work()
    source = source or read_source(settings, work)
    assert source.labels is not None
    if settings.query is not None:
        return _prepare_lists(settings, source, objective, committee)
    if source.labels.ndim > 1:  # `app.many` takes those
        raise InputError("target", f"{len(source.label_names)} labels at once", "one column of classes")
    objective = objective.on_classes(len(set(source.labels)), settings.positive)
    otherwise = GRADES if isinstance(objective.metric, NDCG) else SEVERAL
    labels = fit_labels(source.labels, binary=objective.binary, positive=settings.positive, otherwise=otherwise)
    ids = labels.encode(source.labels)
    kept_aside = not committee or isinstance(objective.metric, AtRate)
    parts = split(ids, settings.seed, source.test, validation=kept_aside, whole=source.whole)
    backbone = settings.model if is_backbone(settings.model) else ""
    if backbone and source.kind == "table":
        raise InputError("--model", f"{backbone} for a table", "pictures", "Leave --model out.")
    work.hashes = source.hashes
    how: dict[str, Any] = {"backbone": backbone, "side": settings.image_size, "fine_tune": settings.fine_tune}
    encoder = fit_encoder(source, parts.train, settings.wishes, work=work, **how)
    x = torch.from_numpy(encode(encoder, source))
    if committee and source.images is not None:
        source.notes += [WORTH, *([SAID[sort_of(source.images[parts.train])]] if settings.augment else [])]
    if isinstance(encoder, TableEncoder):
        encoder.notes += near_perfect(encoder, x.numpy()[parts.train], ids[parts.train])
    return Prepared(source, objective, labels, torch.from_numpy(ids), parts, encoder, x, settings)


def _prepare_lists(settings: Settings, source: Source, objective: Objective, committee: bool) -> Prepared:
    """Grades for classes, and parts that keep queries whole."""
    assert settings.query is not None
    assert source.labels is not None
    assert source.queries is not None
    if settings.positive is not None:
        raise InputError("--positive", repr(settings.positive), "none with --query: the target holds grades")
    if source.whole is not None:
        raise InputError("--group", repr(settings.group), "none with --query: queries are what stays together there")
    lists = list_numbers(source.queries, settings.query)
    labels, grades = grades_of(source.labels, objective)
    parts = split_lists(lists, grades, settings.seed, source.test, validation=not committee)
    encoder = fit_encoder(source, parts.train, settings.wishes)
    x = torch.from_numpy(encode(encoder, source))
    ids, numbers = torch.from_numpy(grades), torch.from_numpy(lists)
    return Prepared(source, objective, labels, ids, parts, encoder, x, settings, numbers)


#: What every kind of run writes last: a folder that has it has everything.
FINISHED = "metrics.json"


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


def check_finished(folder: Path) -> None:
    """Raises `InputError` for a run that was stopped."""
    if not (folder / FINISHED).exists():
        raise InputError("run", f"{folder}, which is not finished", "a finished run", "Continue it with --resume.")


def kind_of(folder: Path) -> str:
    """What sort of run it is: ``masks``, ``many`` (labels), ``retrieval``, ``stream``; empty for all others.

    A folder that cannot be read has no kind either; whoever opens it says why.
    """
    try:
        return str(checkpoint.read_json(folder / "config.json").get("kind", ""))
    except InputError:
        return ""


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


def new_run(out: Path | None, name: str, kind: str, settings: Settings, **facts: Any) -> Path:
    """A new folder with the config.json of a run of this kind. Raises `InputError` where there is one already."""
    folder = new_folder(out, name)
    write_config(folder, {"aimfor": __version__, "kind": kind, "settings": settings.model_dump(), **facts})
    return folder


def _taken(out: Path) -> InputError:
    return InputError("--out", f"{out}, which holds a run", "a new folder", "Continue that run with --resume.")
