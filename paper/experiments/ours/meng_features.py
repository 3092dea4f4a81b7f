"""Meng's tables on frozen features of a pretrained network: the committee against linear layers on the same features.

The 16 cells of Table 1 (AUROC) and the 8 of Table 2 (one against the rest, and AUC_mu), imbalances as there. Of each
set at most 2,500 training and 1,500 test images are looked at, evenly by class, scaled to 96 pixels. Loss and penalty
of a rival are chosen by five folds of the training images, then it is fitted on all of them; everything in the
committee is chosen out of fold as well. The seed draws the imbalance and the folds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aimfor.data.components import Components
from aimfor.learners.ensemble import FOR_FEATURES, fit_ensemble
from aimfor.targets.folds import make_folds
from aimfor.targets.objective import Objective

from ...data.frozen import frozen_split
from ...data.images import CLASSES, thinned
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.meng_board import meng_lines
from ...report.pages import write_table
from ...rivals.linear import linear_layer
from ..meng.table1 import SHARES
from ..meng.table2 import DROPS

SIDE, TRAIN, TEST, FOLDS, MOST = 96, 2500, 1500, 5, 1000
RIDGES = (0.1, 0.03, 0.01, 0.003)
EDGES = {"stl10": [3, 6], "cifar100": [33, 66]}


def entropy(scores: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(scores, y)


def weighted(scores: Tensor, y: Tensor) -> Tensor:
    """All classes weigh the same: what balanced batches are when the batch is all rows."""
    counts = torch.bincount(y, minlength=scores.shape[1]).to(scores)
    return functional.cross_entropy(scores, y, weight=counts.sum() / (len(counts) * counts))


def focal(scores: Tensor, y: Tensor) -> Tensor:
    loss = functional.cross_entropy(scores, y, reduction="none")
    return ((1.0 - torch.exp(-loss)).square() * loss).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic regression": entropy,
    "weighted (balanced)": weighted,
    "focal": focal,
}


def layer(x: Tensor, y: Tensor, loss: str, ridge: float) -> Callable[[Tensor], Tensor]:
    """Softmax regression; two classes have one score, the difference of the two."""
    classes = int(y.max()) + 1
    found = linear_layer(x, lambda scores: LOSSES[loss](scores, y), (classes,), ridge)

    def scores(rows: Tensor) -> Tensor:
        each = found(rows)
        return each[:, 1] - each[:, 0] if classes == 2 else each

    return scores


def cells(options: Options) -> list[Cell]:
    found: list[Cell] = []
    for seed in range(options.seeds):
        found += [{"set": name, "positives": share, "seed": seed} for share in SHARES for name in CLASSES]
        found += [{"set": name, "drop": drop, "seed": seed} for drop in DROPS for name in EDGES]
    return found


def task(cell: Cell, folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Components of training and test images with the cell's labels; training images are thinned."""
    (x, y), (x_test, y_test) = (
        frozen_split(folder, cell["set"], split, most, SIDE) for split, most in (("train", TRAIN), ("test", TEST))
    )
    if "positives" in cell:
        half, share = CLASSES[cell["set"]] // 2, cell["positives"] / 100
        y, y_test = (y < half).long(), (y_test < half).long()
        count = min(MOST, int(y.sum()))
        keep = {1: count, 0: round(count * (1 - share) / share)}
    else:
        edges = torch.tensor(EDGES[cell["set"]])
        y, y_test = torch.bucketize(y, edges, right=True), torch.bucketize(y_test, edges, right=True)
        count = min(MOST, int(torch.bincount(y).min()))
        few = round(count * (1 - cell["drop"] / 100))
        keep = {0: few, 1: few, 2: count}
    rows = thinned(y, keep, cell["seed"])
    components = Components.fit(x[rows])
    return components(x[rows]), y[rows], components(x_test), y_test


def run(cell: Cell, options: Options) -> Result:
    x, y, x_test, y_test = task(cell, data_folder(options, cell["set"]))
    metrics = ("auroc",) if "positives" in cell else ("auroc_ovr", "auc_mu")
    tried = _tried(x, y, x_test, cell["seed"])
    return {metric: _judged(metric, tried, x, y, x_test, y_test, cell["seed"]) for metric in metrics}


Tried = dict[tuple[str, float], tuple[Tensor, Tensor]]


def _tried(x: Tensor, y: Tensor, x_test: Tensor, seed: int) -> Tried:
    """Out-of-fold and test scores of every loss at every penalty."""
    folds = make_folds(y, seed, None, FOLDS)
    found: Tried = {}
    for loss in LOSSES:
        for ridge in RIDGES:
            whole = layer(x, y, loss, ridge)
            own = torch.zeros_like(whole(x))
            for fold, judges in enumerate(folds.held):
                rows = folds.train(fold)
                own[judges] = layer(x[rows], y[rows], loss, ridge)(x[judges])
            found[loss, ridge] = own, whole(x_test)
    return found


def _judged(
    metric: str, tried: Tried, x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, seed: int
) -> dict[str, Any]:
    objective = Objective.of(metric)
    valued = {key: objective.value(own, y) for key, (own, _) in tried.items()}
    rivals: dict[str, Any] = {}
    for loss in LOSSES:
        best = max((key for key in valued if key[0] == loss), key=valued.__getitem__)
        value = objective.value(tried[best][1], y_test)
        rivals[loss] = {"validation": valued[best], "test": value, "ridge": best[1]}
    chosen = max(rivals, key=lambda name: rivals[name]["validation"])
    outputs = 1 if objective.binary else int(y.max()) + 1
    found = fit_ensemble(x, y, objective, kinds=FOR_FEATURES, folds=FOLDS, outputs=outputs, seed=seed)
    return {
        "committee": {"promised": found.cross_validated, "test": objective.value(found.scores(x_test), y_test)},
        "members": {seat.name: objective.value(seat.scores(x_test), y_test) for seat in found.weighted_members},
        "shares": {seat.name: seat.share for seat in found.weighted_members},
        "rivals": rivals,
        "rival": {"name": chosen, **rivals[chosen]},
        "images": [len(y), len(y_test)],
    }


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {EXPERIMENT.title}", "", *meng_lines(results)])


EXPERIMENT = Experiment(
    "meng_features", "Meng's 16 + 8 cells on frozen ImageNet features", "aimfor", cells, run, report, seeds=3
)
