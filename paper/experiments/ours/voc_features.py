"""VOC actions on frozen features of a pretrained network: the committee against linear layers on the same features.

Training file and test file as in `voc_action`. Every choice is made on the training persons, by five folds that never
part an image: the rivals' loss and penalty (for all actions together and for each by itself), and everything in the
committee. All are then fitted on all training persons; the committee is the mean of its folds. The seed draws the
folds.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from aimfor.data.backbones import LITE0, load_backbone
from aimfor.data.components import Components
from aimfor.data.features import FeatureStore, features_of
from aimfor.data.pictures import Pictures
from aimfor.learners.ensemble import FOR_FEATURES, fit_ensemble
from aimfor.targets.folds import make_folds
from aimfor.targets.objective import Objective

from ...data import voc
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from ...report.pictures_board import voc_lines
from ...rivals.linear import linear_layer
from ..song.multilabel import label_aps, mean_ap

SIDE, FOLDS = 160, 5
#: Penalties of the rivals, on components whose first has deviation 2.
RIDGES = (0.1, 0.03, 0.01, 0.003)


def entropy(scores: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, y, reduction="none")


def weighted(scores: Tensor, y: Tensor) -> Tensor:
    """Both classes of a label weigh the same: what balanced batches are when the batch is all rows."""
    share = y.mean()
    return entropy(scores, y) * torch.where(y == 1, 0.5 / share, 0.5 / (1 - share))


def focal(scores: Tensor, y: Tensor) -> Tensor:
    loss = entropy(scores, y)
    return (1.0 - torch.exp(-loss)).square() * loss


def asymmetric(scores: Tensor, y: Tensor) -> Tensor:
    """Negatives by γ = 4 with probabilities shifted by 0.05, positives plain (Ridnik 2021)."""
    shifted = (torch.sigmoid(scores) - 0.05).clamp_min(0.0)
    return torch.where(y == 1, entropy(scores, y), -shifted.pow(4) * torch.log1p(-shifted.clamp_max(1 - 1e-7)))


LabelLoss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, LabelLoss] = {
    "logistic regression": entropy,
    "weighted (balanced)": weighted,
    "focal": focal,
    "asymmetric": asymmetric,
}


def layer(x: Tensor, y: Tensor, loss: LabelLoss, ridge: float) -> Callable[[Tensor], Tensor]:
    """One score a row. ``loss`` is one value a row, or their mean."""
    y = y.double()
    return linear_layer(x, lambda scores: loss(scores, y).mean(), (), ridge)


@functools.cache
def features(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Components and labels of both files, and the image of each training person."""
    network = load_backbone(LITE0)
    store = FeatureStore.beside(Path(tempfile.gettempdir()) / "aimfor", network, SIDE)
    known, unseen = voc.load(folder, "train"), voc.load(folder, "test")
    raw = [
        torch.from_numpy(
            features_of(Pictures([str(n) for n in range(len(one))], array=one.crops), network, SIDE, store)
        )
        for one in (known, unseen)
    ]
    components = Components.fit(raw[0])
    images = torch.from_numpy(np.unique(known.images, return_inverse=True)[1]).long()
    labels = [torch.from_numpy(one.labels).long() for one in (known, unseen)]
    return components(raw[0]), labels[0], components(raw[1]), labels[1], images


def cells(options: Options) -> list[Cell]:
    return [{"seed": seed} for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    x, y, x_test, y_test, images = features(data_folder(options, "voc2012_action"))
    rivals = linear_layers(x, y, x_test, y_test, images, cell["seed"], LOSSES)
    members: dict[str, list[Tensor]] = {}
    columns, seconds, promised = [], 0.0, []
    for label in range(y.shape[1]):
        known = y[:, label] >= 0
        found = fit_ensemble(
            x[known],
            y[known, label],
            Objective.of("ap"),
            groups=images[known],
            kinds=FOR_FEATURES,
            folds=FOLDS,
            seed=cell["seed"],
        )
        columns.append(found.scores(x_test))
        for seat in found.weighted_members:
            members.setdefault(seat.name, []).append(seat.scores(x_test))
            seconds += seat.seconds
        promised.append(found.cross_validated)
    committee = torch.stack(columns, 1)
    return {
        "committee": {"promised": float(np.mean(promised)), "test": mean_ap(committee, y_test), "seconds": seconds},
        "actions": dict(zip(voc.ACTIONS, label_aps(committee, y_test), strict=True)),
        "members": {name: mean_ap(torch.stack(one, 1), y_test) for name, one in members.items()},
        **rivals,
    }


def linear_layers(
    x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, images: Tensor, seed: int, losses: dict[str, LabelLoss]
) -> dict[str, Any]:
    """Each loss at its best penalty by cross-validation, and the best of all for each action by itself."""
    out_of_fold = {(loss, ridge): torch.zeros(y.shape, dtype=torch.float64) for loss in losses for ridge in RIDGES}
    tested = {key: torch.zeros(y_test.shape, dtype=torch.float64) for key in out_of_fold}
    for label in range(y.shape[1]):
        known = (y[:, label] >= 0).nonzero().reshape(-1)
        truth = y[known, label]
        folds = make_folds(truth, seed, images[known], FOLDS)
        for key in out_of_fold:
            loss, ridge = losses[key[0]], key[1]
            for fold, held in enumerate(folds.held):
                fit = folds.train(fold)
                out_of_fold[key][known[held], label] = layer(x[known[fit]], truth[fit], loss, ridge)(x[known[held]])
            tested[key][:, label] = layer(x[known], truth, loss, ridge)(x_test)
    valued = {key: mean_ap(scores, y) for key, scores in out_of_fold.items()}
    by_label = {key: label_aps(scores, y) for key, scores in out_of_fold.items()}
    alone: dict[str, Any] = {}
    for name in losses:
        best = max((key for key in valued if key[0] == name), key=valued.__getitem__)
        alone[name] = {"validation": valued[best], "test": mean_ap(tested[best], y_test), "ridge": best[1]}
    keys = list(by_label)
    chosen = [keys[int(np.argmax([by_label[key][label] for key in keys]))] for label in range(y.shape[1])]
    mixed = torch.stack([tested[key][:, label] for label, key in enumerate(chosen)], 1)
    value = float(np.mean([by_label[key][label] for label, key in enumerate(chosen)]))
    alone["best loss for each action"] = {"validation": value, "test": mean_ap(mixed, y_test)}
    best_name = max(alone, key=lambda name: alone[name]["validation"])
    return {"rivals": alone, "rival": {"name": best_name, **alone[best_name]}}


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {EXPERIMENT.title}", "", *voc_lines(results)])


EXPERIMENT = Experiment(
    "voc_features", "VOC actions on frozen ImageNet features: mean average precision", "aimfor", cells, run, report
)
