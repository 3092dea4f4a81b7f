"""Sky by the papers' own algorithm, at several thresholds of "much sky".

Plain Lagrangian, Adam at 0.01 for weights, τ and ε, dual steps 10⁻³ and 10⁻⁵, α = 0.01, one projection an epoch;
the baseline is α = 0 at the same rate. SegNet (16, 32, 64) on images of 48 × 64, 4 epochs of batches of 8; epoch and
decision threshold are chosen on validation data. Ravi's column 3 is a mean over thresholds of the share of sky of 0.55,
0.6 and 0.65: of 360 training images of Stanford Background 2, 1 and 0 are as large (of CamVid none), so here the
thresholds are the mean share, 0.3, 0.4 and 0.5 (53, 24 and 9 images).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from aimfor.lagrangian import class_fractions, size_labels

from ...claims.judging import Entries, Judgement, verdict_of
from ...experiment import Cell, Experiment, Options, Result
from ...protocol.protocol import Contender, cross_entropy
from ...report.pages import write_table
from ...report.scoreboard import markdown
from ...report.statistics import paired
from .as_printed import AS_PRINTED_RATE, PLAIN
from .mask_judges import SKY_JUDGES
from .mask_recipe import MAIN, Bench
from .mask_report import sky_row
from .mask_training import MaskBudget, Regularizer
from .sky_segmentation import task_of

ALPHA, BASELINE, MEAN = 0.01, "baseline", "mean"
THRESHOLDS: dict[str, tuple[float, ...]] = {"camvid": (), "stanford_background": (0.3, 0.4, 0.5)}
#: Of the histogram of shares of sky.
BINS = 10


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "seed": seed} for seed in range(options.seeds) for name in THRESHOLDS]


def _larger(masks: Tensor, threshold: float) -> Tensor:
    return size_labels(class_fractions(masks, 2)[:, 1], threshold)


def run(cell: Cell, options: Options) -> Result:
    task = task_of(cell, options)
    sizes = {f"{at:g}": partial(_larger, threshold=at) for at in THRESHOLDS[cell["set"]]}
    task = replace(task, sizes={**task.sizes, **sizes})
    budget = MaskBudget(40, 10) if options.full else MaskBudget(4, 1)
    bench = Bench(task, SKY_JUDGES, budget, cell["seed"])
    method = Contender("cross-entropy", cross_entropy)
    shares = class_fractions(task.train.y, 2)[:, 1].double()
    found: dict[str, Any] = {"histogram": shares.histc(BINS, 0.0, 1.0).tolist(), "test": {}}
    for size in (None, *task.sizes):
        how = {} if size is None else {"regularizer": Regularizer(ALPHA, size, PLAIN)}
        looks = bench.fit(method, (AS_PRINTED_RATE,), **how)
        name = BASELINE if size is None else size
        found["test"][name] = {metric: bench.chosen(looks, metric)["test"] for metric in SKY_JUDGES}
    return found


def report(results: list[dict[str, Any]], folder: Path) -> None:
    rows, counts = [], []
    for name in THRESHOLDS:
        found = [one["result"] for one in results if one["cell"]["set"] == name]
        if not found:
            continue
        counts.append((name, *(f"{count:.0f}" for count in found[0]["histogram"])))
        tests = [one["test"] for one in found]
        rows += [(name, *sky_row(size, tests, BASELINE), str(len(found))) for size in tests[0]]
    head = ("set", "big from", *(f"{metric} (− baseline)" for metric in SKY_JUDGES), "seeds")
    bins = ("images by share of sky", *(f"{i / BINS:g}–{(i + 1) / BINS:g}" for i in range(BINS)))
    text = (__doc__ or "").split("\n\n", 1)[1]
    write_table(folder, [f"# {TITLE}", "", text, markdown(head, rows), "", markdown(bins, counts)])


def sky_plain_gap(entries: Entries) -> Judgement:
    """Mean IoU with the size by the mean, less the baseline's, over sets and seeds."""
    ours, base = ([one["result"]["test"][name][MAIN] for one in entries] for name in (MEAN, BASELINE))
    gap = paired(ours, base)
    return Judgement(f"difference in mean IoU {gap} ({gap.pairs} runs)", verdict_of(gap))


TITLE = "Sky by the papers' own algorithm, at several size thresholds"
EXPERIMENT = Experiment("sky_plain", TITLE, "Ravi 2020, Fig. 3 column 3; Venkatesh 2019, Fig. 7", cells, run, report, 3)
