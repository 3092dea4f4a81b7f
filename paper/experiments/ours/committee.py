"""The default on tables against what people use there: 30 tables, four metrics, random 70/30 splits.

Everything is chosen on the training rows of a split. The committee is made by `fit_ensemble`, the function behind
``aimfor train``. Members that do not depend on the metric learn once a split and are shared by the metrics.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aimfor.learners.ensemble import Ensemble, MemoryStore, fit_ensemble
from aimfor.learners.ensemble.calibration import Scale, threshold_of
from aimfor.learners.ensemble.weights import Judge, average, mixed, steady
from aimfor.targets.objective import Objective

from ...data.tables import TABLES, arrays, stratified
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.committee_board import write_board
from ...rivals.table_rivals import judge_rivals

METRICS = ("auroc", "ap", "f1", "recall@precision=0.8")
#: Beside the 24 small tables; their test files are reserved and not read.
LARGER = ("mammography", "thyroid_ann", "creditcard_fraud", "covertype_4v2", "bank_marketing", "adult")
#: Of the rows of a split that judge at the end.
TEST_SHARE = 0.3


def cells(options: Options) -> list[Cell]:
    """All seeds of the small tables first: the larger ones take most of the time."""
    return [
        {"set": name, "seed": seed} for names in (TABLES, LARGER) for seed in range(options.seeds) for name in names
    ]


def rows_of(folder: Path, name: str) -> tuple[Tensor, Tensor]:
    """Features and labels. Small tables: all rows; larger ones: the training file."""
    if name in TABLES:
        raw = arrays(folder / "imbalanced_small" / f"{name}.npz")
        return torch.from_numpy(raw["X"]).double(), torch.from_numpy(raw["y"]).long()
    raw = arrays(folder / name / "train.npz")
    return torch.from_numpy(raw["X"]).double(), torch.from_numpy(raw["y"]).long()


def split(x: Tensor, y: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``x, y, x_test, y_test``: standardised by the training rows, float32, not clipped, as the program encodes."""
    fit, test = stratified(y, TEST_SHARE, seed)
    mean, deviation = x[fit].mean(0), x[fit].std(0, correction=0)
    varies = deviation > 0
    scaled = ((x[:, varies] - mean[varies]) / deviation[varies]).float()
    return scaled[fit], y[fit], scaled[test], y[test]


def run(cell: Cell, options: Options) -> Result:
    """Committee, variants of it, and rivals on one split of one table."""
    folder = data_folder(options, cell["set"] if cell["set"] in LARGER else "imbalanced_small")
    x, y, x_test, y_test = split(*rows_of(folder, cell["set"]), cell["seed"])
    objectives = {name: Objective.of(name) for name in METRICS}
    store, found = MemoryStore(), {}
    for name, objective in objectives.items():
        committee = fit_ensemble(x, y, objective, seed=cell["seed"], store=store)
        found[name] = _variants(committee, x_test, y_test, cell["seed"])
    rivals = judge_rivals(x, y, x_test, y_test, objectives, cell["seed"])
    for name in METRICS:
        found[name]["rivals"] = {rival: asdict(judged[name]) for rival, judged in rivals.items()}
    return {"metrics": found, "rows": [len(y), len(y_test)], "positives": [int(y.sum()), int(y_test.sum())]}


def _variants(committee: Ensemble, x: Tensor, y: Tensor, seed: int) -> dict[str, Any]:
    """Test values of the plain average, without each member, and of each member alone."""
    objective, judged = committee.objective, committee.out_of_fold
    assert judged is not None
    scores = committee.scores(x)
    on_test = torch.stack([seat.scores(x) for seat in committee.weighted_members])
    judge = Judge(objective, judged.members, judged.y, judged.weights)
    return {
        "committee": objective.value(scores, y, committee.threshold.value),
        "promised": committee.cross_validated,
        "at_threshold": {
            "promised": None if (part := judged.judged) is None else _rates(part.scores - part.thresholds, judged.y),
            "found": _rates(scores - committee.threshold.value, y),
        },
        "without": {
            seat.name: _without(judge, on_test, y, place, seed) for place, seat in enumerate(committee.weighted_members)
        },
        "rules": {"average": _value(judge, on_test, y, average(judge))},
        "members": {
            seat.name: _value(judge, on_test, y, torch.eye(len(on_test), dtype=torch.float64)[place])
            for place, seat in enumerate(committee.weighted_members)
        },
        "shares": {seat.name: seat.share for seat in committee.weighted_members},
        "seconds": {seat.name: seat.seconds for seat in committee.weighted_members},
        "notes": committee.notes,
    }


def _without(judge: Judge, on_test: Tensor, y: Tensor, place: int, seed: int) -> float:
    """Weighed anew without one member."""
    rest = [one for one in range(len(on_test)) if one != place]
    others = Judge(judge.objective, judge.scores[rest], judge.y, judge.weights)
    return _value(others, on_test[rest], y, steady(others, seed))


def _rates(scores: Tensor, y: Tensor) -> dict[str, float]:
    """Precision and recall of decisions at 0; precision is 1 where no row is called positive."""
    called = scores > 0
    hits = int((called & (y == 1)).sum())
    return {"precision": hits / int(called.sum()) if called.any() else 1.0, "recall": hits / int((y == 1).sum())}


def _value(judge: Judge, on_test: Tensor, y: Tensor, shares: Tensor) -> float:
    """Of a mixture on test rows, decided as a committee with these shares would decide."""
    mixture = mixed(judge.scores, shares)
    scale = Scale.fit(mixture, judge.y, judge.weights)
    cut = threshold_of(judge.objective, scale(mixture), judge.y, judge.weights).value
    return judge.objective.value(scale(mixed(on_test, shares)), y, cut)


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_board(results, folder, EXPERIMENT.title)


EXPERIMENT = Experiment("committee", "the committee on 30 tables, four metrics", "aimfor", cells, run, report, seeds=5)
