"""AUROC on the sorted engine against torch.sort, cross-entropy and a naive all-pairs loss.

python benchmarks/bench_sorted.py
"""

from __future__ import annotations

import torch
from common import median_seconds, peak_extra_megabytes, record
from torch import nn

import aimfor

SETUP = """
import aimfor
torch.manual_seed(0)
scores = torch.randn(1_000_000, requires_grad=True)
targets = (torch.rand(1_000_000) < 0.1).long()
loss_fn = aimfor.MetricLoss('auroc')
small = torch.randn(1000, requires_grad=True); loss_fn(small, targets[:1000]).backward()
"""


def batch(n: int, positives: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    scores = torch.randn(n, generator=generator).requires_grad_()
    return scores, (torch.rand(n, generator=generator) < positives).float()


def step(loss_fn: nn.Module, scores: torch.Tensor, targets: torch.Tensor) -> None:
    scores.grad = None
    loss_fn(scores, targets).backward()


def all_pairs(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    gap = scores[targets > 0][:, None] - scores[targets == 0][None]
    return (1 - gap).relu().square().mean()


def main() -> None:
    rows = []
    for n, repeats in ((128, 301), (8192, 51), (1_000_000, 7)):
        scores, targets = batch(n)
        loss_fn, bce = aimfor.MetricLoss("auroc"), nn.BCEWithLogitsLoss()
        functions = {
            "auroc": lambda s=scores, t=targets, f=loss_fn: step(f, s, t),
            "bce": lambda s=scores, t=targets, f=bce: step(f, s, t),
            "sort": lambda s=scores: torch.sort(s.detach()),
        }
        if n <= 8192:
            functions["pairs"] = lambda s=scores, t=targets: step(all_pairs, s, t)
        seconds = median_seconds(functions, repeats=repeats)
        rows.append(
            {
                "n": f"{n:,}",
                "forward + backward, ms": f"{1e3 * seconds['auroc']:.3f}",
                "× cross-entropy": f"{seconds['auroc'] / seconds['bce']:.1f}",
                "× torch.sort": f"{seconds['auroc'] / seconds['sort']:.2f}",
                "all pairs in memory ×": f"{seconds['pairs'] / seconds['auroc']:.1f}" if "pairs" in seconds else "",
                "extra MB": f"{peak_extra_megabytes(SETUP, 'loss_fn(scores, targets).backward()'):.0f}"
                if n > 1e5
                else "",
                "target": {128: "≤ 6 × cross-entropy", 8192: "≤ 20 × cross-entropy"}.get(n, "≤ 3 × sort, ≤ 400 MB"),
            }
        )
    record("sorted", "AUROC, 10 % positives, float32 (SortedEngine)", "python benchmarks/bench_sorted.py", rows)


if __name__ == "__main__":
    main()
