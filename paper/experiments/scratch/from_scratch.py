"""From scratch, in a plain loop: does `MetricLoss(name)` hold against cross-entropy with a tuned threshold?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import aimfor
from aimfor.engine import Engine

from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from ...report.scratch_board import RIVALS, SETTING, TITLE, summary_lines
from .judging import judge, names_for
from .loop import Entropy, train
from .problems import PROBLEMS, load

BATCHES = (64, 128)


def cells(options: Options, first: int = 0) -> list[Cell]:
    """Every problem with both batch sizes in turn, from seed to seed."""
    return [
        {"problem": problem, "batch": BATCHES[(seed + place) % 2], "seed": seed}
        for seed in range(first, first + options.seeds)
        for place, problem in enumerate(PROBLEMS)
    ]


def run(cell: Cell, options: Options) -> Result:
    return compare(cell, options, {name: {"default": None} for name in names_for(cell["problem"])})


def compare(cell: Cell, options: Options, engines: Mapping[str, Mapping[str, Engine | None]]) -> Result:
    """Both rivals judged by every metric, and each metric's own losses, one for each engine (None: its default)."""
    torch.set_num_threads(1)
    problem = load(data_folder(options), cell["problem"], cell["seed"])
    ours = [(name, label, engine) for name, some in engines.items() for label, engine in some.items()]
    losses: list[nn.Module] = [Entropy(problem, rival == "weighted") for rival in RIVALS]
    losses += [aimfor.MetricLoss(name, engine) for name, _, engine in ours]
    looks = train(problem, losses, cell["batch"])
    result: Result = {name: {} for name in engines}
    for rival, seen in zip(RIVALS, looks, strict=False):
        for name in engines:
            result[name][rival] = judge(name, seen, problem)
    for (name, label, _), seen in zip(ours, looks[len(RIVALS) :], strict=True):
        result[name][label] = judge(name, seen, problem)
    return result


def report(results: Sequence[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {TITLE}", "", SETTING, "", *summary_lines(results)])


EXPERIMENT = Experiment("from_scratch", TITLE, "aimfor", cells, run, report, seeds=5)
