"""VOC actions, several labels: a linear layer by smooth average precision against other losses, on frozen features.

Features, folds and penalties as in `voc_features`; only the loss differs. "smooth AP" has half its
weight on an anchor (a pairwise logistic loss), "smooth AP alone" has none, "AUROC" is a pairwise loss by itself. The
seed draws the folds that choose each loss's penalty; all layers are then fitted on all training persons.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aimfor

from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from ...report.pictures_board import smooth_voc_lines
from .voc_features import LOSSES, LabelLoss, features, linear_layers

OURS: dict[str, LabelLoss] = {
    "smooth AP": aimfor.MetricLoss("ap", aimfor.SmoothEngine(anchor=0.5)),
    "smooth AP alone": aimfor.MetricLoss("ap", aimfor.SmoothEngine()),
    "AUROC": aimfor.MetricLoss("auroc"),
}


def cells(options: Options) -> list[Cell]:
    return [{"seed": seed} for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    x, y, x_test, y_test, images = features(data_folder(options, "voc2012_action"))
    return {"losses": linear_layers(x, y, x_test, y_test, images, cell["seed"], {**LOSSES, **OURS})["rivals"]}


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {EXPERIMENT.title}", "", *smooth_voc_lines(results)])


EXPERIMENT = Experiment(
    "voc_smooth", "VOC actions: smooth average precision against other losses", "aimfor", cells, run, report
)
