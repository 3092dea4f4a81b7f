"""The committee of a stream: boosted trees and one network, weighed by the exact metric on validation rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ...errors import InputError
from ...fitting.committee import Committee, FolderStore
from ...fitting.committee.committee import OutOfFold, Seat
from ...fitting.committee.decide import Threshold, promised, threshold_of
from ...fitting.committee.members import Fitted, PlainNetwork, Trees
from ...fitting.committee.members.plain import FittedPlain
from ...fitting.committee.members.trees import need_lightgbm
from ...fitting.committee.scale import Scale
from ...fitting.committee.weights import DEFAULT, Judge, choose, mixed
from ...fitting.config import Settings
from ..run.committee_files import CELLS
from ..run.convening import keeping_floor
from .fit import StreamFit
from .prepare import Ready
from .ranks import Ranks
from .trees import grow

#: Kinds of members that can learn from a stream.
KINDS = ("trees", "network")
RULE = (
    "Weights: the mean of greedy choices by the exact metric on bootstrap draws of validation rows (by average "
    "precision for metrics of decisions), pulled towards the plain average where a class is rare."
)


def kinds_of(settings: Settings) -> tuple[str, ...]:
    """The members of a streamed committee. Raises `InputError` when none of those asked for can learn from a stream."""
    kinds = ("trees",) if settings.fast else tuple(one for one in KINDS if one in settings.members)
    if not kinds:
        came = ",".join(settings.members) + " for a table that is read as a stream"
        raise InputError("--members", came, "some of " + ",".join(KINDS))
    if "trees" in kinds:
        need_lightgbm("--members")
    return kinds


class Learned:
    """The members that have learned, in every process."""

    def __init__(self, ready: Ready, ranks: Ranks) -> None:
        self.ready, self.ranks, self.notes = ready, ranks, list[str]()
        self.seats: list[tuple[str, str, Fitted, float]] = []

    def network(self, fit: StreamFit) -> None:
        settings = self.ready.settings
        facts = {
            "model": "mlp", "shape": list(self.ready.encoder.shape), "outputs": self.ready.labels.outputs,
            "hidden": settings.hidden, "dropout": settings.dropout,
        }  # fmt: skip
        self.seats.append((PlainNetwork.name, "network", FittedPlain(fit.model, facts), fit.state.seconds))

    def trees(self, folder: Path, stop: Callable[[], bool]) -> None:
        """Grown by the first process, from all row groups; the others wait, and get the text."""
        began, store, ranks = time.monotonic(), FolderStore(folder / CELLS), self.ranks
        x = ranks.joined(self.ready.validation[0], len(self.ready.validation[1]))
        kept = store.get("trees") if ranks.first else None
        if ranks.first and kept is None:
            fitted, notes = grow(self.ready, (x, self.ready.validation[1]), stop)
            tensors, facts = fitted.state()
            kept = tensors, {**facts, "notes": notes, "seconds": round(time.monotonic() - began, 3)}
            store.put("trees", *kept)
        kept = ranks.gathered(kept)[0]
        assert kept is not None
        self.notes += kept[1]["notes"]
        self.seats.append(("trees", "boosted trees", Trees().restore(*kept), kept[1]["seconds"]))

    def convened(self) -> Committee:
        """Scales, weights and threshold from the validation rows, each process scoring its share of them."""
        ready, y = self.ready, self.ready.validation[1]
        said = [self._scores(fitted, ready.validation) for _, _, fitted, _ in self.seats]
        scales = [Scale.fit(one, y) for one in said]
        together = torch.stack([scale(one) for scale, one in zip(scales, said, strict=True)])
        judge = Judge(ready.objective, together, y)
        shares = choose(DEFAULT, judge, ready.settings.seed)
        mixture = mixed(together, shares)
        scale = Scale.fit(mixture, y)
        scores = scale(mixture)
        cut = threshold_of(ready.objective, scores, y)
        seats = [
            Seat(name, title, [fitted], scale, share, 0, seconds)
            for (name, title, fitted, seconds), scale, share in zip(self.seats, scales, shares.tolist(), strict=True)
        ]
        record = OutOfFold(torch.arange(len(y)), y, None, torch.zeros(len(y), dtype=torch.long), together, scores)
        threshold = Threshold(cut.value, cut.text.replace("out-of-fold", "validation"))
        promise = promised(DEFAULT, judge, ready.settings.seed)
        outputs = ready.labels.outputs
        committee = Committee(ready.objective, outputs, seats, scale, threshold, promise, record, self.notes)
        if ready.aside is None:
            return committee
        scores, grouped = self._scores(committee, ready.aside), ready.settings.split_by is not None
        return keeping_floor(committee, scores, ready.aside[1], "validation", grouped)

    def _scores(self, fitted: Fitted | Committee, part: tuple[Tensor, Tensor]) -> Tensor:
        return self.ranks.joined(fitted.scores(part[0]), len(part[1]))

    def test_scores(self, committee: Committee) -> Tensor:
        """Of the committee, by all processes together."""
        return self._scores(committee, self.ready.test)
