"""What the default loss of every registered metric costs, in units of cross-entropy on the same batch, and its memory.

PYTHONPATH=src python paper/benchmarks/bench_small.py [--only f1,ap] [--memory]

Binary metrics stand beside binary cross-entropy, metrics of classes beside softmax cross-entropy of the same 3 columns,
ranked lists beside binary cross-entropy of as many items. Targets are what a loader gives: int64.
"""

from __future__ import annotations

import argparse
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
from common import median_seconds, peak_extra_megabytes, record

COMMAND = "python paper/benchmarks/bench_small.py"
SIZES = {128: 8, 8_192: 15}
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
    targets = (torch.rand(n, generator=generator) < 0.1).long()
    if name.startswith("ndcg"):
        targets = targets * torch.randint(1, 5, (n,), generator=generator)
    return (torch.randn(n, generator=generator) + targets).requires_grad_(), targets


def rival(scores: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return functional.cross_entropy if scores.ndim == 2 else _binary


def _binary(scores: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype))


def step(loss_fn: Callable[[Tensor, Tensor], Tensor], scores: Tensor, targets: Tensor) -> Callable[[], None]:
    def run() -> None:
        scores.grad = None
        loss_fn(scores, targets).backward()

    return run


def cost(name: str, n: int) -> tuple[float, float]:
    """(seconds of cross-entropy, seconds of the default loss)."""
    scores, targets = data(name, n)
    functions = {"ce": step(rival(scores), scores, targets), "ours": step(aimfor.MetricLoss(name), scores, targets)}
    seconds = median_seconds(functions, 301 if n < 1_000 else 31, 20 if n < 1_000 else 3)
    return seconds["ce"], seconds["ours"]


def memory(name: str, n: int) -> float:
    setup = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import bench_small as b, aimfor; f = aimfor.MetricLoss({name!r})\n"
        f"s, y = b.data({name!r}, 64); f(s, y).backward(); s, y = b.data({name!r}, {n})"
    )
    return peak_extra_megabytes(setup, "f(s, y).backward()")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between them; nothing is recorded")
    parser.add_argument("--memory", action="store_true", help="measure memory too")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [entry.example for entry in METRICS]
    rows = []
    for name in names:
        row: dict[str, Any] = {"metric": name, "engine": aimfor.MetricLoss(name).engine.name}
        for n, limit in SIZES.items():
            entropy, ours = cost(name, n)
            row |= {f"n = {n:,}, µs": round(1e6 * ours), f"× cross-entropy (≤ {limit})": round(ours / entropy, 1)}
        if options.memory:
            row |= {f"MB at {n:,}": round(memory(name, n)) for n in LARGE}
        rows.append(row)
        print(*row.values(), sep="\t", flush=True)
    if not options.only:
        title = "The default loss of every metric, forward and backward, in units of cross-entropy on the same batch"
        record("small", title, COMMAND + " --memory", rows)


if __name__ == "__main__":
    main()
