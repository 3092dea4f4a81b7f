"""Meng Fig. 2: ROC curves of three-class training on STL-10 with 90 % of two classes dropped.

Each of the three groups of classes is the positive class once, against the other two. The score of a class is its
softmax probability: cross-entropy and AUC_mu both leave a constant added to all scores of an image free, so that a
column of raw scores means nothing by itself.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from aimfor import AUROC, AUCMu, MetricLoss
from aimfor.metrics import AUROCOneVsRest
from aimfor.metrics.curve import threshold_curve
from aimfor.sorted import SortedEngine

from ...data.images import three_class_parts
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...networks.models import NETWORKS, network
from ...protocol.choosing import scores_on_test
from ...protocol.protocol import RIVALS, Contest
from ...protocol.training import train_all
from ...report.figures import COLOURS, band, bands, drawing, tidy
from ...report.pages import write_table
from ...report.scoreboard import markdown
from ...report.statistics import Paired, paired
from .table1 import budget, from_scratch

GRID = np.linspace(0.0, 1.0, 101)
#: False positive rates at which the curves are compared.
RATES = (0.05, 0.1, 0.2)
PLAIN, BALANCED, RAMP, HINGE = "cross-entropy", "balanced batches", "AUC_mu, ramp", "AUC_mu, squared hinge"
GROUPS = ("classes 0–2", "classes 3–5", "classes 6–9")
SETTING = (
    "True positive rate on test data, mean over the three groups of classes, each against the other two. STL-10 with "
    "90 % of the first two groups dropped, at most 1,000 images of a group, a quarter for validation. Network, steps "
    "and rate as in Table 1, for every method; the best of 3 looks at validation data by the mean area. Band: all "
    "seeds. `--full`: ResNet-20, all images, 4,000 steps, three rates."
)


def cells(options: Options) -> list[Cell]:
    return [{"seed": seed} for seed in range(options.seeds)]


def curve_of(scores: Tensor, positive: Tensor) -> list[float]:
    """The true positive rate at each false positive rate of `GRID`, on straight lines between thresholds.

    Where the curve rises straight up, its upper end counts, so that the point at 0 is the rate before the first false
    positive.
    """
    found = threshold_curve(AUROC().check(scores, positive.long()))
    fp, tp = (
        np.append(0.0, (counts / total).numpy())
        for counts, total in ((found.fp, found.negatives), (found.tp, found.positives))
    )
    before = np.searchsorted(fp, GRID + 1e-12, side="right") - 1  # the last point not to the right of the rate
    after = np.minimum(before + 1, len(fp) - 1)
    share = (GRID - fp[before]) / np.where(after > before, fp[after] - fp[before], 1.0)
    values: list[float] = (tp[before] + share * (tp[after] - tp[before])).round(5).tolist()
    return values


def run(cell: Cell, options: Options) -> Result:
    size = None if options.full else 1000
    parts = three_class_parts(data_folder(options), "stl10", 0.9, cell["seed"], size)
    task = Contest(*parts, network(options, 3), classes=3)
    methods = [
        *(rival for rival in RIVALS if rival.name in (PLAIN, BALANCED)),
        from_scratch(RAMP, MetricLoss(AUCMu(), SortedEngine("ramp", 0.1))),
        from_scratch(HINGE, MetricLoss(AUCMu(), SortedEngine("squared_hinge", 1.0))),
    ]
    pools = train_all(task, methods, budget(options), cell["seed"])
    area, result = AUROCOneVsRest(), {}
    for name, pool in pools.items():
        values = [float(area.value(point.validation.softmax(1), task.validation.y)) for point in pool]
        scores = scores_on_test(task, pool[int(np.argmax(values))]).softmax(1)
        result[name] = {
            "area": float(area.value(scores, task.test.y)),
            "curves": [curve_of(scores[:, group], task.test.y == group) for group in range(3)],
        }
    return result


# ---------------------------------------------------------------- report


def mean_curves(results: list[dict[str, Any]], method: str) -> Any:
    """``(seeds, len(GRID))``: the mean over the three groups."""
    return np.array([entry["result"][method]["curves"] for entry in results]).mean(1)


def gaps(results: list[dict[str, Any]], method: str, rival: str) -> dict[str, Paired]:
    """Paired differences over seeds: the area, and the true positive rate at each of `RATES`."""
    areas = ([entry["result"][name]["area"] for entry in results] for name in (method, rival))
    ours, theirs = mean_curves(results, method), mean_curves(results, rival)
    places = [int(np.argmin(abs(GRID - rate))) for rate in RATES]
    found = {"area": paired(*areas)}
    return found | {f"at {GRID[p]:g}": paired(ours[:, p].tolist(), theirs[:, p].tolist()) for p in places}


def group_gap(results: list[dict[str, Any]], method: str, rival: str, group: int) -> Paired:
    """The same for the area of one group's curve, read off `GRID`."""

    def areas(name: str) -> list[float]:
        curves = np.array([entry["result"][name]["curves"][group] for entry in results])
        found: list[float] = ((curves[:, 1:] + curves[:, :-1]) / 2 * np.diff(GRID)).sum(1).tolist()
        return found

    return paired(areas(method), areas(rival))


def report(results: list[dict[str, Any]], folder: Path) -> None:
    names = list(results[0]["result"])
    rows = []
    for name in names:
        area = statistics.fmean(entry["result"][name]["area"] for entry in results)
        curve = mean_curves(results, name).mean(0)
        values = [f"{curve[int(np.argmin(abs(GRID - rate)))]:.3f}" for rate in RATES]
        rows.append([name, f"{area:.4f}", *values])
    compared = [
        [f"{name} − {rival}", *(f"{gap} {gap.verdict}" for gap in gaps(results, name, rival).values())]
        for rival in (PLAIN, BALANCED)
        for name in names
        if name not in (PLAIN, rival)
    ]
    head = ["area", *(f"recall at FPR {rate:g}" for rate in RATES)]
    text = [f"# {EXPERIMENT.title}", "", SETTING, "", markdown(["method", *head], rows), ""]
    text += [markdown([f"difference over {len(results)} seeds [95 %]", *head], compared), ""]
    groups = [
        [f"{name} − {PLAIN}", *(str(group_gap(results, name, PLAIN, group)) for group in range(3))]
        for name in names
        if name != PLAIN
    ]
    text += [markdown(["area, each group against the rest", *GROUPS], groups), ""]
    text += ["![mean ROC curves](roc.svg)", "![ROC curves of each group](groups.svg)", ""]
    write_table(folder, text[:-1])
    title, x, y = "STL-10, 90 % dropped: mean over three groups", "false positive rate", "true positive rate"
    bands(GRID.tolist(), {name: mean_curves(results, name) for name in names}, folder / "roc.svg", title, x, y, True)
    with drawing(folder / "groups.svg", (9.6, 3.4)) as figure:
        for group, axes in enumerate(figure.subplots(1, 3, sharey=True)):
            for name, colour in zip(names, COLOURS, strict=False):
                curves = [entry["result"][name]["curves"][group] for entry in results]
                band(axes, GRID.tolist(), curves, name, colour)
            tidy(axes, x, y if group == 0 else "", GROUPS[group])
        axes.legend(frameon=False, fontsize=7, loc="lower right")


EXPERIMENT = Experiment(
    "meng_roc",
    "ROC curves of three classes on STL-10, 90 % dropped",
    "Meng 2021, Fig. 2",
    cells,
    run,
    report,
    seeds=5,
    networks=NETWORKS,
)
