"""Who is compared: what `train` makes, and what people use on such data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...learners.ensemble import Ensemble
from ...learners.ensemble.calibration import threshold_of
from ...learners.ensemble.members.base import Job, Rows
from ...learners.ensemble.members.network import Schedule
from ...learners.networks.models import build, scores_of
from ...learners.networks.one_network import Candidate, train_candidate
from ...targets.folds import make_folds
from ..ensemble import ensemble_facts, fit_prepared
from ..prepared import Prepared
from .rivals import RANKERS, RIVALS, run_ranker, run_rival


@dataclass(frozen=True)
class Entrant:
    """One who is compared; a rival is not aimfor's own."""

    name: str
    title: str
    rival: bool = True


ENSEMBLE = Entrant("ensemble", "ensemble (what train makes)", rival=False)
#: For tables, and for features of a pretrained network, in the order they are shown.
FOR_TABLES = (ENSEMBLE, *(Entrant(name, title) for name, title in RIVALS.items()))
#: One small network, which learns from pixels as well.
BALANCED = Entrant("balanced_cross_entropy", "balanced-batch cross-entropy")
NETWORKS = (Entrant("cross_entropy", "cross-entropy"), BALANCED)
#: Passes over the rows, for both; 0 takes what suits their number.
EPOCHS = 0
FOR_LISTS = (ENSEMBLE, *(Entrant(name, title) for name, title in RANKERS.items()))
ENTRANTS = {entrant.name: entrant for entrant in (*FOR_TABLES, *NETWORKS, *FOR_LISTS)}


@dataclass
class Outcome:
    """What an entrant says about the test rows, and what its own held-out rows say about it."""

    scores: Tensor
    validation: float
    threshold: float
    facts: dict[str, Any] = field(default_factory=dict)


def run_entrant(name: str, prepared: Prepared) -> Outcome:
    """Learns and scores the test rows. For the ensemble ``ready`` has no validation rows of its own."""
    if name == ENSEMBLE.name:
        ensemble = fit_prepared(prepared.settings.model_copy(update={"jobs": 1}), prepared)
        facts: dict[str, Any] = {"ensemble": asdict(ensemble_facts(ensemble)), "notes": ensemble.notes}
        for member, value in zip(facts["ensemble"]["members"], _members_by_themselves(ensemble, prepared), strict=True):
            member |= {"test": value, "curves": None}  # a comparison has no place for curves
        return Outcome(ensemble.scores(prepared.test[0]), ensemble.cross_validated, ensemble.threshold.value, facts)
    if name in RANKERS:
        return Outcome(*run_ranker(name, prepared), threshold=0.0)
    if name in {entrant.name for entrant in NETWORKS}:
        return _network(prepared, balanced=name == BALANCED.name)
    return Outcome(*run_rival(name, prepared))


def _network(prepared: Prepared, balanced: bool) -> Outcome:
    """One small network by cross-entropy: judged on validation rows, then trained on them as well.

    Either time the checkpoint is chosen by the metric on a fifth of the rows that train it, never on those that judge.
    """
    judge, everything = (
        prepared.rows(prepared.parts.validation),
        np.concatenate([prepared.parts.train, prepared.parts.validation]),
    )
    first = _trained(prepared, prepared.parts.train, balanced)
    threshold, value = prepared.objective.tuned(scores_of(first.network, judge.x, prepared.labels.outputs), judge.y)
    final = _trained(prepared, np.sort(everything), balanced)
    return Outcome(scores_of(final.network, prepared.test[0], prepared.labels.outputs), value, threshold)


def _trained(prepared: Prepared, numbers: NDArray[np.int64], balanced: bool) -> Candidate:
    """On four fifths of the rows, at the checkpoint that is best by the metric on the last."""
    rows, image = Rows(prepared.x, prepared.ids).take(torch.from_numpy(numbers)), prepared.x.ndim == 4
    try:
        folds = make_folds(rows.y, prepared.settings.seed, prepared.clusters(numbers), single=True)
        train, held = rows.take(folds.train(0)), rows.take(folds.held[0])
    except InputError:  # a class with one row here: nothing of it can be held out
        train = held = rows
    n = len(train.y)
    batch = min(64 if image else min(512, max(64, 2 ** ((n // 20).bit_length() - 1))), n)
    steps = max(1, n // batch)
    most, wanted = (20, 600) if image else (60, 1000)  # pictures cost more per step
    epochs = EPOCHS or min(most, max(8, round(wanted / steps)))
    schedule = Schedule(
        rate=1e-3,
        batch=batch,
        checkpoints=epochs,
        steps=steps,
        patience=15,
        decay=0.0,
        weight_decay=1e-4,
        cosine=True,
        balanced=balanced,
    )
    job = Job(train, held, prepared.objective, prepared.labels.outputs, prepared.settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.seed * 1009)
        network = build("auto", tuple(prepared.x.shape[1:]), job.outputs)
        return train_candidate(network, job, schedule)


def _members_by_themselves(ensemble: Ensemble, prepared: Prepared) -> list[float]:
    """The metric of each member by itself on test rows, at a threshold from its own out-of-fold rows."""
    (x, y), record, values = prepared.test, ensemble.out_of_fold, []
    lists = None if prepared.lists is None else prepared.lists[torch.from_numpy(prepared.parts.test)]
    assert record is not None
    for weighted, out_of_fold_scores in zip(ensemble.weighted_members, record.members, strict=True):
        threshold = threshold_of(ensemble.objective, out_of_fold_scores, record.y, record.weights).value
        values.append(ensemble.objective.value(weighted.scores(x), y, threshold, lists=lists))
    return values
