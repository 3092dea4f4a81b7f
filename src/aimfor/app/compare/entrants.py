"""Who is compared: what `train` makes, and what people use on such data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...fitting.committee import Committee
from ...fitting.committee.decide import threshold_of
from ...fitting.committee.members.base import Job
from ...fitting.committee.members.training import Schedule
from ...fitting.models import build, scores_of
from ...fitting.one_network import train_candidate
from ..run.convening import committee_facts, convene
from ..run.folder import Prepared
from .rankers import RANKERS, run_ranker


@dataclass(frozen=True)
class Entrant:
    """One who is compared; a rival is not aimfor's own."""

    name: str
    title: str
    rival: bool = True


COMMITTEE = Entrant("committee", "committee (what train makes)", rival=False)
LIGHTGBM = Entrant("lightgbm", "LightGBM")
#: For tables, and for features of a pretrained network, in the order they are shown.
FOR_TABLES = (
    COMMITTEE,
    LIGHTGBM,
    Entrant("gradient_boosting", "gradient boosting (scikit-learn)"),
    Entrant("logistic_regression", "logistic regression"),
)
#: One small network, which learns from pixels as well.
BALANCED = Entrant("balanced_cross_entropy", "balanced-batch cross-entropy")
NETWORKS = (Entrant("cross_entropy", "cross-entropy"), BALANCED)
#: Passes over the rows, for both; 0 takes what suits their number.
EPOCHS = 0
FOR_LISTS = (COMMITTEE, *(Entrant(name, title) for name, title in RANKERS.items()))
ENTRANTS = {one.name: one for one in (*FOR_TABLES, *NETWORKS, *FOR_LISTS)}


@dataclass
class Outcome:
    """What an entrant says about the test rows, and what its own held-out rows say about it."""

    scores: Tensor
    validation: float
    threshold: float
    facts: dict[str, Any] = field(default_factory=dict)


def run_entrant(name: str, ready: Prepared) -> Outcome:
    """Learns and scores the test rows. For the committee ``ready`` has no validation rows of its own."""
    if name == COMMITTEE.name:
        committee = convene(ready.settings.model_copy(update={"workers": 1}), ready)
        facts: dict[str, Any] = {"committee": committee_facts(committee), "notes": committee.notes}
        for member, value in zip(facts["committee"]["members"], _alone(committee, ready), strict=True):
            member |= {"test": value, "curves": None}  # a comparison has no place for curves
        return Outcome(committee.scores(ready.test[0]), committee.promised, committee.threshold.value, facts)
    if name in RANKERS:
        return Outcome(*run_ranker(name, ready), threshold=0.0)
    if name in {one.name for one in NETWORKS}:
        return _network(ready, balanced=name == BALANCED.name)
    return _refitted(_makers(ready.settings.seed)[name], ready)


def _network(ready: Prepared, balanced: bool) -> Outcome:
    """One small network by cross-entropy, at its best checkpoint by the metric on validation rows."""
    train, image = ready.part("train"), ready.x.ndim == 4
    n = len(train.y)
    batch = min(64 if image else min(512, max(64, 2 ** ((n // 20).bit_length() - 1))), n)
    steps = max(1, n // batch)
    most, wanted = (20, 600) if image else (60, 1000)  # pictures cost more per step
    epochs = EPOCHS or min(most, max(8, round(wanted / steps)))
    schedule = Schedule(
        rate=1e-3,
        batch=batch,
        looks=epochs,
        steps=steps,
        patience=15,
        decay=0.0,
        weight_decay=1e-4,
        cosine=True,
        balanced=balanced,
    )
    job = Job(train, ready.part("validation"), ready.objective, ready.labels.outputs, ready.settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.seed * 1009)
        network = build("auto", tuple(ready.x.shape[1:]), job.outputs)
        found = train_candidate(network, job, schedule)
    return Outcome(scores_of(found.network, ready.test[0], job.outputs), found.value, found.threshold)


def _alone(committee: Committee, ready: Prepared) -> list[float]:
    """The metric of each member by itself on test rows, at a threshold from its own out-of-fold rows."""
    (x, y), record, found = ready.test, committee.out_of_fold, []
    lists = None if ready.lists is None else ready.lists[torch.from_numpy(ready.parts.test)]
    assert record is not None
    for seat, said in zip(committee.seats, record.members, strict=True):
        cut = threshold_of(committee.objective, said, record.y, record.weights).value
        found.append(committee.objective.value(seat.scores(x), y, cut, lists=lists))
    return found


def _makers(seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    def lightgbm() -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)

    return {
        "lightgbm": lightgbm,
        "gradient_boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "logistic_regression": lambda: LogisticRegression(max_iter=1000),
    }


def _refitted(make: Callable[[], Any], ready: Prepared) -> Outcome:
    """Threshold and value from validation rows; then it learns anew from training and validation rows together."""
    train, held, outputs = ready.part("train"), ready.part("validation"), ready.labels.outputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged, feature names: the packages' own matters
        validation = _log_odds(make().fit(_plain(train.x), train.y.numpy()), held.x, outputs)
        x, y = torch.cat((train.x, held.x)), torch.cat((train.y, held.y))
        final = _log_odds(make().fit(_plain(x), y.numpy()), ready.test[0], outputs)
    threshold, value = ready.objective.tuned(validation, held.y)
    return Outcome(final, value, threshold)


def _plain(x: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.asarray(x.clamp(-10, 10).numpy())  # one stray value must not ruin the linear one


def _log_odds(model: Any, x: Tensor, outputs: int) -> Tensor:
    chance = torch.from_numpy(np.clip(model.predict_proba(_plain(x)).astype(np.float64), 1e-15, 1 - 1e-15))
    return chance[:, 1].logit() if outputs == 1 else chance.log()
