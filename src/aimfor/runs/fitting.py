"""What `aimfor train` does on tables: the ensemble learns and decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..data.executors import cores
from ..data.settings import Settings
from ..errors import InputError
from ..learners.ensemble import Ensemble, fit_ensemble
from ..learners.ensemble.calibration import Threshold
from ..learners.ensemble.members import FOR_PICTURES, members
from ..learners.ensemble.weights import Judge
from ..metrics.at_rate import AtRate
from ..targets.classes import Labels
from ..targets.folds import make_folds, make_list_folds, make_time_folds
from .evaluation import Curves, MemberRow, Members
from .prepared import Prepared

#: Cells (rows × columns) above which processes of their own pay for being started.
SPREAD_ABOVE = 60_000
#: Folds of a network on pixels, each of which takes minutes.
PICTURE_FOLDS = 3
#: Folds for what a random split would have claimed.
RANDOM_FOLDS = 3
#: Confidence that a guaranteed threshold keeps its floor.
CONFIDENCE = 0.95
RULE = (
    "Weights: the mean of greedy choices by the exact metric on bootstrap draws of out-of-fold rows (by average "
    "precision for metrics of decisions), pulled towards the plain average where a class is rare."
)


def check_ensemble(ready: Prepared) -> None:
    """Raises `InputError` for what an ensemble cannot do, before a folder is made."""
    if ready.source.images is None:
        members(ready.settings.members)
    rows = torch.from_numpy(ready.parts.train)
    if ready.lists is not None:
        make_list_folds(ready.lists[rows], ready.ids[rows], ready.settings.seed, single=ready.settings.fast)
        return
    if ready.source.times is not None:
        make_time_folds(torch.from_numpy(ready.source.times)[rows], ready.ids[rows])
        return
    make_folds(ready.ids[rows], ready.settings.seed, ready.clusters(ready.parts.train), single=ready.settings.fast)


def fit_prepared(settings: Settings, ready: Prepared, **how: Any) -> Ensemble:
    """The ensemble of a prepared table: the one call behind `train`, `compare` and the demo."""
    rows = torch.from_numpy(ready.parts.train)
    chosen: dict[str, Any] = {"kinds": settings.members}
    if ready.source.images is not None:
        chosen = {"members": FOR_PICTURES, "folds": PICTURE_FOLDS}
        chosen |= {"single": settings.fast, "first_member_only": settings.fast}
    elif settings.fast:
        chosen = {"kinds": ("trees",), "single": True, "first_member_only": True}
    ensemble = fit_ensemble(
        ready.x[rows],
        ready.ids[rows],
        ready.objective,
        lists=None if ready.lists is None else ready.lists[rows],
        groups=ready.clusters(ready.parts.train),
        times=None if ready.source.times is None else torch.from_numpy(ready.source.times)[rows],
        outputs=ready.labels.outputs,
        levels=ready.levels,
        seed=settings.seed,
        minutes=settings.budget_minutes,
        workers=settings.jobs or _workers(ready),
        **chosen,
        **how,
    )
    if (settings.cluster or settings.time) and ready.source.images is None:
        ensemble.notes.append(claim_of_random_folds(ensemble, ready))
    return with_floor(ensemble, ready)


def claim_of_random_folds(ensemble: Ensemble, ready: Prepared) -> str:
    """What one member would seem to reach if rows that belong together, or later ones, were on both sides."""
    record, rows = ensemble.out_of_fold, torch.from_numpy(ready.parts.train)
    assert record is not None
    names = [weighted.name for weighted in ensemble.weighted_members]
    place = names.index("trees") if "trees" in names else 0
    member = next(one for one in members(ready.settings.members) if one.name == names[place])
    how: dict[str, Any] = {"members": (member,), "outputs": ready.labels.outputs, "levels": ready.levels}
    random = fit_ensemble(
        ready.x[rows], ready.ids[rows], ready.objective, folds=RANDOM_FOLDS, seed=ready.settings.seed, **how
    ).out_of_fold
    assert random is not None
    found, claimed = (
        Judge(ready.objective, one.members, one.y).value(one.members[at]) for one, at in ((record, place), (random, 0))
    )
    by = "folds in time" if ready.settings.time else f"whole clusters of {ready.settings.cluster!r}"
    return (
        f"judged on {by}: {member.title} alone has {ready.objective.name} {found:.3f} there, and would have "
        f"seemed to have {claimed:.3f} in random folds"
    )


def _workers(ready: Prepared) -> int:
    size = ready.x.numel() * len(ready.parts.train) // max(1, len(ready.x))
    return min(4, cores()) if size > SPREAD_ABOVE else 1


def with_floor(ensemble: Ensemble, ready: Prepared) -> Ensemble:
    """The ensemble with a threshold that keeps the floor, where its metric has one."""
    kept = torch.from_numpy(ready.parts.validation)
    if not isinstance(ensemble.objective.metric, AtRate) or not len(kept):
        return ensemble
    scores, whole = ensemble.scores(ready.x[kept]), ready.source.whole
    cluster = None if whole is None or ready.settings.cluster is None else whole[ready.parts.validation]
    grouped = whole is not None and cluster is None  # copies of rows
    return keeping_floor(ensemble, scores, ready.ids[kept], "out-of-fold", grouped, cluster)


def keeping_floor(
    ensemble: Ensemble, scores: Tensor, y: Tensor, learned_on: str, grouped: bool, cluster: Any | None = None
) -> Ensemble:
    """For a metric with a floor: the threshold that keeps it with 95 % confidence, tested on rows kept aside.

    The rows that weighed the members choose the order of the tests. They cannot be the tests themselves: weights and
    threshold were chosen on them, and out of fold each score is of one fold's models, where their average will decide.
    With ``cluster``, ids of what the tested rows belong to, the promise is for new clusters.
    """
    metric, record = ensemble.objective.metric, ensemble.out_of_fold
    assert isinstance(metric, AtRate)
    assert record is not None
    try:
        found = metric.problem().decide(
            scores, y, guarantee=CONFIDENCE, learn=(record.scores, record.y), cluster=cluster
        )
        value, sentence = found.threshold, str(found.guarantee)
    except InputError as error:  # scores that tell nothing, or a floor far above them: the run is finished all the same
        value, sentence = None, str(error)
    if value is None:
        note = f"the threshold is the best for the floor on {learned_on} rows and comes without a guarantee: {sentence}"
        threshold = Threshold(ensemble.threshold.value, note, guaranteed=False)
        return replace(ensemble, threshold=threshold, notes=[*ensemble.notes, note])
    notes = ensemble.notes
    if grouped:
        notes = [*notes, "the guarantee assumes independent rows; rows of one cluster seldom are"]
    return replace(ensemble, threshold=Threshold(value, sentence, guaranteed=True), notes=notes)


def decision_of(labels: Labels, ensemble: Ensemble, ranked: bool = False) -> dict[str, Any]:
    """threshold.json; a ranking has no probabilities."""
    decision: dict[str, Any] = {
        "threshold": ensemble.threshold.value,
        "rule": "score > threshold",
        "tuned_on": ensemble.threshold.text,
        "classes": labels.classes,
    }
    if ensemble.threshold.guaranteed is not None:
        decision["guaranteed"] = ensemble.threshold.guaranteed
    if labels.binary and not ranked:
        decision["calibration"] = [1.0, 0.0]  # scores are calibrated log-odds already
    return decision


def ensemble_facts(ensemble: Ensemble, rule: str = RULE) -> Members:
    """The members, their weights, and what each reaches alone on rows it has not learned from."""
    record = ensemble.out_of_fold
    assert record is not None
    judge = Judge(ensemble.objective, record.members, record.y, record.weights, record.lists)
    rows = [
        MemberRow(
            weighted.name,
            weighted.title,
            weighted.share,
            judge.value(record.members[place]),
            round(weighted.seconds, 3),
            None if weighted.curves is None else Curves(**weighted.curves),
        )
        for place, weighted in enumerate(ensemble.weighted_members)
    ]
    return Members(rows, len(record.folds.unique()), rule, "steady")
