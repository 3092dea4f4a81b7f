"""Does a larger batch pay? The metric against the size of the batch whose loss is taken at once, up to 16,384 rows.

What was fixed before any cell was run:

- Every way has the same number of forward passes. A batch of more than 256 rows is scored in parts (`aimfor.in_parts`),
  and their second pass counts: it makes half as many rows, besides fewer steps.
- Adam with a rate that falls to 0 in a line. The rate is chosen among four for each problem and way, by the metric on
  validation rows, with a seed that is not one of the five.
- AP and TPR at a false positive rate of 0.001: covertype (1 % positive) and the digit 8 of MNIST at 0.2 % and 5 %.
  NDCG: one list of digits with 0.5 % of 8s (grade 2) and 0.5 % of 3s (grade 1). MAP@R: unseen alphabets of Omniglot.
- Beside it, at 256 rows: cross-entropy; the metric's loss among the last scores (a bank of 4,096; of 512 embeddings);
  and the same bank filled by a moving average of the network (momentum 0.99).
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.errors import DegenerateBatchWarning
from aimfor.learners.networks.sampler import PerClassBatchSampler

from ...data.tables import arrays, standardised_parts, stratified
from ...experiment import Cell, Experiment, Options, Result, data_folder
from ...report.batch_size_board import batch_size_report
from .retrieval import Encoder
from .retrieval import parts as alphabets

#: Problem → (metric, data, share of positives in training, None as it is).
PROBLEMS: dict[str, tuple[str, str, float | None]] = {
    "AP, covertype 1 %": ("ap", "covertype_4v2", None),
    "AP, MNIST 0.2 %": ("ap", "mnist", 0.002),
    "AP, MNIST 5 %": ("ap", "mnist", 0.05),
    "TPR at FPR 0.001, covertype 1 %": ("tpr@fpr=0.001", "covertype_4v2", None),
    "TPR at FPR 0.001, MNIST 0.2 %": ("tpr@fpr=0.001", "mnist", 0.002),
    "TPR at FPR 0.001, MNIST 5 %": ("tpr@fpr=0.001", "mnist", 0.05),
    "NDCG, MNIST 1 %": ("ndcg", "mnist", 0.005),
    "MAP@R, Omniglot": ("map@r", "omniglot", None),
}
SIZES = (64, 256, 1024, 4096, 16384)
#: Rows that are taken to fit into memory, and the batch of the ways beside it.
FITS = 256
BESIDE = ("cross-entropy", "bank", "momentum bank")
#: For batches that fit, and for those in parts, which take fewer steps.
RATES = (3e-4, 1e-3, 3e-3, 1e-2), (3e-3, 1e-2, 3e-2, 1e-1)
#: Forward passes of rows, by data; Omniglot has 1,600 drawings.
PASSES = {"covertype_4v2": 2**18, "mnist": 2**18, "omniglot": 2**15}
BANK = {"covertype_4v2": 4096, "mnist": 4096, "omniglot": 512}
MOMENTUM, TUNING_SEED, THINNINGS = 0.99, 100, 20


@dataclass(frozen=True)
class Rows:
    """Rows of one part; ``keep`` is the share of each class that a judged list has, 1 for all."""

    x: Tensor
    y: Tensor
    keep: float = 1.0


def ways(problem: str) -> list[str]:
    """Sizes of the batch, and what stands beside them where it exists."""
    metric, data, _ = PROBLEMS[problem]
    sizes = [f"batch {size}" for size in SIZES if data != "omniglot" or size <= 1024]
    absent = {"tpr@fpr=0.001": BESIDE[1:], "map@r": BESIDE[:1]}.get(metric, ())  # multipliers remember by themselves
    return sizes + [way for way in BESIDE if way not in absent]


def cells(options: Options) -> list[Cell]:
    return [
        {"problem": problem, "way": way, "seed": seed}
        for seed in range(options.seeds)
        for problem in PROBLEMS
        for way in ways(problem)
    ]


@functools.lru_cache(maxsize=2)
def parts(folder: Path, problem: str, seed: int) -> tuple[Rows, Rows, Rows]:
    """Training, validation and test rows; MNIST's positives are thinned in training, and in the lists that judge."""
    metric, data, share = PROBLEMS[problem]
    if data == "omniglot":
        found = alphabets(folder, data, seed % 5)
        return Rows(*found[0]), Rows(*found[1]), Rows(*found[2])
    both = [arrays(folder / data / f"{split}.npz") for split in ("train", "test")]
    key = "X" if "X" in both[0] else "x"
    x, y = (torch.cat([torch.from_numpy(raw[name]) for raw in both]) for name in (key, "y"))
    known = len(both[0]["y"])
    if data == "mnist":
        x = functional.avg_pool2d(x[:, None].float() / 255.0, 2)
        y = 2 * (y == 8).long() + (y == 3).long() if metric == "ndcg" else (y == 8).long()
    fit, judge = stratified(y[:known], 0.25, seed)
    natural = float((y[:known] > 0).float().mean()) / (2 if metric == "ndcg" else 1)
    keep = 1.0 if share is None else share / natural
    generator = torch.Generator().manual_seed(seed)
    fit = fit[_thinned(y[fit], keep, generator)]
    split = standardised_parts(x.reshape(len(x), -1).float(), y, fit, judge, torch.arange(known, len(y)))
    learn, validate, test = split
    return Rows(learn.x, learn.y), Rows(validate.x, validate.y, keep), Rows(test.x, test.y, keep)


def _thinned(y: Tensor, keep: float, generator: torch.Generator) -> Tensor:
    """Positions with that share of each class but 0."""
    return ((y == 0) | (torch.rand(len(y), generator=generator) < keep)).nonzero().squeeze(1)


def judged(metric: str, model: nn.Module, rows: Rows) -> float:
    """The exact metric; over several draws of the positives where the part has more of them than training."""
    with torch.no_grad():
        scores = model.eval()(rows.x)
    model.train()
    if metric == "map@r":
        return float(aimfor.RetrievalLoss(metric).value(scores, rows.y))
    exact, generator = aimfor.metric_from_name(metric), torch.Generator().manual_seed(0)
    draws = [_thinned(rows.y, rows.keep, generator) for _ in range(THINNINGS if rows.keep < 1 else 1)]
    return float(torch.stack([exact.value(scores[draw, 0], rows.y[draw]) for draw in draws]).mean())


def batches(metric: str, y: Tensor, size: int, seed: int) -> Iterator[Tensor]:
    """Shuffled rows without end; for retrieval, four and more drawings of each of up to 64 characters."""
    if metric == "map@r":
        classes = min(64, size // 4)
        while True:
            yield from map(torch.tensor, PerClassBatchSampler(y, classes, size // classes, seed=seed))
            seed += 1000
    generator = torch.Generator().manual_seed(seed)
    while True:
        for rows in torch.randperm(len(y), generator=generator).split(size):
            if len(rows) == min(size, len(y)):
                yield rows


class Recent:
    """The last scores and labels, of the network as it was then, or of a moving average of it."""

    def __init__(self, model: nn.Module, size: int, momentum: bool) -> None:
        self.size, self.average = size, copy.deepcopy(model) if momentum else None
        self.kept: list[tuple[Tensor, Tensor]] = []

    def joined(self, model: nn.Module, x: Tensor, scores: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The batch with what came before it; then the batch is remembered too."""
        found = _joined([(scores, y), *self.kept])
        fresh = scores.detach()
        if self.average is not None:
            with torch.no_grad():
                for old, new in zip(self.average.parameters(), model.parameters(), strict=True):
                    old.lerp_(new, 1 - MOMENTUM)
                fresh = self.average(x)
        self.kept = [(fresh, y), *self.kept][: self.size // len(y)]
        return found


def _joined(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    scores, labels = zip(*pairs, strict=True)
    return torch.cat(scores), torch.cat(labels)


def train(problem: str, way: str, rate: float, seed: int, rows: Rows) -> nn.Module:
    """The network after as many forward passes as every way has."""
    metric, data, _ = PROBLEMS[problem]
    torch.manual_seed(seed)
    if metric == "map@r":
        model: nn.Module = Encoder(rows.x.shape[1], rows.x.shape[2])
        loss_fn: Any = aimfor.RetrievalLoss(metric)
    else:
        model = nn.Sequential(nn.Linear(rows.x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        loss_fn = aimfor.MetricLoss(metric) if way != BESIDE[0] else _entropy
    size = size_of(way)
    steps = PASSES[data] // (size if size <= FITS else 2 * size)
    recent = Recent(model, BANK[data], way == BESIDE[2]) if way in BESIDE[1:] else None
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for batch in itertools.islice(batches(metric, rows.y, size, seed), steps):
        optimizer.zero_grad()
        scores, y = aimfor.in_parts(model, rows.x[batch], rows=FITS), rows.y[batch]
        if recent is not None:
            scores, y = recent.joined(model, rows.x[batch], scores, y)
        loss_fn(scores if metric == "map@r" else scores.squeeze(1), y).backward()
        optimizer.step()
        schedule.step()
    return model


def size_of(way: str) -> int:
    return FITS if way in BESIDE else int(way.removeprefix("batch "))


def _entropy(scores: Tensor, y: Tensor) -> Tensor:
    """For grades, of the highest possible grade's share."""
    return functional.binary_cross_entropy_with_logits(scores, y.to(scores) / max(1, int(y.max())))


@functools.cache
def chosen_rate(folder: Path, problem: str, way: str) -> tuple[float, tuple[float, ...]]:
    """The best rate on validation rows, with a seed that judges nothing, and what each rate reached there."""
    fit, judge, _ = parts(folder, problem, TUNING_SEED)
    metric = PROBLEMS[problem][0]
    rates = RATES[size_of(way) > FITS]
    reached = [judged(metric, train(problem, way, rate, TUNING_SEED, fit), judge) for rate in rates]
    best = max(range(len(rates)), key=lambda place: reached[place] if math.isfinite(reached[place]) else -1.0)
    return rates[best], tuple(reached)


def run(cell: Cell, options: Options) -> Result:
    problem, way, seed = cell["problem"], cell["way"], cell["seed"]
    metric, data, _ = PROBLEMS[problem]
    folder = data_folder(options, data)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateBatchWarning)  # ordinary in batches of 64 with 0.2 % positives
        rate, reached = chosen_rate(folder, problem, way)
        fit, _, test = parts(folder, problem, seed)
        value = judged(metric, train(problem, way, rate, seed, fit), test)
    return {"value": value, "rate": rate, "rates": reached, "positives": int((fit.y > 0).sum()), "rows": len(fit.y)}


def report(results: list[dict[str, Any]], folder: Path) -> None:
    batch_size_report(results, folder, SIZES, FITS)


EXPERIMENT = Experiment(
    "batch_size", "does a larger batch pay? the metric against the size of the batch", "aimfor", cells, run, report
)
