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
STEPS, LOOKS, ROWS, HIDDEN = 1000, 10, 5000, 64
#: Engines tried on the tuning seeds, by family of metrics.
SMOOTH = aimfor.SmoothEngine
DECISIONS = {
    "direct": aimfor.DirectEngine,
    "soft bank": lambda: SMOOTH(bank=2048),
    "anchor 0.5 bank": lambda: SMOOTH(anchor=0.5, bank=2048),
    "anchor 1 bank": lambda: SMOOTH(anchor=1.0, bank=2048),
}
RANKS = {
    "direct": aimfor.DirectEngine,
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
        return functional.avg_pool2d(x, 4 if name == "cifar10" else 2).flatten(1), torch.from_numpy(
            raw["y"][: 4 * ROWS]
        ).long()
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


class Perceptrons(nn.Module):
    """Many small perceptrons side by side, each with a start and with data of its own: one step for all of them.

    Their parameters are stacked, and Adam works entry by entry, so that each learns exactly as it would alone.
    """

    def __init__(self, inputs: int, outputs: int, seeds: list[int]) -> None:
        super().__init__()
        alone = []
        for seed in seeds:
            torch.manual_seed(seed)
            alone.append((nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, outputs)))
        self.first, self.second = (
            nn.Parameter(torch.stack([pair[i].weight.detach().t() for pair in alone])) for i in range(2)
        )
        self.biases = nn.ParameterList(torch.stack([pair[i].bias.detach()[None] for pair in alone]) for i in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """``(models, n, inputs)`` to ``(models, n, outputs)``."""
        hidden = torch.baddbmm(self.biases[0], x, self.first).relu()
        return torch.baddbmm(self.biases[1], hidden, self.second)


def train(
    parts: dict[int, list[tuple[Tensor, Tensor]]], losses: list[tuple[int, nn.Module]], outputs: int, batch: int
) -> list[list[tuple[Tensor, Tensor]]]:
    """For each (seed, loss), the scores of the validation and judging rows at every look."""
    seeds = list(parts)
    place = torch.tensor([seeds.index(seed) for seed, _ in losses])
    x = torch.stack([parts[seed][0][0] for seed in seeds])
    y = torch.stack([parts[seed][0][1] for seed in seeds])
    model = Perceptrons(x.shape[2], outputs, [seed for seed, _ in losses])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    looks: list[list[tuple[Tensor, Tensor]]] = [[] for _ in losses]
    order = torch.zeros(len(seeds), 0, dtype=torch.int64)
    for step in range(1, STEPS + 1):
        if order.shape[1] < batch:
            order = torch.stack([torch.randperm(x.shape[1], generator=one) for one in generators])
        rows, order = order[:, :batch], order[:, batch:]
        inputs, labels = x.gather(1, rows[..., None].expand(-1, -1, x.shape[2])), y.gather(1, rows)
        optimizer.zero_grad()
        scores = model(inputs[place]).squeeze(2)
        total = [loss(one, labels[at]) for one, at, (_, loss) in zip(scores.unbind(0), place, losses, strict=True)]
        torch.stack(total).sum().backward()
        optimizer.step()
        if step % (STEPS // LOOKS) == 0:
            with torch.no_grad():
                judged = [model(torch.stack([parts[s][i][0] for s in seeds])[place]).squeeze(2) for i in (1, 2)]
            for number, pair in enumerate(zip(*judged, strict=True)):
                looks[number].append(pair)
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


def groups(tune: bool) -> list[tuple[str, int, list[int]]]:
    """(problem, batch, seeds) that are trained side by side."""
    problems = TUNED_ON if tune else (*PROBLEMS, "digits 10", "mnist 10")
    if tune:
        return [(problem, (64, 128)[i % 2], [100]) for i, problem in enumerate(problems)]
    return [(problem, *both) for problem in problems for both in ((64, [0, 2, 4]), (128, [1, 3]))]


def methods(problem: str, tune: bool) -> list[tuple[str, str]]:
    """The rivals and the metrics, each with the name of its engine."""
    rivals = [("cross-entropy", ""), ("weighted", "")]
    if tune:
        return rivals + [(name, engine) for name, engines in TUNE.items() for engine in engines]
    return rivals + [(name, "default") for name in (CLASSES if problem.endswith(" 10") else BINARY)]


def run(data: Path, problem: str, batch: int, seeds: list[int], tune: bool) -> dict[str, dict[str, dict[str, float]]]:
    many = problem.endswith(" 10")
    x, y = load(data, problem.removesuffix(" 10"))
    if not many:
        y = (y == 8).long() if problem in ("digits", "mnist") else (y == 3).long() if problem == "cifar10" else y
    mixed = {seed: zlib.crc32(f"{problem} {seed}".encode()) % 100_000 for seed in seeds}
    parts = {mixed[seed]: split(x, y, mixed[seed]) for seed in seeds}
    outputs = 10 if many else 1
    planned, losses = [], []
    for seed in seeds:
        for method, engine in methods(problem, tune):
            if method in ("cross-entropy", "weighted"):
                labels = parts[mixed[seed]][0][1] if method == "weighted" else None
                loss_fn: nn.Module = Entropy(labels, outputs)
            else:
                loss_fn = aimfor.MetricLoss(method, TUNE[method][engine]() if tune else None)
            planned.append((seed, method, engine))
            losses.append((mixed[seed], loss_fn))
    found = {}
    for (seed, method, engine), looks in zip(planned, train(parts, losses, outputs, batch), strict=True):
        names = (CLASSES if many else BINARY) if method in ("cross-entropy", "weighted") else (method,)
        found[key((problem, seed, batch, method, engine))] = {
            name: judge(name, looks, parts[mixed[seed]]) for name in names
        }
    return found


def key(task: tuple[object, ...]) -> str:
    return " | ".join(map(str, task))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--tune", action="store_true", help="the engines tried, on seeds of their own")
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    raw = RAW.with_name("from_scratch_tuning.json") if arguments.tune else RAW
    raw.parent.mkdir(exist_ok=True)
    done = json.loads(raw.read_text()) if raw.exists() else {}
    began = time.monotonic()
    for problem, batch, seeds in [] if arguments.report else groups(arguments.tune):
        wanted = [key((problem, seed, batch, *method)) for seed in seeds for method in methods(problem, arguments.tune)]
        if all(one in done for one in wanted) or arguments.only not in problem:
            continue
        if time.monotonic() - began > 60 * arguments.minutes:
            break
        done |= run(arguments.data, problem, batch, seeds, arguments.tune)
        raw.write_text(json.dumps(done, indent=0))
        print(f"{problem}, batches of {batch}: {time.monotonic() - began:.0f} s", flush=True)
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
            f"{method:9} {engine:24} n {len(rows):3}  − cross-entropy {np.median(entropy):+.2f} "
            f"(mean {entropy.mean():+.2f}, worst {entropy.min():+.1f})  − weighted {np.median(weighted):+.2f}  "
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
    cells = {cell: rows for cell, rows in gather(done).items() if cell[1] == "default"}
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
                "runs": sum(len(rows) for rows in mine.values()),
                "median − cross-entropy": f"{np.median(means[:, 0]):+.2f}",
                "range": f"{means[:, 0].min():+.1f} to {means[:, 0].max():+.1f}",
                "median − weighted": f"{np.median(means[:, 1]):+.2f}",
                "range ": f"{means[:, 1].min():+.1f} to {means[:, 1].max():+.1f}",
                "worse / better after Holm": " / ".join(
                    str(sum(cell[0] == name for cell, _ in found)) for found in (worse, better)
                )
                if any(cell[0] == name for cell, *_ in tests)
                else "too few runs a cell",
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
