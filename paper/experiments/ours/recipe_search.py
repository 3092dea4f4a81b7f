"""The search for the default: ways to go on from the rivals' best checkpoint, judged on held-out training data.

No test file is read: every data set's *training* part is split in three, for training, for validation and to judge by.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from aimfor.direct import Decay, DirectEngine, HasArgmax
from aimfor.loss import MetricLoss
from aimfor.metrics.auroc import AUROC
from aimfor.metrics.base import Metric
from aimfor.metrics.registry import metric_from_name
from aimfor.sorted import SortedEngine

from ...data.images import CLASSES, load, small_cnn, thinned
from ...data.tables import TABLES, standardised_parts, stratified, training_rows
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...protocol.candidates import Refit, metric_loss
from ...protocol.choosing import best, judged, tuned_value
from ...protocol.protocol import RIVALS, Budget, Checkpoint, Contender, Contest, Loss, Split, of_batches
from ...protocol.recipe import all_labelled
from ...protocol.training import averaged, fine_tune, frozen_body, train_all
from ...report.scoreboard import markdown
from ..meng.table1 import budget as image_budget
from . import tables

OWN, FULL_RATE = "own loss", "own loss, full rate"
#: Every candidate runs on the first split; on further ones, these and the same on all data.
FINALISTS, ON_ALL = (OWN, FULL_RATE), ", all data"
SETTING = (
    "Test files are not read: the training part of each set is split into training, validation and judging data. "
    "Network, steps and rivals as in `tables` and `meng_table1`, without LibAUC (on images without focal loss, too). "
    "Each row goes on for 60 steps from the checkpoint that is best on validation data among all rivals', at a third "
    "of its rate (*full rate*: at its rate), with averaged weights; the difference is to the best rival, itself "
    "trained on for 120 steps, in points. *all data*: validation data is trained on too. All candidates are tried on "
    "one split of each set, the two that led to the default on three."
)


@dataclass(frozen=True)
class Start:
    """Where every candidate starts."""

    metric: Metric
    leader: Checkpoint
    own: Contender
    budget: Budget
    seed: int

    def by(self, loss: Loss, share: float = 1 / 3, **changes: Any) -> Callable[[Contest], Checkpoint]:
        """A further phase by a loss, at a share of the leader's rate."""
        method, rate = Contender("candidate", loss, self.own.balanced), share * self.leader.rate
        budget = replace(self.budget, **changes)
        return partial(averaged, start=self.leader, method=method, rate=rate, budget=budget, seed=self.seed)


def candidates(start: Start) -> dict[str, Callable[[Contest], Checkpoint]]:
    """Every way to go on, by name."""
    metric, own, by_metric = start.metric, start.own, metric_loss(start.metric)
    spread = float(start.leader.validation.std().clamp_min(1e-3))
    head = Refit(metric, start.leader)
    found: dict[str, Callable[[Contest], Checkpoint]] = {
        OWN: start.by(own.loss),
        FULL_RATE: start.by(own.loss, 1.0),
        "metric": start.by(by_metric),
        "metric, not averaged": lambda task: _last(start, task, by_metric),
        "own loss + metric": start.by(lambda s, t, shares: own.loss(s, t, shares) + by_metric(s, t, shares)),
        "metric, body frozen, last layer anew": partial(_new_layer, start, by_metric),
        "head": head,
    }
    if metric == AUROC():
        bank = MetricLoss(metric, SortedEngine(bank=8 * start.budget.batch))
        found["score bank, small batches"] = start.by(of_batches(bank), large=start.budget.batch)
        found["margin of the scores' spread"] = start.by(of_batches(MetricLoss(metric, SortedEngine(margin=spread))))
    elif isinstance(metric, HasArgmax):
        falling = Decay(spread, 0.1 * spread, start.budget.extra)
        found["direct, ε falling"] = start.by(of_batches(MetricLoss(metric, DirectEngine(falling))))
    for name in (OWN, FULL_RATE, "metric", "head"):
        found[name + ON_ALL] = partial(_on_all, found[name])
    if start.seed > 0:
        return {name: way for name, way in found.items() if name.removesuffix(ON_ALL) in FINALISTS}
    return found


def _on_all(way: Callable[[Contest], Checkpoint], task: Contest) -> Checkpoint:
    return way(all_labelled(task))


def _last(start: Start, task: Contest, loss: Loss) -> Checkpoint:
    method = Contender("candidate", loss, start.own.balanced)
    return fine_tune(task, start.leader, method, start.leader.rate / 3, start.budget, start.seed)[-1]


def _new_layer(start: Start, loss: Loss, task: Contest) -> Checkpoint:
    method = Contender("candidate", loss, start.own.balanced)
    return frozen_body(task, start.leader, method, start.leader.rate, start.budget, start.seed)


# ---------------------------------------------------------------- cells


def cells(options: Options) -> list[Cell]:
    sets = [("table", name) for name in TABLES if name != "ecoli4"]  # too few rows to split once more
    pictures = [("image", f"{name} {share}%") for share in (91, 71) for name in CLASSES]
    return [
        {"kind": kind, "set": name, "seed": seed} for seed in range(options.seeds) for kind, name in sets + pictures
    ]


def dev_table(folder: Path, name: str, seed: int) -> Contest:
    x, y = training_rows(folder, name)
    rest, judge = stratified(y, 0.3, 1000 + seed)
    fit, validation = (rest[part] for part in stratified(y[rest], 1 / 3, seed))
    return Contest(*standardised_parts(x, y, fit, validation, judge), partial(tables.perceptron, x.shape[1]))


def dev_images(folder: Path, name: str, share: float, seed: int) -> Contest:
    x, y, _, _ = load(folder, name)
    y = (y < CLASSES[name] // 2).long()
    rest, judge = stratified(y, 0.25, 1000 + seed)
    count = min(1000, int(y[rest].sum()))
    rows = rest[thinned(y[rest], {1: count, 0: round(count * (1 - share) / share)}, seed)]
    fit, validation = (rows[part] for part in stratified(y[rows], 0.25, seed))
    return Contest(Split(x[fit], y[fit]), Split(x[validation], y[validation]), Split(x[judge], y[judge]), small_cnn)


def run(cell: Cell, options: Options) -> Result:
    folder, seed = data_folder(options), cell["seed"]
    if cell["kind"] == "table":
        task, budget, rivals, metrics = (
            dev_table(folder, cell["set"], seed),
            tables.budget(options),
            RIVALS,
            tables.METRICS,
        )
    else:
        name, share = cell["set"].rstrip("%").split(" ")
        task, budget = dev_images(folder, name, int(share) / 100, seed), image_budget(options)
        rivals, metrics = RIVALS[:3], ["auroc"]
    torch.manual_seed(seed)
    pools = train_all(task, rivals, budget, seed)
    return {name: _one_metric(task, metric_from_name(name), pools, rivals, budget, seed) for name in metrics}


def _one_metric(
    task: Contest,
    metric: Metric,
    pools: dict[str, list[Checkpoint]],
    rivals: tuple[Contender, ...],
    budget: Budget,
    seed: int,
) -> dict[str, float]:
    everything = [point for points in pools.values() for point in points]
    leader, _, _ = best(metric, everything, task.validation)
    own = next(rival for rival in rivals if rival.name == leader.name)
    longer = replace(budget, extra=2 * budget.extra)
    again = fine_tune(task, leader, own, leader.rate / 10, longer, seed)
    rival, value, shift = best(metric, [*everything, *again], task.validation)
    found = {"best rival": judged(task, metric, rival, value, shift).test}
    shifts: dict[str, float] = {}
    for name, way in candidates(Start(metric, leader, own, budget, seed)).items():
        point = way(task)
        # What is trained on validation data takes its threshold from the same way without it.
        twin = name.removesuffix(ON_ALL)
        shifts[name] = shifts[twin] if twin in shifts else tuned_value(metric, point.validation, task.validation)[1]
        found[name] = judged(task, metric, point, 0.0, shifts[name]).test
    return found


def report(results: list[dict[str, Any]], folder: Path) -> None:
    groups: dict[str, list[dict[str, float]]] = {}
    for entry in results:
        for metric, found in entry["result"].items():
            kind = "images" if entry["cell"]["kind"] == "image" else "tables"
            groups.setdefault(f"{metric}, {kind}", []).append(found)
    text = [f"# {EXPERIMENT.title}", "", SETTING, ""]
    for title, runs in groups.items():
        text += [f"## {title} ({len(runs)} runs)", "", _table(runs), ""]
    (folder / "table.md").write_text("\n".join(text), encoding="utf8")


def _table(runs: list[dict[str, float]]) -> str:
    rows = []
    for name in dict.fromkeys(name for run in runs for name in run if name != "best rival"):
        gaps = [100 * (run[name] - run["best rival"]) for run in runs if run.get(name) is not None]
        error = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else float("nan")
        won, lost = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
        rows.append((name, len(gaps), statistics.mean(gaps), error, statistics.median(gaps), won, lost))
    rows.sort(key=lambda row: -row[2])
    head = ("candidate", "runs", "mean difference (points)", "standard error", "median", "won", "lost")
    return markdown(
        head, [(n, str(k), f"{m:+.2f}", f"{e:.2f}", f"{h:+.2f}", str(w), str(b)) for n, k, m, e, h, w, b in rows]
    )


EXPERIMENT = Experiment(
    "recipe_search", "The search for the default, on held-out training data", "aimfor", cells, run, report, seeds=3
)
