"""Meng Table 2: three-class AUC (one against the rest, and AUC_mu) on STL-10 and CIFAR-100."""

from __future__ import annotations

from aimfor import MetricLoss

from ...data.images import three_class_parts
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.models import NETWORKS, network
from ...protocol.protocol import RIVALS, Contest
from ...protocol.recipe import run_all
from .table1 import beside_the_paper, budget, from_scratch

#: Table 2 of the paper, in percent, for drop rates 90, 80, 60, 0 %.
PAPER = {
    ("cifar100", "auroc_ovr"): {"CE": (54.3, 59.4, 62.7, 63.5), "Meng": (58.4, 59.2, 64.1, 65.7)},
    ("stl10", "auroc_ovr"): {"CE": (66.9, 68.0, 74.8, 81.0), "Meng": (72.9, 72.5, 75.7, 82.7)},
    ("cifar100", "auc_mu"): {"CE": (55.1, 60.6, 65.0, 64.0), "Meng": (60.1, 61.2, 66.0, 67.2)},
    ("stl10", "auc_mu"): {"CE": (68.9, 69.6, 75.8, 82.2), "Meng": (76.1, 74.4, 77.7, 84.5)},
}
DROPS = (90, 80, 60, 0)
SETTING = (
    "Test AUC of three groups of classes, of which the first two are thinned by the drop rate. Network, steps and "
    "looks as in Table 1; at most 1,000 images of a group. One group against the others is ranked by its probability. "
    "Columns CE and Meng: the paper's own numbers."
)


def cells(options: Options) -> list[Cell]:
    return [
        {"set": name, "drop": drop, "seed": seed}
        for seed in range(options.seeds)
        for drop in DROPS
        for name in ("stl10", "cifar100")
    ]


def run(cell: Cell, options: Options) -> Result:
    size = None if options.full else 1000
    parts = three_class_parts(data_folder(options), cell["set"], cell["drop"] / 100, cell["seed"], size)
    task = Contest(*parts, network(options, 3), classes=3)
    papers = (from_scratch("AUC_mu from scratch", MetricLoss("auc_mu")),)
    return run_all(task, ["auroc_ovr", "auc_mu"], budget(options), cell["seed"], rivals=RIVALS, papers=papers)


TITLE = "Three-class AUC on images, 8 cells, two metrics"
report = beside_the_paper(TITLE, SETTING, "drop", DROPS, lambda name, metric: PAPER[name, metric])
EXPERIMENT = Experiment("meng_table2", TITLE, "Meng 2021, Table 2", cells, run, report, seeds=5, networks=NETWORKS)
