"""24 imbalanced tables × F1, average precision, AUROC, recall at precision: the default against honest rivals."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...data.tables import TABLES, table
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...protocol.protocol import RIVALS, Budget, Contest
from ...protocol.recipe import run_all
from ...report.scoreboard import lines, write_report
from ...rivals import libauc

METRICS = ["auroc", "f1", "ap", "recall@precision=0.8"]
SETTING = (
    "Multilayer perceptron (64, 32), 400 AdamW steps of 128 examples, rates 0.001 and 0.01, 4 looks at validation "
    "data (a third of the training part), then 60 further steps of up to 1024 examples (the rivals: 60 so, and 120 at "
    "a tenth of the rate). Rivals: cross-entropy, weighted, on balanced batches, focal, and LibAUC's AUCM with PESG "
    "and average precision with SOAP where it is installed; thresholds tuned on validation data."
)


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in TABLES]


def budget(options: Options) -> Budget:
    return Budget(steps=2000 if options.full else 400, extra=60)


def perceptron(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))


def run(cell: Cell, options: Options) -> Result:
    parts = table(data_folder(options, "imbalanced_small"), cell["set"], cell["seed"])
    torch.manual_seed(cell["seed"])
    rivals = (*RIVALS, *libauc.rivals("LibAUC AUCM", "LibAUC AP"))
    task = Contest(*parts, partial(perceptron, parts[0].x.shape[1]))
    return run_all(task, METRICS, budget(options), cell["seed"], rivals=rivals)


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_report(folder, EXPERIMENT.title, SETTING, lines(results, lambda cell: str(cell["set"])))


EXPERIMENT = Experiment("tables", "24 imbalanced tables, four metrics", "aimfor", cells, run, report, seeds=8)
