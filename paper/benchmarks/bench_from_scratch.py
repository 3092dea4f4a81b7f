"""One line, from scratch, in a plain loop: does `MetricLoss(name)` hold against cross-entropy with a tuned threshold?

Every problem is split anew for each seed (training rows of the data set only): 60 % to train, 20 % to choose the
checkpoint and the threshold, 20 % to judge. A small multilayer perceptron, Adam at 1e-3, batches of 64 (even seeds) and
128 (odd), no schedule, no sampler. The rivals are cross-entropy and class-weighted cross-entropy, both with the
checkpoint and threshold that are best on validation data for the metric in question. Resumable: finished runs are read
from the file of raw results.

    PYTHONPATH=src python paper/benchmarks/bench_from_scratch.py DATA [--minutes 20] [--tune] [--report]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.fitting.objective import Objective
from aimfor.fitting.statistics import holm, paired_difference

sys.path.insert(0, str(Path(__file__).parent))
from common import RESULTS, record

COMMAND = "python paper/benchmarks/bench_from_scratch.py DATA"
RAW = Path(os.environ.get("AIMFOR_RAW", RESULTS.parent / "raw")) / "from_scratch.json"
PROBLEMS = ("phoneme", "satimage", "wilt", "page_blocks0", "digits", "bank", "mammography", "mnist", "cifar10")
BINARY = (
    "f1", "fbeta=2", "iou", "accuracy", "ap", "auroc",
    "precision@recall=0.8", "recall@precision=0.9", "tpr@fpr=0.1", "auprc@10",
)  # fmt: skip
CLASSES = ("auroc_ovr", "auc_mu")
STEPS, LOOKS, ROWS = 400, 10, 5000
#: Engines tried on the tuning seeds, by family of metrics.
SMOOTH = aimfor.SmoothEngine
DECISIONS = {
    "direct": aimfor.DirectEngine,
    "soft bank": lambda: SMOOTH(bank=2048),
    "anchor 0.5 bank": lambda: SMOOTH(anchor=0.5, bank=2048),
    "anchor 0.8 bank": lambda: SMOOTH(anchor=0.8, bank=2048),
    "anchor 1": lambda: SMOOTH(anchor=1.0),
    "anchor 1 bank": lambda: SMOOTH(anchor=1.0, bank=2048),
}
RANKS = {
    "direct": aimfor.DirectEngine,
    "relative 0.5": lambda: SMOOTH(0.5, relative=True),
    "relative 0.5 bank": lambda: SMOOTH(0.5, relative=True, bank=512),
    "relative 0.5 anchor 0.5": lambda: SMOOTH(0.5, relative=True, anchor=0.5),
    "anchor 0.5": lambda: SMOOTH(anchor=0.5),
    "anchor 1": lambda: SMOOTH(anchor=1.0),
    "anchor 1 bank": lambda: SMOOTH(anchor=1.0, bank=512),
}
TUNE = {"f1": DECISIONS, "ap": RANKS}
TUNED_ON = ("phoneme", "wilt", "bank", "mammography", "mnist")


def load(data: Path, name: str) -> tuple[Tensor, Tensor]:
    """Features and class ids; images as flat grey values. Training rows only."""
    if name == "digits":
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return torch.from_numpy(bunch.data).float(), torch.from_numpy(bunch.target).long()
    if name in ("mnist", "cifar10"):
        raw = np.load(data / name / "train.npz")
        x = torch.from_numpy(raw["x"][: 4 * ROWS]).float() / 255.0
        x = x[:, None] if x.ndim == 3 else x.movedim(-1, 1)
        return functional.avg_pool2d(x, 2).flatten(1), torch.from_numpy(raw["y"][: 4 * ROWS]).long()
    if name in ("bank", "mammography"):
        raw = np.load(data / {"bank": "bank_marketing"}.get(name, name) / "train.npz")
        return torch.from_numpy(raw["X"]).float(), torch.from_numpy(raw["y"]).long()
    raw = np.load(data / "imbalanced_small" / f"{name}.npz")
    keep = raw["train"]
    return torch.from_numpy(raw["X"][keep]).float(), torch.from_numpy(raw["y"][keep]).long()


def split(x: Tensor, y: Tensor, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Training, validation and judging rows, each class split alike, standardised by the first."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=generator)[:ROWS]
    order = order[y[order].argsort(stable=True)]  # class by class, so that every fifth row is a stratified fifth
    part = torch.arange(len(order)) % 5
    rows = [order[part >= 2], order[part == 0], order[part == 1]]
    mean, deviation = x[rows[0]].mean(0), x[rows[0]].std(0)
    x = ((x - mean) / torch.where(deviation > 0, deviation, 1.0)).clamp(-10, 10)
    return [(x[place], y[place]) for place in rows]


def train(
    parts: list[tuple[Tensor, Tensor]], loss_fn: nn.Module, outputs: int, batch: int, seed: int
) -> list[tuple[Tensor, Tensor]]:
    """Scores of the validation and judging rows at every look."""
    (x, y), judges = parts[0], parts[1:]
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, outputs))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(seed)
    looks, order = [], torch.zeros(0, dtype=torch.int64)
    for step in range(1, STEPS + 1):
        if len(order) < batch:
            order = torch.randperm(len(x), generator=generator)
        rows, order = order[:batch], order[batch:]
        optimizer.zero_grad()
        loss_fn(model(x[rows]).squeeze(1), y[rows]).backward()
        optimizer.step()
        if step % (STEPS // LOOKS) == 0:
            with torch.no_grad():
                looks.append(tuple(model(part[0]).squeeze(1) for part in judges))
    return looks


class Entropy(nn.Module):
    """Cross-entropy, weighted by class when given the labels."""

    def __init__(self, labels: Tensor | None, outputs: int) -> None:
        super().__init__()
        counts = torch.ones(max(2, outputs)) if labels is None else torch.bincount(labels, minlength=max(2, outputs))
        self.weights = counts.sum() / (len(counts) * counts.clamp_min(1))

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        if scores.ndim == 1:
            weights = self.weights[targets]
            return functional.binary_cross_entropy_with_logits(scores, targets.float(), weights)
        return functional.cross_entropy(scores, targets, self.weights)


def judge(name: str, looks: list[tuple[Tensor, Tensor]], parts: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """The metric on the judging rows, with checkpoint and threshold by validation; and at threshold 0, likewise."""
    objective, (_, y_val), (_, y_test) = Objective.of(name), *parts[1:]
    tuned = [objective.tuned(val, y_val) for val, _ in looks]
    best = max(range(len(looks)), key=lambda i: tuned[i][1])
    found = {"tuned": objective.value(looks[best][1], y_test, tuned[best][0])}
    if objective.needs_threshold:
        at_zero = [objective.value(val, y_val, 0.0) for val, _ in looks]
        first = max(range(len(looks)), key=lambda i: np.nan_to_num(at_zero[i]))
        found["at 0"] = objective.value(looks[first][1], y_test, 0.0)
    return found


def tasks(tune: bool) -> list[tuple[str, int, int, str, str]]:
    """(problem, seed, batch, method, engine); methods are the rivals and the metrics' names."""
    found = []
    seeds = range(100, 102) if tune else range(5)
    for seed in seeds:
        for problem in TUNED_ON if tune else PROBLEMS:
            for batch in (64, 128):
                if batch != (64, 128)[seed % 2]:
                    continue
                found += [(problem, seed, batch, rival, "") for rival in ("cross-entropy", "weighted")]
                for name in BINARY:
                    engines = TUNE.get(name, {}) if tune else {"default": None}
                    found += [(problem, seed, batch, name, engine) for engine in engines]
                if problem in ("digits", "mnist") and not tune:
                    found += [(f"{problem} 10", seed, batch, m, "") for m in ("cross-entropy", "weighted")]
                    found += [(f"{problem} 10", seed, batch, name, "default") for name in CLASSES]
    return found


def run(data: Path, problem: str, seed: int, batch: int, method: str, engine: str) -> dict[str, object]:
    many = problem.endswith(" 10")
    x, y = load(data, problem.removesuffix(" 10"))
    if not many:
        y = (y == 8).long() if problem in ("digits", "mnist") else (y == 3).long() if problem == "cifar10" else y
    mixed = zlib.crc32(f"{problem} {seed}".encode()) % 100_000
    parts = split(x, y, mixed)
    outputs, names = (10, CLASSES) if many else (1, BINARY)
    if method in ("cross-entropy", "weighted"):
        loss_fn: nn.Module = Entropy(parts[0][1] if method == "weighted" else None, outputs)
    else:
        made = TUNE[method][engine]() if engine in TUNE.get(method, {}) else None
        loss_fn, names = aimfor.MetricLoss(method, made), (method,)
    looks = train(parts, loss_fn, outputs, batch, mixed)
    return {name: judge(name, looks, parts) for name in names}


def key(task: tuple[object, ...]) -> str:
    return " | ".join(map(str, task))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--tune", action="store_true", help="the engines tried, on seeds of their own")
    parser.add_argument("--only", default="", help="only tasks whose key contains this")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    raw = RAW.with_name("from_scratch_tuning.json") if arguments.tune else RAW
    raw.parent.mkdir(exist_ok=True)
    done = json.loads(raw.read_text()) if raw.exists() else {}
    began = time.monotonic()
    for task in [] if arguments.report else tasks(arguments.tune):
        if key(task) in done or arguments.only not in key(task):
            continue
        if time.monotonic() - began > 60 * arguments.minutes:
            break
        done[key(task)] = run(arguments.data, *task)
        raw.write_text(json.dumps(done, indent=0))
    (tuning if arguments.tune else report)(done)


def gather(
    done: dict[str, dict[str, dict[str, float]]],
) -> dict[tuple[str, str, str, str], list[tuple[float, float, float]]]:
    """(metric, engine, problem, batch) to (ours − best rival, ours − cross-entropy, at 0 − tuned), a row per seed."""
    rows: dict[tuple[str, str, str, str], list[tuple[float, float, float]]] = {}
    for text, found in done.items():
        problem, seed, batch, method, engine = text.split(" | ")
        if method in ("cross-entropy", "weighted"):
            continue
        rivals = [done.get(key((problem, seed, batch, rival, ""))) for rival in ("cross-entropy", "weighted")]
        if None in rivals:
            continue
        ours, theirs = found[method], [rival[method]["tuned"] for rival in rivals]
        gap = ours.get("at 0", ours["tuned"]) - ours["tuned"]
        rows.setdefault((method, engine, problem, batch), []).append(
            (ours["tuned"] - theirs[0], ours["tuned"] - theirs[1], gap)
        )
    return rows


def tuning(done: dict[str, dict[str, dict[str, float]]]) -> None:
    for (method, engine), rows in sorted(_by_engine(gather(done)).items()):
        table = 100 * np.asarray(rows)
        entropy, weighted, zero = table.T
        print(
            f"{method:9} {engine:24} n {len(rows):3}  − cross-entropy {np.median(entropy):+.2f} (mean {entropy.mean():+.2f}, "
            f"worst {entropy.min():+.1f})  − weighted {np.median(weighted):+.2f}  "
            f"at 0 {np.median(zero):+.2f} (worst {zero.min():+.1f})"
        )


def _by_engine(
    rows: dict[tuple[str, str, str, str], list[tuple[float, float, float]]],
) -> dict[tuple[str, str], list[tuple[float, float, float]]]:
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for (method, engine, *_), values in rows.items():
        found.setdefault((method, engine), []).extend(values)
    return found


def report(done: dict[str, dict[str, dict[str, float]]]) -> None:
    cells = gather(done)
    tests = []
    for cell, rows in cells.items():
        for place, rival in enumerate(("cross-entropy", "weighted")):
            if len(rows) >= 3:
                found = paired_difference([row[place] for row in rows], [0.0] * len(rows), test_share=1 / 3)
                tests.append((cell, rival, found))
    adjusted = holm([found.p for *_, found in tests])
    worse = {
        (cell, rival) for (cell, rival, found), p in zip(tests, adjusted, strict=True) if p < 0.05 and found.mean < 0
    }
    better = {
        (cell, rival) for (cell, rival, found), p in zip(tests, adjusted, strict=True) if p < 0.05 and found.mean > 0
    }
    table = []
    for name in (*BINARY, *CLASSES):
        mine = {cell: np.asarray(rows) for cell, rows in cells.items() if cell[0] == name}
        if not mine:
            continue
        means = np.stack([100 * rows.mean(0) for rows in mine.values()])
        counts = name in ("f1", "fbeta=2", "iou", "accuracy")
        table.append(
            {
                "metric": name,
                "cells": len(mine),
                "median − cross-entropy": f"{np.median(means[:, 0]):+.2f}",
                "range": f"{means[:, 0].min():+.1f} to {means[:, 0].max():+.1f}",
                "median − weighted": f"{np.median(means[:, 1]):+.2f}",
                "range ": f"{means[:, 1].min():+.1f} to {means[:, 1].max():+.1f}",
                "worse / better after Holm": " / ".join(
                    str(sum(cell[0] == name for cell, _ in found)) for found in (worse, better)
                ),
                "threshold 0 − tuned": f"{np.median(means[:, 2]):+.2f}, worst {means[:, 2].min():+.1f}"
                if counts
                else "",
            }
        )
    title = "From scratch in a plain loop: MetricLoss(name) against cross-entropy with a tuned threshold, points"
    record("from_scratch", title, COMMAND, table)
    print("worse after Holm:", sorted(f"{key(cell)} than {rival}" for cell, rival in worse))


if __name__ == "__main__":
    main()
