"""What `aimfor train` does on tables: the committee learns, decides, is evaluated on test rows and written down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...fitting import checkpoint
from ...fitting.augment import sort_of
from ...fitting.calibrate import probability
from ...fitting.columns import TableEncoder
from ...fitting.committee import Committee, FolderStore, Progress, fit_committee
from ...fitting.committee.decide import Threshold
from ...fitting.committee.folds import make_folds, make_list_folds
from ...fitting.committee.members import TunedTail, for_pictures, for_tuning, members
from ...fitting.committee.weights import DEFAULT, Judge
from ...fitting.config import Settings
from ...fitting.executors import cores
from ...fitting.importance import permutation_importance
from ...fitting.ranked import list_importance
from ...metrics.at_rate import AtRate
from ..data.features import FeatureEncoder
from ..data.labels import Labels
from ..report.sheets import write_sheets
from .card import committee_card
from .committee_files import CELLS, forget_cells, save_committee
from .evaluate import evaluate
from .evaluate.lists import evaluate_lists
from .evaluating import Evaluating
from .folder import Prepared

#: Cells (rows × columns) above which processes of their own pay for being started.
SPREAD_ABOVE = 60_000
#: Rows the committee scores to find out which columns matter; it is some thirty models.
IMPORTANCE_BUDGET = 60_000
#: Pictures looked at to find out their sort.
SEEN = 60
#: Folds of a network on pixels, each of which takes minutes.
PICTURE_FOLDS = 3
#: Confidence that a guaranteed threshold keeps its floor.
CONFIDENCE = 0.95
RULE = (
    "Weights: the mean of greedy choices by the exact metric on bootstrap draws of out-of-fold rows (by average "
    "precision for metrics of decisions), pulled towards the plain average where a class is rare."
)


def check_committee(ready: Prepared) -> None:
    """Raises `InputError` for what a committee cannot do, before a folder is made."""
    if ready.source.images is None:
        members(ready.settings.members)
    rows = torch.from_numpy(ready.parts.train)
    if ready.lists is not None:
        make_list_folds(ready.lists[rows], ready.ids[rows], ready.settings.seed, single=ready.settings.fast)
        return
    make_folds(ready.ids[rows], ready.settings.seed, _whole(ready), single=ready.settings.fast)


def sort_of_training(ready: Prepared) -> str:
    """How pictures may be changed at random while a network learns from their pixels; empty for not at all."""
    if not ready.settings.augment:
        return ""
    if ready.source.images is not None:
        return sort_of(ready.source.images[ready.parts.train])
    some = ready.parts.train[:: max(1, len(ready.parts.train) // SEEN)]
    return sort_of(np.stack([ready.source.as_pictures().square(int(row), 32) for row in some]))


def _whole(ready: Prepared) -> Tensor | None:
    """Group ids of the training rows, where groups must stay whole."""
    if ready.source.whole is None:
        return None
    return torch.from_numpy(np.unique(ready.source.whole[ready.parts.train], return_inverse=True)[1].astype(np.int64))


def convene(settings: Settings, ready: Prepared, **how: Any) -> Committee:
    """The committee of a prepared table: the one call behind `train`, `compare` and the demo."""
    rows = torch.from_numpy(ready.parts.train)
    who: dict[str, Any] = {"kinds": settings.members}
    if ready.source.images is not None:
        own = for_pictures(sort_of_training(ready))
        who = {"who": own, "folds": PICTURE_FOLDS, "single": settings.fast, "alone": settings.fast}
    elif isinstance(ready.encoder, FeatureEncoder) and ready.encoder.fine_tune:
        tail = TunedTail(ready.encoder.backbone, ready.encoder.stem_shape, sort_of_training(ready))
        who = {"who": for_tuning(settings.members, ready.encoder.components.width, tail)}
    elif settings.fast:
        who = {"kinds": ("trees",), "single": True, "alone": True}
    committee = fit_committee(
        ready.x[rows],
        ready.ids[rows],
        ready.objective,
        lists=None if ready.lists is None else ready.lists[rows],
        groups=_whole(ready),
        outputs=ready.labels.outputs,
        seed=settings.seed,
        minutes=settings.budget_minutes,
        workers=settings.workers or _workers(ready),
        **who,
        **how,
    )
    return with_floor(committee, ready)


def _workers(ready: Prepared) -> int:
    size = ready.x.numel() * len(ready.parts.train) // max(1, len(ready.x))
    return min(4, cores()) if size > SPREAD_ABOVE else 1


def with_floor(committee: Committee, ready: Prepared) -> Committee:
    """The committee with a threshold that keeps the floor, where its metric has one."""
    kept = torch.from_numpy(ready.parts.validation)
    if not isinstance(committee.objective.metric, AtRate) or not len(kept):
        return committee
    scores, grouped = committee.scores(ready.x[kept]), ready.source.whole is not None
    return keeping_floor(committee, scores, ready.ids[kept], "out-of-fold", grouped)


def keeping_floor(committee: Committee, scores: Tensor, y: Tensor, learned_on: str, grouped: bool) -> Committee:
    """For a metric with a floor: the threshold that keeps it with 95 % confidence, tested on rows kept aside.

    The rows that weighed the members choose the order of the tests. They cannot be the tests themselves: weights and
    threshold were chosen on them, and out of fold each score is of one fold's models, where their average will decide.
    """
    metric, record = committee.objective.metric, committee.out_of_fold
    assert isinstance(metric, AtRate)
    assert record is not None
    try:
        found = metric.problem().decide(scores, y, guarantee=CONFIDENCE, learn=(record.scores, record.y))
        value, sentence = found.threshold, str(found.guarantee)
    except InputError as error:  # scores that tell nothing, or a floor far above them: the run is finished all the same
        value, sentence = None, str(error)
    if value is None:
        note = f"the threshold is the best for the floor on {learned_on} rows and comes without a guarantee: {sentence}"
        threshold = Threshold(committee.threshold.value, note, guaranteed=False)
        return replace(committee, threshold=threshold, notes=[*committee.notes, note])
    notes = committee.notes
    if grouped:
        notes = [*notes, "the guarantee assumes independent rows; rows of one group seldom are"]
    return replace(committee, threshold=Threshold(value, sentence, guaranteed=True), notes=notes)


def finish_committee(
    folder: Path, ready: Prepared, report: Callable[[Progress], None] | None, stop: Callable[[], bool]
) -> dict[str, Any]:
    """Learns what is not in the folder yet and writes every output file; returns the metrics."""
    began = time.monotonic()
    committee = convene(
        ready.settings, ready, store=FolderStore(folder / CELLS), report=_logging(folder, report), stop=stop
    )
    metrics = _results(ready, committee, Evaluating(ready, stop, report))
    metrics["seconds"] = round(time.monotonic() - began, 3)
    write_sheets(folder, ready, committee.scores(ready.test[0]), committee.threshold.value)
    checkpoint.write_json(folder / "threshold.json", decision_of(ready.labels, committee, ready.lists is not None))
    save_committee(folder, committee)
    task = "ranking" if ready.lists is not None else "classification"
    task = f"{'tabular' if ready.source.kind == 'table' else 'image'}-{task}"
    card = committee_card(ready.source.name, ready.settings, ready.labels, metrics, task)
    checkpoint.write_text(folder / "README.md", card)
    checkpoint.write_json(folder / "metrics.json", metrics)
    forget_cells(folder)
    return metrics


def _logging(folder: Path, report: Callable[[Progress], None] | None) -> Callable[[Progress], None]:
    def both(progress: Progress) -> None:
        with (folder / "log.jsonl").open("a", encoding="utf8") as file:
            file.write(json.dumps(asdict(progress)) + "\n")
        if report is not None:
            report(progress)

    return both


def decision_of(labels: Labels, committee: Committee, ranked: bool = False) -> dict[str, Any]:
    """threshold.json; a ranking has no probabilities."""
    decision: dict[str, Any] = {
        "threshold": committee.threshold.value,
        "rule": "score > threshold",
        "tuned_on": committee.threshold.text,
        "classes": labels.classes,
    }
    if committee.threshold.guaranteed is not None:
        decision["guaranteed"] = committee.threshold.guaranteed
    if labels.binary and not ranked:
        decision["calibration"] = [1.0, 0.0]  # scores are calibrated log-odds already
    return decision


def _results(ready: Prepared, committee: Committee, evaluating: Evaluating) -> dict[str, Any]:
    """Promised on out-of-fold rows, found on test rows, which took no part in anything."""
    x, y = ready.test
    scores = committee.scores(x)
    cut = committee.threshold.value
    return {
        "metric": ready.settings.metric,
        "validation": committee.promised,
        "test": _evaluated(ready, scores, y, cut),
        "importance": _importance(ready, committee, evaluating),
        "threshold": cut,
        "threshold_text": committee.threshold.text,
        "committee": committee_facts(committee),
        "rows": {name: len(getattr(ready.parts, name)) for name in ("train", "validation", "test")},
        "notes": [*ready.notes, *committee.notes],
        "torch": torch.__version__,
        "history": [],
    }


def _evaluated(ready: Prepared, scores: Tensor, y: Tensor, cut: float) -> dict[str, Any]:
    """Everything the report says about the test rows."""
    if ready.lists is not None:
        assert ready.source.queries is not None
        lists, names = ready.lists[torch.from_numpy(ready.parts.test)], ready.source.queries[ready.parts.test]
        return evaluate_lists(ready.objective, scores, y, lists, names, thorough=True)
    groups = None if ready.source.groups is None else ready.source.groups[ready.parts.test]
    stated = probability(scores) if ready.labels.binary else scores.softmax(1)
    return evaluate(ready.objective, scores, y, cut, groups, probabilities=stated.numpy(), thorough=True)


def committee_facts(committee: Committee, rule: str = RULE) -> dict[str, Any]:
    """Who speaks, how loudly, and what each would reach alone on rows it has not learned from."""
    record = committee.out_of_fold
    assert record is not None
    judge = Judge(committee.objective, record.members, record.y, record.weights, record.lists)
    seats = [
        {
            "name": seat.name,
            "title": seat.title,
            "weight": seat.share,
            "out_of_fold": judge.value(record.members[place]),
            "seconds": round(seat.seconds, 3),
            "curves": seat.curves,
        }
        for place, seat in enumerate(committee.seats)
    ]
    return {"members": seats, "folds": len(record.folds.unique()), "rule": rule, "rule_name": DEFAULT}


def _importance(ready: Prepared, committee: Committee, evaluating: Evaluating) -> dict[str, Any]:
    """Of each column, on test rows."""
    if not isinstance(ready.encoder, TableEncoder):
        return {"left_out": "features of a pretrained network have no names"}

    def value(scores: Tensor, y: Tensor) -> float:
        return ready.objective.value(scores, y, committee.threshold.value)

    columns = ready.encoder.feature_columns
    if ready.lists is not None:
        lists = ready.lists[torch.from_numpy(ready.parts.test)]
        metric, budget = ready.objective.metric, IMPORTANCE_BUDGET
        return list_importance(metric, committee.scores, *ready.test, lists, columns, budget=budget, stopped=evaluating)
    return permutation_importance(
        committee.scores, value, *ready.test, columns, budget=IMPORTANCE_BUDGET, stopped=evaluating
    )
