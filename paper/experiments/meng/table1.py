"""Meng Table 1: binary AUC on four image sets × four shares of positives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aimfor import AUROC, MetricLoss
from aimfor.sorted import SortedEngine

from ...data.images import CLASSES, binary_parts
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.models import NETWORKS, network
from ...protocol.protocol import RIVALS, Budget, Contender, Contest, of_batches
from ...protocol.recipe import run_all
from ...report.scoreboard import Line, lines, write_report
from ...rivals import libauc

#: Table 1 of the paper, in percent: cross-entropy, PPD-SG, PPD-AdaGrad, ours; for 91, 83, 71, 50 % positives.
PAPER = {
    "cats_vs_dogs": {"CE": (67.6, 74.6, 85.1, 87.4), "Meng": (78.6, 81.3, 85.6, 87.8)},
    "cifar10": {"CE": (65.2, 73.3, 78.1, 83.7), "Meng": (72.5, 74.4, 78.3, 82.7)},
    "cifar100": {"CE": (57.8, 58.4, 62.2, 66.3), "Meng": (58.2, 60.5, 64.5, 69.0)},
    "stl10": {"CE": (63.5, 67.1, 72.7, 80.8), "Meng": (68.4, 71.1, 76.7, 81.6)},
}
SHARES = (91, 83, 71, 50)
#: By method, one number a column.
Numbers = Mapping[str, tuple[float, ...]]
SETTING = (
    "Test AUROC. Images halved to 16 × 16, three strided convolutions (24 thousand weights), at most 1,000 "
    "positives, a quarter of the thinned "
    "data for validation, 300 AdamW steps of 64 images at rate 0.002 for every method (as the paper: one rate for "
    "all), 4 looks at validation data, then 60 further steps of 256 images (the rivals: 180). Positive: the "
    "first half of the classes. `--full`: ResNet-20, all images, 4,000 steps, three rates. Columns CE and Meng: the "
    "paper's own numbers, from larger networks and data."
)


def from_scratch(name: str, loss: MetricLoss) -> Contender:
    """A metric loss from the first step on, in ordinary batches, as the papers train."""
    return Contender(name, of_batches(loss))


def pair_loss(surrogate: str, margin: float) -> Contender:
    return from_scratch(f"{surrogate} from scratch", MetricLoss(AUROC(), SortedEngine(surrogate, margin)))


def cells(options: Options) -> list[Cell]:
    return [
        {"set": name, "positives": share, "seed": seed}
        for seed in range(options.seeds)
        for share in SHARES
        for name in CLASSES
    ]


def budget(options: Options) -> Budget:
    if options.full:
        return Budget(4000, 400, batch=128, large=512, rates=(3e-4, 1e-3, 3e-3), looks=8)
    return Budget(300, 60, batch=64, large=256, rates=(2e-3,), looks=4)


def run(cell: Cell, options: Options) -> Result:
    size = None if options.full else 1000
    folder = data_folder(options)
    parts = binary_parts(folder, cell["set"], cell["positives"] / 100, cell["seed"], size)
    task = Contest(*parts, network(options))
    papers = (pair_loss("ramp", 0.1), pair_loss("squared_hinge", 1.0))
    rivals = (*RIVALS, *libauc.rivals("LibAUC AUCM"))
    return run_all(task, ["auroc"], budget(options), cell["seed"], rivals=rivals, papers=papers)


def beside_the_paper(
    title: str, setting: str, key: str, columns: Sequence[int], paper: Callable[[str, str], Numbers]
) -> Callable[[list[dict[str, Any]], Path], None]:
    """A report with the paper's own numbers beside ours.

    Args:
        title: Of the report.
        setting: What was run, in words.
        key: The setting of a cell that the paper's columns differ in, a percentage.
        columns: Its values, in the order of the paper's columns.
        paper: The paper's numbers by method, given the set and the metric.
    """

    def label(cell: Cell) -> str:
        return f"{cell['set']} {cell[key]}%"

    def extra(line: Line) -> dict[str, str]:
        name, percent = line.cell.split(" ")
        place = columns.index(int(percent.rstrip("%")))
        return {f"{who} in the paper": f"{values[place]:.1f}" for who, values in paper(name, line.metric).items()}

    def report(results: list[dict[str, Any]], folder: Path) -> None:
        write_report(folder, title, setting, lines(results, label), extra=extra)

    return report


TITLE = "Binary AUC on images, 16 cells"
report = beside_the_paper(TITLE, SETTING, "positives", SHARES, lambda name, _: PAPER[name])
EXPERIMENT = Experiment("meng_table1", TITLE, "Meng 2021, Table 1", cells, run, report, seeds=8, networks=NETWORKS)
