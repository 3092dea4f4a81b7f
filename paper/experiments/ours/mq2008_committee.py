"""MQ2008 as `aimfor train --query` runs it: the committee of ranked lists against LightGBM and ridge regression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from aimfor.learners.ensemble import fit_ensemble
from aimfor.learners.ensemble.members import Rows
from aimfor.runs.compare.rivals import RANKERS, rank_by
from aimfor.runs.compare.verdicts import paired_difference
from aimfor.targets.objective import Objective

from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from . import lambdarank

TITLE = "Learning to rank with --query: NDCG@10 and MAP"
METRICS = ("ndcg@10", "ap")
SETTING = (
    "46 features, the five official folds. The committee (`fit_ensemble` with lists, the call behind `aimfor train "
    "--query`) learns from the four parts that are not for testing; the rivals choose their number of rounds on the "
    "validation part and are then refitted on the same four. Rows marked `member` are members of the committee alone. "
    "Queries without a relevant document are left out. Intervals are over folds, which share training data: read them "
    "as a guide. The table of `mq2008` has networks with pointwise, pairwise and listwise losses on the same folds."
)
COMMITTEE = "committee"
LAMBDARANK = "network, LambdaRank's weights"


def cells(options: Options) -> list[Cell]:
    return [
        {"metric": metric, "fold": number, "seed": seed}
        for metric in METRICS
        for seed in range(options.seeds)
        for number in range(1, 6)
    ]


def fold(folder: Path, number: int, graded: bool) -> tuple[Rows, Rows, Rows]:
    """Training, validation and test rows of official fold 1 … 5."""
    raw = arrays(folder / "mq2008" / "mq2008.npz")
    x, y, lists, part = (torch.from_numpy(raw[key]) for key in ("X", "y", "qid", "part"))
    rows = Rows(x, y.long() if graded else (y > 0).long(), lists=lists.long())
    order = [(number - 1 + step) % 5 + 1 for step in range(5)]
    chosen = (order[:3], order[3:4], order[4:])
    train, validation, test = (rows.take(torch.isin(part, torch.tensor(some)).nonzero().reshape(-1)) for some in chosen)
    return train, validation, test


def run(cell: Cell, options: Options) -> Result:
    objective = Objective.of(cell["metric"]).by_list()
    train, validation, test = fold(data_folder(options, "mq2008"), cell["fold"], objective.graded)
    x, y, lists = (torch.cat((getattr(train, name), getattr(validation, name))) for name in ("x", "y", "lists"))
    found = fit_ensemble(x, y, objective, lists=lists, seed=cell["seed"])
    result: Result = {COMMITTEE: objective.value(found.scores(test.x), test.y, lists=test.lists)}
    for seat in found.weighted_members:
        result[f"member: {seat.title}"] = objective.value(seat.scores(test.x), test.y, lists=test.lists)
    for name, title in RANKERS.items():
        scores, _ = rank_by(name, objective, train, validation, test.x, cell["seed"])
        result[title] = objective.value(scores, test.y, lists=test.lists)
    result[LAMBDARANK] = of_lambdarank(objective, train, validation, test, cell["seed"])
    return {
        "test": result,
        "promised": found.cross_validated,
        "shares": {seat.title: seat.share for seat in found.weighted_members},
    }


def of_lambdarank(objective: Objective, train: Rows, validation: Rows, test: Rows, seed: int) -> float:
    scores = lambdarank.scores_of(objective, train, validation, test.x, seed)
    return objective.value(scores, test.y, lists=test.lists)


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {TITLE}", "", SETTING, "", *summary_lines(results, "##")])


def summary_lines(results: list[dict[str, Any]], level: str) -> list[str]:
    lines = []
    for metric in METRICS:
        found = [entry["result"]["test"] for entry in results if entry["cell"]["metric"] == metric]
        if found:
            lines += [f"{level} {'MAP' if metric == 'ap' else 'NDCG@10'}, {len(found)} runs", "", *_table(found), ""]
    return lines


def _table(found: list[dict[str, float]]) -> list[str]:
    lines = ["| | mean | by fold | committee − this, points | median |", "|---|---|---|---|---|"]
    ours = [one[COMMITTEE] for one in found]
    for name in found[0]:
        theirs = [one[name] for one in found]
        gap = paired_difference(ours, theirs, test_share=1 / 4)
        between = f"{100 * gap.mean:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})"
        median = f"{100 * np.median(np.subtract(ours, theirs)):+.1f}"
        folds = ", ".join(f"{value:.3f}" for value in theirs)
        between, median = ("", "") if name == COMMITTEE else (between, median)
        lines.append(f"| {name} | {np.mean(theirs):.4f} | {folds} | {between} | {median} |")
    return lines


EXPERIMENT = Experiment("mq2008_committee", TITLE, "aimfor", cells, run, report, seeds=1)
