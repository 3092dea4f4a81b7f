"""Positive and unlabelled tables: `PULoss` against its rivals, the prior known and estimated.

Half of the positive training rows are known, the other half is unlabelled with all negatives. A perceptron of 64 units,
Adam at 0.003, 400 steps of batches of 512. The estimated prior comes from the naive network, on a fifth of the training
rows that it has not seen. Judged on test rows with their labels: accuracy at threshold 0 and AUROC.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.positive_unlabelled import estimate_prior, evaluate_pu

from ...data.tables import stratified, table
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pu_board import TITLE, report

TABLES = ("phoneme", "spambase", "page_blocks0", "satimage", "optdigits")
KNOWN, STEPS, BATCH = 0.5, 400, 512

Loss = Callable[[Tensor, Tensor], Tensor]


def weighted(labels: Tensor) -> Loss:
    """Unlabelled rows taken as negative, both kinds weighing alike."""
    ratio = (labels == 0).sum() / (labels == 1).sum()
    return lambda s, y: functional.binary_cross_entropy_with_logits(s, y.to(s), pos_weight=ratio)


def naive(s: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(s, y.to(s))


def trained(x: Tensor, y: Tensor, loss: Loss, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer, draw = torch.optim.Adam(model.parameters(), lr=3e-3), torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (BATCH,), generator=draw)
        optimizer.zero_grad()
        loss(model(x[rows]).squeeze(1), y[rows]).backward()
        optimizer.step()
    return model


def cells(options: Options) -> list[Cell]:
    return [{"table": name, "seed": seed} for name in TABLES for seed in range(options.seeds)]


def run(cell: Cell, options: Options) -> Result:
    folder: Path = data_folder(options, "imbalanced_small")
    train, more, test = table(folder, cell["table"], cell["seed"])
    x, truth = torch.cat((train.x, more.x)), torch.cat((train.y, more.y))
    draw = torch.Generator().manual_seed(cell["seed"])
    labels = ((truth == 1) & (torch.rand(len(truth), generator=draw) < KNOWN)).long()
    known = float(truth[labels == 0].float().mean())
    fit, kept = stratified(labels, 0.2, cell["seed"])
    first = trained(x[fit], labels[fit], naive, cell["seed"])
    with torch.no_grad():
        scores = first(x[kept]).squeeze(1)
    estimated = estimate_prior(scores, labels[kept])
    ways: dict[str, Loss] = {"labels of all rows": naive, "naive": naive, "weighted": weighted(labels)}
    for words, prior in (("known", known), ("estimated", estimated)):
        ways[f"uPU, prior {words}"] = aimfor.PULoss(prior, "unbiased")
        ways[f"nnPU, prior {words}"] = aimfor.PULoss(prior)
    found: dict[str, Any] = {"prior": {"known": known, "estimated": estimated}}
    for name, loss in ways.items():
        model = trained(x, truth if name == "labels of all rows" else labels, loss, cell["seed"])
        found[name] = scored(model, test.x, test.y)
    # What can be said without negatives, by the naive network on the rows kept aside, and the truth.
    values = evaluate_pu(scores, labels[kept], known)
    unknown = labels[kept] == 0
    found["auroc"] = {
        "corrected": values.auroc,
        "unlabelled": values.auroc_unlabelled,
        "true": float(aimfor.AUROC().value(scores[unknown], truth[kept][unknown])),
    }
    return found


def scored(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    with torch.no_grad():
        scores = model(x).squeeze(1)
    right = float(((scores > 0) == (y == 1)).double().mean())
    return {"accuracy": right, "auroc": float(aimfor.AUROC().value(scores, y))}


EXPERIMENT = Experiment("positive_unlabelled", TITLE, "Venkatesh 2019, §1 and Fig. 3", cells, run, report, seeds=5)
