"""What the default loss of every registered metric costs, in units of cross-entropy on the same batch, and its memory.

python paper/benchmarks/bench_small.py [--only f1,ap] [--memory]

Each number is the median of five repeats, with their standard deviation; where cross-entropy itself moved by more than
a fifth between them all five are measured again. Long batches are in units of one `torch.sort` of the same tensor.
Binary metrics stand beside binary cross-entropy, metrics of classes beside softmax cross-entropy of the same 3 columns,
ranked lists beside binary cross-entropy of as many items. Targets are what a loader gives: int64.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import aimfor
from aimfor.metrics import METRICS

sys.path.insert(0, str(Path(__file__).parent))
from common import median_seconds, record

COMMAND = "python paper/benchmarks/bench_small.py"
#: n → what is wanted of the ratio, and rounds and warm-up of a repeat.
SIZES = {128: ("≤ 8", 41, 20), 1_024: ("≤ at 128", 21, 10), 8_192: ("≤ 15", 5, 3)}
LONG = {100_000: (1, 1), 1_000_000: (1, 0)}
REPEATS, MOVED = 5, 1.2
#: Sizes at which memory is measured: an O(n) loss needs four times as much at the second.
LARGE = (250_000, 1_000_000)
CLASSES = 3


def data(name: str, n: int) -> tuple[Tensor, Tensor]:
    """n scored examples as the metric takes them: 10 % positives, 3 classes, grades 0 to 4, or embeddings' lists."""
    generator = torch.Generator().manual_seed(0)
    layout = aimfor.MetricLoss(name).metric.layout
    if layout == "multiclass":
        targets = torch.randint(CLASSES, (n,), generator=generator)
        scores = torch.randn(n, CLASSES, generator=generator) + functional.one_hot(targets, CLASSES)
        return scores.requires_grad_(), targets
    if layout == "multilabel":
        several = (torch.rand(n, CLASSES, generator=generator) < 0.1).long()
        return (torch.randn(n, CLASSES, generator=generator) + several).requires_grad_(), several
    targets = (torch.rand(n, generator=generator) < 0.1).long()
    if name.startswith("ndcg"):
        targets = targets * torch.randint(1, 5, (n,), generator=generator)
    return (torch.randn(n, generator=generator) + targets).requires_grad_(), targets


def rival(scores: Tensor, targets: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return functional.cross_entropy if scores.shape != targets.shape else _binary


def _binary(scores: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype))


def step(loss_fn: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor) -> Callable[[], None]:
    def run() -> None:
        scores.grad = None
        loss_fn(scores, targets).backward()

    return run


def steady(functions: dict[str, Callable[[], Any]], rounds: int, warmup: int) -> tuple[dict[str, float], float]:
    """Median seconds of the repeats, and the deviation of the ratio of the first two functions."""
    for _ in range(4):
        repeats = [median_seconds(functions, rounds, warmup) for _ in range(REPEATS)]
        base, ours = ([found[name] for found in repeats] for name in list(functions)[:2])
        if max(base) <= MOVED * min(base):
            break
    ratios = [mine / plain for mine, plain in zip(ours, base, strict=True)]
    seconds = {name: statistics.median(found[name] for found in repeats) for name in functions}
    return seconds | {"ratio": statistics.median(ratios)}, statistics.stdev(ratios)


def cost(name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"metric": name, "engine": aimfor.MetricLoss(name).engine.name}
    for n, (wanted, *rounds) in SIZES.items():
        scores, targets = data(name, n)
        functions = {"entropy": step(rival(scores, targets), scores, targets)}
        seconds, off = steady(functions | {"ours": step(aimfor.MetricLoss(name), scores, targets)}, *rounds)
        row |= {f"n = {n:,}, µs": round(1e6 * seconds["ours"])}
        row |= {f"× cross-entropy ({wanted})": round(seconds["ratio"], 1), f"± at {n:,}": round(off, 1)}
    for n, rounds in LONG.items():
        scores, targets = data(name, n)
        plain = scores.detach()
        functions = {"sort": lambda plain=plain: plain.sort(0), "ours": step(aimfor.MetricLoss(name), scores, targets)}
        row[f"{n:,}, in sorts (≤ 3)"] = round(steady(functions, *rounds)[0]["ratio"], 2)
    return row


def memory(name: str, n: int) -> float:
    """Peak megabytes that one step adds, in this process: what the allocator keeps is given back first (Linux)."""
    loss_fn, (scores, targets) = aimfor.MetricLoss(name), data(name, n)
    loss_fn(*data(name, 64)).backward()
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _kilobytes("VmRSS")
    loss_fn(scores, targets).backward()
    return (_kilobytes("VmHWM") - before) / 1024


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between them; nothing is recorded")
    parser.add_argument("--memory", action="store_true", help="measure memory too")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [entry.example for entry in METRICS]
    rows = []
    for name in names:
        row = cost(name)
        if options.memory:
            row |= {f"MB at {n:,}": round(memory(name, n)) for n in LARGE}
        rows.append(row)
        print(*row.values(), sep="\t", flush=True)
    if not options.only:
        title = "The default loss of every metric, forward and backward, in units of cross-entropy on the same batch"
        record("small", title, COMMAND + " --memory" * options.memory, rows)


if __name__ == "__main__":
    main()
