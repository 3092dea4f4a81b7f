"""Ravi §6: R@P, P@R and AUC by per-example duals as printed, against rate constraints and cross-entropy.

Five tables, the same perceptron of 64 units and Adam at 0.003 for everyone, 30 epochs of batches of 256; the last epoch
is read on test rows. Per-example duals are `RateDuals`, rate constraints the library's `RateEngine`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.metrics import AUROC, PrecisionAtRecall, RecallAtPrecision

from ...data.tables import table
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...protocol.training import by_epochs
from ...report.pages import report_of
from ...report.scoreboard import markdown
from ...report.statistics import paired
from ...rivals.rate_duals import RateDuals
from .positive_unlabelled import TABLES

METRICS: dict[str, Any] = {"R@P 0.8": RecallAtPrecision(0.8), "P@R 0.8": PrecisionAtRecall(0.8), "AUROC": AUROC()}
DUALS, RATES, ENTROPY = "per-example duals", "rate constraints", "cross-entropy"
EPOCHS, BATCH, RATE = 30, 256, 3e-3

Step = Callable[[Tensor, Tensor], Tensor]


def trained(x: Tensor, y: Tensor, loss: Step, end_epoch: Callable[[], None], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 1))
    return by_epochs(model, x, loss, end_epoch, seed, epochs=EPOCHS, batch=BATCH, rate=RATE)


def cells(options: Options) -> list[Cell]:
    return [{"table": name, "seed": seed} for name in TABLES for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    folder: Path = data_folder(options, "imbalanced_small")
    train, more, test = table(folder, cell["table"], cell["seed"])
    x, y = torch.cat((train.x, more.x)), torch.cat((train.y, more.y)) == 1
    seed = cell["seed"]

    def entropy(scores: Tensor, index: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(scores, y[index].to(scores))

    plain = trained(x, y, entropy, lambda: None, seed)
    found: dict[str, Any] = {}
    for name, metric in METRICS.items():
        duals, engine = RateDuals(metric.anchors(), y), aimfor.MetricLoss(metric, aimfor.RateEngine())
        models = {
            DUALS: trained(x, y, duals, duals.end_epoch, seed),
            RATES: trained(x, y, partial(_constrained, engine, y), engine.end_epoch, seed),
            ENTROPY: plain,
        }
        with torch.no_grad():
            found[name] = {
                method: float(metric.value(one(test.x).squeeze(1), test.y)) for method, one in models.items()
            }
    return found


def _constrained(loss_fn: aimfor.MetricLoss, y: Tensor, scores: Tensor, index: Tensor) -> Tensor:
    value: Tensor = loss_fn(scores, y[index])
    return value


def lines(results: list[dict[str, Any]]) -> list[str]:
    rows = []
    for metric in METRICS:
        values = {method: [r["result"][metric][method] for r in results] for method in (DUALS, RATES, ENTROPY)}
        means = [f"{sum(own) / len(own):.4f}" for own in values.values()]
        gaps = [str(paired(values[DUALS], values[other])) for other in (RATES, ENTROPY)]
        rows.append((metric, *means, *gaps, str(len(results))))
    head = ("metric", DUALS, RATES, ENTROPY, "duals − rates", "duals − cross-entropy", "runs")
    return [(__doc__ or "").split("\n\n", 1)[1], markdown(head, rows), ""]


TITLE = "R@P, P@R and AUC by per-example duals and by rate constraints"
EXPERIMENT = Experiment("rate_duals", TITLE, "Ravi 2020, §6", cells, run, report_of(TITLE, lines), seeds=3)
