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
ENTRANTS = {one.name: one for one in (*FOR_TABLES, *NETWORKS, *FOR_LISTS)}


@dataclass
class Outcome:
    """What an entrant says about the test rows, and what its own held-out rows say about it."""

    scores: Tensor
    validation: float
    threshold: float
    facts: dict[str, Any] = field(default_factory=dict)


def run_entrant(name: str, ready: Prepared) -> Outcome:
    """Learns and scores the test rows. For the ensemble ``ready`` has no validation rows of its own."""
    if name == ENSEMBLE.name:
        ensemble = fit_prepared(ready.settings.model_copy(update={"jobs": 1}), ready)
        facts: dict[str, Any] = {"ensemble": asdict(ensemble_facts(ensemble)), "notes": ensemble.notes}
        for member, value in zip(facts["ensemble"]["members"], _alone(ensemble, ready), strict=True):
            member |= {"test": value, "curves": None}  # a comparison has no place for curves
        return Outcome(ensemble.scores(ready.test[0]), ensemble.cross_validated, ensemble.threshold.value, facts)
    if name in RANKERS:
        return Outcome(*run_ranker(name, ready), threshold=0.0)
    if name in {one.name for one in NETWORKS}:
        return _network(ready, balanced=name == BALANCED.name)
    return Outcome(*run_rival(name, ready))


def _network(ready: Prepared, balanced: bool) -> Outcome:
    """One small network by cross-entropy: judged on validation rows, then trained on them as well.

    Either time the checkpoint is chosen by the metric on a fifth of the rows that train it, never on those that judge.
    """
    judge, everything = ready.rows(ready.parts.validation), np.concatenate([ready.parts.train, ready.parts.validation])
    first = _trained(ready, ready.parts.train, balanced)
    threshold, value = ready.objective.tuned(scores_of(first.network, judge.x, ready.labels.outputs), judge.y)
    final = _trained(ready, np.sort(everything), balanced)
    return Outcome(scores_of(final.network, ready.test[0], ready.labels.outputs), value, threshold)


def _trained(ready: Prepared, numbers: NDArray[np.int64], balanced: bool) -> Candidate:
    """On four fifths of the rows, at the checkpoint that is best by the metric on the last."""
    rows, image = Rows(ready.x, ready.ids).take(torch.from_numpy(numbers)), ready.x.ndim == 4
    try:
        folds = make_folds(rows.y, ready.settings.seed, ready.clusters(numbers), single=True)
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
    job = Job(train, held, ready.objective, ready.labels.outputs, ready.settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.seed * 1009)
        network = build("auto", tuple(ready.x.shape[1:]), job.outputs)
        return train_candidate(network, job, schedule)


def _alone(ensemble: Ensemble, ready: Prepared) -> list[float]:
    """The metric of each member by itself on test rows, at a threshold from its own out-of-fold rows."""
    (x, y), record, found = ready.test, ensemble.out_of_fold, []
    lists = None if ready.lists is None else ready.lists[torch.from_numpy(ready.parts.test)]
    assert record is not None
    for weighted, out_of_fold_scores in zip(ensemble.weighted_members, record.members, strict=True):
        cut = threshold_of(ensemble.objective, out_of_fold_scores, record.y, record.weights).value
        found.append(ensemble.objective.value(weighted.scores(x), y, cut, lists=lists))
    return found
