"""AUROC on the sorted engine against torch.sort, cross-entropy and a naive all-pairs loss.

python paper/benchmarks/bench_sorted.py
"""

from __future__ import annotations

from collections.abc import Callable

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


def ratio(seconds: dict[str, float], rival: str) -> str:
    """How many times longer the rival takes than we do."""
    return f"{seconds[rival] / seconds['auroc']:.1f}" if rival in seconds else ""


def all_pairs(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    gap = scores[targets > 0][:, None] - scores[targets == 0][None]
    return (1 - gap).relu().square().mean()


def peers() -> dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    """LibAUC's losses where that package is installed (pip install --no-deps libauc==2.0.1)."""
    try:
        from libauc.losses import AUCMLoss, PairwiseAUCLoss
    except ImportError:
        return {}
    aucm, pairwise = AUCMLoss(), PairwiseAUCLoss()
    return {
        "LibAUC AUCM": lambda s, t: aucm(s.sigmoid(), t),
        "LibAUC pairwise": lambda s, t: pairwise(s.sigmoid(), t),
    }


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
        seconds = median_seconds(functions, repeats=repeats)
        # Apart from the rest: the rivals' matrices of pairs would push our working set out of the cache.
        rivals = {"pairs": all_pairs, **peers()} if n <= 8192 else {}
        steps = {name: (lambda s=scores, t=targets, f=rival: step(f, s, t)) for name, rival in rivals.items()}
        seconds |= median_seconds(steps, repeats=repeats)
        rows.append(
            {
                "n": f"{n:,}",
                "forward + backward, ms": f"{1e3 * seconds['auroc']:.3f}",
                "× cross-entropy": f"{seconds['auroc'] / seconds['bce']:.1f}",
                "× torch.sort": f"{seconds['auroc'] / seconds['sort']:.2f}",
                "all pairs in memory ×": ratio(seconds, "pairs"),
                "LibAUC AUCM ×": ratio(seconds, "LibAUC AUCM"),
                "LibAUC pairwise ×": ratio(seconds, "LibAUC pairwise"),
                "extra MB": f"{peak_extra_megabytes(SETUP, 'loss_fn(scores, targets).backward()'):.0f}"
                if n > 1e5
                else "",
                "target": {128: "≤ 6 × cross-entropy", 8192: "≤ 20 × cross-entropy"}.get(n, "≤ 3 × sort, ≤ 400 MB"),
            }
        )
    record("sorted", "AUROC, 10 % positives, float32 (SortedEngine)", "python paper/benchmarks/bench_sorted.py", rows)


if __name__ == "__main__":
    main()
