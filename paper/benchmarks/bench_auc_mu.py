"""AUC_mu with 10 classes against binary AUROC on as many rows: forward and backward, ratio in the same run.

OMP_NUM_THREADS=1 python paper/benchmarks/bench_auc_mu.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from common import median_seconds, record

import aimfor

ROWS, CLASSES, LIMIT = 100_000, 10, 12.0


def step(metric: aimfor.Metric, scores: torch.Tensor, targets: torch.Tensor) -> Callable[[], None]:
    loss_fn = aimfor.MetricLoss(metric)
    leaf = scores.clone().requires_grad_()

    def run() -> None:
        leaf.grad = None
        loss_fn(leaf, targets).backward()

    return run


def main() -> None:
    torch.manual_seed(0)
    classes = torch.randint(0, CLASSES, (ROWS,))
    scores = torch.randn(ROWS, CLASSES) + torch.nn.functional.one_hot(classes, CLASSES)
    costs = torch.rand(CLASSES, CLASSES).fill_diagonal_(0.0)
    seconds = median_seconds(
        {
            "auroc": step(aimfor.AUROC(), scores[:, 0], classes == 0),
            "auc_mu": step(aimfor.AUCMu(), scores, classes),
            "auc_mu, cost matrix": step(aimfor.AUCMu(costs), scores, classes),
            "auroc_ovr": step(aimfor.AUROCOneVsRest(), scores, classes),
        },
        repeats=9,
    )
    rows = [
        {
            "loss": name,
            "n": ROWS,
            "classes": 2 if name == "auroc" else CLASSES,
            "ms": round(1000 * taken, 1),
            "× auroc": round(taken / seconds["auroc"], 2),
            "limit": f"{LIMIT:g}×" if name == "auc_mu" else "–",
        }
        for name, taken in seconds.items()
    ]
    record(
        "auc_mu",
        "AUC_mu, 10 classes, against binary AUROC at the same n (forward + backward, float32)",
        "python paper/benchmarks/bench_auc_mu.py",
        rows,
    )


if __name__ == "__main__":
    main()
