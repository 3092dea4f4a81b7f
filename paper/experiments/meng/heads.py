"""Meng's Tables 1 and 2 with all their rivals, on frozen features: one linear layer, one protocol.

The cells of `meng_features` (EfficientNet-Lite0, 96 pixels, at most 1,000 of a class; the imbalances of the tables); a
quarter of the thinned images for validation. Everyone gets 300 steps of 128 images and three rates: AdamW at 0.0001,
0.001 and 0.01 with six looks at validation data; PPD-SG and PPD-AdaGrad their own steps (1, 0.1, 0.01) with a look
after every stage; LibAUC's AUCM its own optimizer (0.5, 0.1, 0.02) on balanced batches. The paper's loss is the pairs'
ramp on sigmoid scores with margin 0.01, as the authors have it; *pairs, hinge* is the value of their program itself,
*pairs, squared* ours; the same *on balanced batches* was added when AUCM had come out ahead, as a contrast fixed before
it ran. Differences are from cross-entropy, paired over cells (the mean over seeds of each).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aimfor import AUROC, AUCMu, MetricLoss, metric_from_name
from aimfor.sorted import SortedEngine

from ...data.tables import stratified
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...protocol.choosing import chosen
from ...protocol.protocol import RIVALS, Budget, Contender, Contest, Loss, Split
from ...protocol.training import train_all
from ...report.meng_board import grouped, in_the_paper
from ...report.pages import report_of
from ...report.scoreboard import markdown
from ...report.statistics import paired
from ...rivals import libauc, ppd
from ..ours import meng_features

MARGIN = 0.01
MENG, HINGE, SQUARED, PLAIN = "pairs, ramp (the paper's)", "pairs, hinge", "pairs, squared (ours)", "cross-entropy"
#: A contrast fixed beforehand: our loss on the batches that LibAUC draws, everything else alike.
BALANCED, AUCM = "pairs, squared, balanced batches", "LibAUC AUCM"
METRICS = {"positives": ("auroc",), "drop": ("auroc_ovr", "auc_mu")}


def budget() -> Budget:
    return Budget(300, 0, batch=128, rates=(1e-4, 1e-3, 1e-2), looks=6)


def _squashed(loss: nn.Module, squash: Callable[[Tensor], Tensor]) -> Loss:
    def apply(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        value: Tensor = loss(squash(scores), targets)
        return value

    return apply


def cells(options: Options) -> list[Cell]:
    every = meng_features.cells(options)
    return every + [{**cell, "contrast": BALANCED} for cell in every if "positives" in cell]


def contenders(binary: bool) -> tuple[Contender, ...]:
    """Rivals as in every table, the paper's loss in its two readings and ours, and the rivals that the paper names."""
    metric = AUROC() if binary else AUCMu()
    squash: Callable[[Tensor], Tensor] = torch.sigmoid if binary else lambda scores: scores.softmax(1)
    squared = _squashed(MetricLoss(metric, SortedEngine("squared_hinge", 1.0)), lambda scores: scores)
    papers = (
        Contender(MENG, _squashed(MetricLoss(metric, SortedEngine("ramp", MARGIN)), squash)),
        Contender(HINGE, _squashed(MetricLoss(metric, SortedEngine("hinge", MARGIN)), squash)),
        Contender(SQUARED, squared),
    )
    named = (*ppd.rivals(), *libauc.rivals(AUCM)) if binary else ()
    return (*RIVALS, *papers, *named)


def task(cell: Cell, folder: Path) -> Contest:
    x, y, x_test, y_test = meng_features.task(cell, folder)
    fit, judge = stratified(y, 0.25, cell["seed"])
    classes = int(y.max()) + 1
    parts = Split(x[fit], y[fit]), Split(x[judge], y[judge]), Split(x_test, y_test)
    return Contest(*parts, lambda: nn.Linear(x.shape[1], 1 if classes == 2 else classes), classes)


def run(cell: Cell, options: Options) -> Result:
    contest = task(cell, data_folder(options, cell["set"]))
    methods = contenders(contest.classes == 2)
    if "contrast" in cell:
        ours = next(method for method in methods if method.name == SQUARED)
        methods = (replace(ours, name=BALANCED, balanced=True),)
    pools = train_all(contest, methods, budget(), cell["seed"])
    found: Result = {}
    for name in METRICS["positives" if "positives" in cell else "drop"]:
        metric = metric_from_name(name)
        picks = {method: chosen(contest, metric, pool) for method, pool in pools.items()}
        found[name] = {method: {"validation": one.validation, "test": one.test} for method, one in picks.items()}
    return found


def merged(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The contrast's methods among those of the cell that it belongs to."""
    added = {_key(entry["cell"]): entry["result"] for entry in results if "contrast" in entry["cell"]}
    return [
        {
            **entry,
            "result": {
                metric: {**methods, **added.get(_key(entry["cell"]), {}).get(metric, {})}
                for metric, methods in entry["result"].items()
            },
        }
        for entry in results
        if "contrast" not in entry["cell"]
    ]


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell["set"], cell.get("positives"), cell.get("drop"), cell["seed"]


def differences(results: list[dict[str, Any]], metric: str, method: str, scarce: bool = False) -> list[float]:
    """Method less cross-entropy on test data, one number a cell, the mean over its seeds; ``scarce``: at 91 % only."""
    cells = [found for name, one, found in grouped(merged(results)) if one == metric and (not scarce or " 91%" in name)]
    return [
        statistics.fmean(one[method]["test"] - one[PLAIN]["test"] for one in found if method in one)
        for found in cells
        if any(method in one for one in found)
    ]


def lines(results: list[dict[str, Any]]) -> list[str]:
    page = [(__doc__ or "").split("\n\n", 1)[1]]
    seeds = len({entry["cell"]["seed"] for entry in results})
    every = grouped(merged(results))
    for metric in dict.fromkeys(one for _, one, _ in every):
        groups = [(name, found) for name, one, found in every if one == metric]
        methods = list(dict.fromkeys(method for _, found in groups for one in found for method in one))
        rows = []
        for name, found in groups:
            means = (100 * statistics.fmean(one[m]["test"] for one in found) for m in methods)
            rows.append((name, *in_the_paper(name, metric), *(f"{mean:.1f}" for mean in means)))
        gaps = [differences(results, metric, method) for method in methods]
        last = ("" if m == PLAIN else str(paired(gap, [0.0] * len(gap))) for m, gap in zip(methods, gaps, strict=True))
        rows.append(("− cross-entropy", "", "", *last))
        head = (f"{metric}, {seeds} seeds", "CE, the paper's", "Meng, the paper's", *methods)
        page += [markdown(head, rows), ""]
        if {BALANCED, AUCM} <= set(methods):
            gap = paired(*(differences(results, metric, method) for method in (BALANCED, AUCM)))
            page += [f"The contrast: {BALANCED} − {AUCM} {gap}.", ""]
    return page


TITLE = "Binary and multi-class AUC on frozen features, with PPD and LibAUC"
EXPERIMENT = Experiment("meng_heads", TITLE, "Meng 2021, Tables 1 and 2", cells, run, report_of(TITLE, lines), seeds=3)
