"""A table or pictures in memory, made ready for the ensemble: labels, split, encoder and tensors."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.backbones import WORTH, is_backbone, load_backbone
from ..data.columns import TableEncoder
from ..data.columns.encoder import near_perfect
from ..data.encode import Encoder, encode, fit_encoder
from ..data.features import SIDE, Work
from ..data.load import load, take_roles
from ..data.settings import Settings
from ..data.source import Source, take_copies
from ..errors import InputError
from ..learners.ensemble.members.base import Rows
from ..metrics import NDCG
from ..targets.classes import GRADES, SEVERAL, Labels, fit_labels, grades_of, list_numbers
from ..targets.folds import Split, split, split_lists
from ..targets.objective import Objective, aside_for
from .folder import fingerprint_of

#: Share of the rows that validate for who holds out no folds.
ASIDE = 0.2
Ids = NDArray[np.int64]


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

    def rows(self, numbers: Ids) -> Rows:
        """These rows, for a member to learn from or to score."""
        return Rows(self.x, self.ids, lists=self.lists).take(torch.from_numpy(numbers))

    def clusters(self, rows: Ids) -> Tensor | None:
        """Cluster ids of these rows, where clusters must stay whole."""
        whole = self.source.whole
        return None if whole is None else torch.from_numpy(np.unique(whole[rows], return_inverse=True)[1]).long()

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(self.parts.test)
        return self.x[rows], self.ids[rows]

    @property
    def levels(self) -> tuple[int, ...]:
        """Columns of ``x`` that are numbers of levels."""
        return self.encoder.levels if isinstance(self.encoder, TableEncoder) else ()

    @property
    def fingerprint(self) -> str:
        """Changes when the data does; a resumed run checks it."""
        return fingerprint_of(self.x, self.ids, self.lists)

    @property
    def notes(self) -> list[str]:
        return [*self.source.notes, *self.labels.notes, *self.encoder.notes]


def read_source(settings: Settings, work: Work | None = None, *, one_by_one: bool = False) -> Source:
    """The data of the settings; pictures are in memory, unless they are read ``one_by_one``.

    For a pretrained network its weights are looked for first: they may not be there.
    """
    decoded: Container[str] = ()
    if is_backbone(settings.model):
        decoded = (work or Work()).store(load_backbone(settings.model), settings.image_size or SIDE).rows
    source = load(
        settings.data,
        settings.target,
        encoding=settings.encoding,
        rows=settings.rows,
        image_size=settings.image_size,
        lazy=one_by_one or is_backbone(settings.model),
        skip_corrupt=settings.skip_corrupt,
        decoded=decoded,
    )
    take_roles(source, settings)
    return source


def prepare(
    settings: Settings, source: Source | None = None, *, ensemble: bool = False, work: Work | None = None
) -> Prepared:
    """Reads, labels, splits (by the seed) and encodes. All input errors surface here, before anything is written.

    For an ``ensemble`` there are no validation rows, except under a metric with a floor: a threshold that guarantees
    the floor needs rows that took no part in anything.
    ``work`` says how features of pictures are computed.
    """
    work = work or Work()
    source = source or read_source(settings, work)
    objective, lists = Objective.of(settings.metric), None
    if settings.query is None:
        objective, labels, ids, parts = _split_classes(settings, source, objective, ensemble)
    else:
        objective = objective.by_list()
        labels, ids, parts, lists = _split_lists(settings, source, objective, ensemble)
    backbone = settings.model if is_backbone(settings.model) else ""
    if backbone and source.kind == "table":
        raise InputError("--model", f"{backbone} for a table", "pictures", "Leave --model out.")
    work.hashes = source.hashes
    how: dict[str, Any] = {"backbone": backbone, "side": settings.image_size, "work": work}
    encoder = fit_encoder(source, parts.train, settings.requested, numbered=ensemble, **how)
    x = torch.from_numpy(encode(encoder, source))
    if ensemble and source.images is not None:
        source.notes.append(WORTH)
    if isinstance(encoder, TableEncoder) and lists is None:
        encoder.notes += near_perfect(encoder, x.numpy()[parts.train], ids[parts.train])
    numbers = None if lists is None else torch.from_numpy(lists)
    return Prepared(source, objective, labels, torch.from_numpy(ids), parts, encoder, x, settings, numbers)


def _split_classes(
    settings: Settings, source: Source, objective: Objective, ensemble: bool
) -> tuple[Objective, Labels, Ids, Split]:
    """The metric on these classes; class ids, and parts that have some of every class."""
    assert source.labels is not None
    if source.labels.ndim > 1:  # these are `labels`
        raise InputError("target", f"{len(source.label_names)} labels at once", "one column of classes")
    objective = objective.on_classes(len(set(source.labels)), settings.positive)
    objective.check_group(settings.group)
    otherwise = GRADES if isinstance(objective.metric, NDCG) else SEVERAL
    labels = fit_labels(source.labels, binary=objective.binary, positive=settings.positive, otherwise=otherwise)
    ids = labels.encode(source.labels)
    take_copies(source, ids)
    aside = aside_for(objective, ids) if ensemble else ASIDE
    shares: dict[str, Any] = {"holdout": settings.holdout, "aside": aside, "whole": source.whole}
    return objective, labels, ids, split(ids, settings.seed, source.test, times=source.times, **shares)


def _split_lists(
    settings: Settings, source: Source, objective: Objective, ensemble: bool
) -> tuple[Labels, Ids, Split, Ids]:
    """Grades for classes, the list of each row, and parts that keep queries whole."""
    assert settings.query is not None
    assert source.labels is not None
    assert source.queries is not None
    if settings.positive is not None:
        raise InputError("--positive", repr(settings.positive), "none with --query: the target holds grades")
    if source.whole is not None:
        expected = "none with --query: queries are what stays together there"
        raise InputError("--cluster", repr(settings.cluster), expected)
    lists = list_numbers(source.queries, settings.query)
    labels, grades = grades_of(source.labels, objective)
    how: dict[str, Any] = {"holdout": settings.holdout, "validation": not ensemble}
    return labels, grades, split_lists(lists, grades, settings.seed, source.test, **how), lists
