"""Retrieval of unseen classes on frozen features: what the metric's choice of an embedding brings.

Omniglot (its five alphabets; one is never seen) and 5,000 pictures of CIFAR-100 (20 of 100 classes are never seen),
scaled to 96 pixels, features of EfficientNet-Lite0. Every way of `fit_embedding` is judged on the unseen classes after
training on all the others for the number of steps that folds of the others prefer, and so is the one that the folds
choose: what `aimfor train --metric map@r --model efficientnet-lite0` does.
"""

from __future__ import annotations

import functools
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aimfor.learners.embedding import TITLES, Examples, fit_embedding
from aimfor.learners.ensemble import MemoryStore
from aimfor.retrieval import evaluate
from aimfor.runs.compare.verdicts import paired_difference

from ...data.frozen import evenly, features
from ...data.tables import arrays
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.pages import write_table
from ...report.scoreboard import markdown

SETS, SPLITS, SIDE, MOST = ("omniglot", "cifar100"), 5, 96, 5000
TEXT = """### Neighbours by pretrained features (`retrieval_features`)

MAP@R on classes never seen in training: up to five splits of Omniglot (by alphabet) and of CIFAR-100 (20 of 100
classes unseen), frozen features of EfficientNet-Lite0. Each way of making an embedding, and the one that folds of the
training classes choose by MAP@R, as `aimfor train --metric map@r` does. Differences: chosen minus the way, paired by
split, with 95 % intervals.
"""


@functools.cache
def data(folder: Path, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Features, class ids, and the hand of each picture: the split in which its class is unseen."""
    raw = arrays(folder / name / "train.npz")
    rows = evenly(np.asarray(raw["y"]), MOST)
    y = torch.from_numpy(np.asarray(raw["y"])[rows]).long()
    x = features(np.ascontiguousarray(np.asarray(raw["x"])[rows]), SIDE)
    if name == "omniglot":
        return x, y, torch.from_numpy(np.unique(np.asarray(raw["alphabet"])[rows], return_inverse=True)[1])
    return x, y, torch.from_numpy(np.random.default_rng(0).permutation(100) % SPLITS)[y]


def cells(options: Options) -> list[Cell]:
    return [{"set": name, "split": split} for name in SETS for split in range(SPLITS)]


def run(cell: Cell, options: Options) -> Result:
    x, y, hand = data(data_folder(options, cell["set"]), cell["set"])
    learn, judge = (rows.nonzero().reshape(-1) for rows in (hand != cell["split"], hand == cell["split"]))
    known = Examples(x[learn], y[learn].unique(return_inverse=True)[1])
    store = MemoryStore()
    chosen = fit_embedding(known, "map@r", seed=cell["split"], store=store)
    result: Result = {"chosen": chosen.way, "by_folds": chosen.values, "steps": chosen.steps}
    result["test"] = {"chosen": _value(chosen.vectors(x[judge]), y[judge])}
    for way in TITLES:
        fit = fit_embedding(known, "map@r", seed=cell["split"], store=store, ways=(way,))
        result["test"][way] = _value(fit.vectors(x[judge]), y[judge])
    return result


def _value(vectors: Tensor, y: Tensor) -> dict[str, float]:
    found = evaluate(vectors, y, k=[1, 10])
    return {name: found[name] for name in ("map@r", "recall@1", "recall@10")}


def retrieval_lines(results: list[dict[str, Any]]) -> list[str]:
    """One table a set."""
    text: list[str] = []
    for name in dict.fromkeys(entry["cell"]["set"] for entry in results):
        found = [entry["result"] for entry in results if entry["cell"]["set"] == name]
        ours = [one["test"]["chosen"]["map@r"] for one in found]
        rows = []
        for way in ("chosen", *TITLES):
            each = [one["test"][way] for one in found]
            means = [f"{statistics.mean(one[key] for one in each):.4f}" for key in ("map@r", "recall@1", "recall@10")]
            taken = "" if way == "chosen" else str(sum(one["chosen"] == way for one in found))
            rows.append((TITLES.get(way, "**chosen by folds**"), *means, _gap(way, ours, each), taken))
        head = ("embedding", "MAP@R", "recall@1", "recall@10", "chosen above it [95 %]", "chosen in")
        text += [f"**{name}**, {len(found)} splits", "", markdown(head, rows), ""]
    return text or ["Not measured yet: `python -m paper retrieval_features`."]


def _gap(way: str, ours: list[float], each: list[dict[str, float]]) -> str:
    if way == "chosen" or len(ours) < 2:
        return ""
    found = paired_difference(ours, [one["map@r"] for one in each], test_share=1 / SPLITS)
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def report(results: list[dict[str, Any]], folder: Path) -> None:
    write_table(folder, [f"# {EXPERIMENT.title}", "", *retrieval_lines(results)])


EXPERIMENT = Experiment(
    "retrieval_features", "Retrieval of unseen classes on frozen features", "aimfor", cells, run, report, seeds=1
)
