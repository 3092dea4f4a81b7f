"""MQ2008: ranking documents inside queries, judged by NDCG@10 and mean average precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...protocol.protocol import Budget, Contender, Contest, Split
from ...protocol.recipe import run_all
from ...report.scoreboard import line_table, lines, write_report

METRICS = ["ndcg@10", "ap"]
SETTING = (
    "Multilayer perceptron (64, 32) on 46 features, the five official folds (three parts for training, one for "
    "validation, one for test), 200 AdamW steps of 32 queries, rates 0.001 and 0.01, 4 looks at validation data, then "
    "40 further steps of 128 queries (the rivals: 120). Queries without a relevant document are left out. The "
    "interval is over folds × seeds, which share training data: read it as a guide."
)


class Scorer(nn.Module):
    """One score per document; lists ``(b, l, d)`` to ``(b, l)``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(46, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x).squeeze(-1)
        return scores


def fold(folder: Path, number: int) -> tuple[Split, Split, Split]:
    """Training, validation and test queries of official fold 1 … 5, padded to the longest with grade −1."""
    raw = arrays(folder / "mq2008" / "mq2008.npz")
    x, y, qid, part = (torch.from_numpy(raw[key]) for key in ("X", "y", "qid", "part"))
    queries = [(qid == q).nonzero().squeeze(1) for q in qid.unique_consecutive()]
    queries = [rows for rows in queries if int(y[rows].max()) > 0]
    longest = max(len(rows) for rows in queries)

    def padded(parts: list[int]) -> Split:
        inside = [rows for rows in queries if int(part[rows[0]]) in parts]
        features, grades = torch.zeros(len(inside), longest, x.shape[1]), torch.full((len(inside), longest), -1)
        for place, rows in enumerate(inside):
            features[place, : len(rows)], grades[place, : len(rows)] = x[rows], y[rows]
        return Split(features, grades)

    order = [(number - 1 + step) % 5 + 1 for step in range(5)]
    return padded(order[:3]), padded(order[3:4]), padded(order[4:])


# ---------------------------------------------------------------- rivals; grades −1 are padding


def pointwise_squared(scores: Tensor, grades: Tensor, shares: Tensor) -> Tensor:
    known = grades >= 0
    return functional.mse_loss(scores[known], grades[known].float())


def pointwise_entropy(scores: Tensor, grades: Tensor, shares: Tensor) -> Tensor:
    known = grades >= 0
    return functional.binary_cross_entropy_with_logits(scores[known], (grades[known] > 0).float())


def listwise(scores: Tensor, grades: Tensor, shares: Tensor) -> Tensor:
    """ListNet: cross-entropy between the grades' shares of a list and the softmax of its scores."""
    target = grades.clamp_min(0).float()
    logs = torch.log_softmax(scores.masked_fill(grades < 0, -1e9), 1)
    return -(target / target.sum(1, keepdim=True) * logs).sum(1).mean()


def pairwise(scores: Tensor, grades: Tensor, shares: Tensor) -> Tensor:
    """RankNet: logistic loss of every pair of documents in a list whose grades differ."""
    above = (grades[:, :, None] > grades[:, None, :]) & (grades[:, None, :] >= 0)
    gaps = scores[:, :, None] - scores[:, None, :]
    return functional.softplus(-gaps)[above].mean()


RANKERS = (
    Contender("pointwise squared", pointwise_squared),
    Contender("pointwise cross-entropy", pointwise_entropy),
    Contender("listwise softmax", listwise),
    Contender("pairwise logistic", pairwise),
)


def cells(options: Options) -> list[Cell]:
    return [{"fold": number, "seed": seed} for seed in range(options.seeds) for number in range(1, 6)]


def budget(options: Options) -> Budget:
    return Budget(2000 if options.full else 200, 40, batch=32, large=128)


def run(cell: Cell, options: Options) -> Result:
    task = Contest(*fold(data_folder(options, "mq2008"), cell["fold"]), Scorer, classes=3)
    return run_all(task, METRICS, budget(options), cell["seed"], rivals=RANKERS)


def report(results: list[dict[str, Any]], folder: Path) -> None:
    together = line_table(lines(results, lambda cell: "all folds"))
    found = lines(results, lambda cell: f"fold {cell['fold']}")
    write_report(folder, EXPERIMENT.title, f"{SETTING}\n\n{together}", found)


EXPERIMENT = Experiment("mq2008", "Learning to rank: NDCG@10 and MAP", "aimfor", cells, run, report, seeds=6)
