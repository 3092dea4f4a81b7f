"""Time of one training step (forward, loss, backward, AdamW) with the metric's loss against cross-entropy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from common import median_seconds, record
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from aimfor.reproduce.images import own_resnet20, small_cnn


def step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[Tensor], Tensor], x: Tensor) -> None:
    optimizer.zero_grad()
    loss(model(x)).backward()
    optimizer.step()


def main() -> None:
    rows = []
    for name, make, size, repeats in (("small CNN", small_cnn, 128, 15), ("ResNet-20", own_resnet20, 64, 7)):
        x = torch.randn(size, 3, 32, 32)
        y, ids = (torch.rand(size) < 0.1).long(), torch.arange(size) % 10
        y[0] = 1
        auroc, auc_mu = aimfor.MetricLoss("auroc"), aimfor.MetricLoss("auc_mu")
        losses: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
            "cross-entropy": (1, lambda s, y=y: functional.binary_cross_entropy_with_logits(s.squeeze(1), y.float())),
            "AUROC": (1, lambda s, y=y, loss=auroc: loss(s.squeeze(1), y)),
            "cross-entropy, 10 classes": (10, lambda s, ids=ids: functional.cross_entropy(s, ids)),
            "AUC_mu, 10 classes": (10, lambda s, ids=ids, loss=auc_mu: loss(s, ids)),
        }
        steps = {}
        for title, (outputs, loss) in losses.items():
            torch.manual_seed(0)
            model = make(outputs)
            steps[title] = partial(step, model, torch.optim.AdamW(model.parameters(), fused=True), loss, x)
        seconds = median_seconds(steps, repeats=repeats)
        for ours, rival in (("AUROC", "cross-entropy"), ("AUC_mu, 10 classes", "cross-entropy, 10 classes")):
            rows.append(
                {
                    "network": name,
                    "batch": size,
                    "loss": ours,
                    "ms a step": round(1e3 * seconds[ours], 1),
                    "cross-entropy, ms a step": round(1e3 * seconds[rival], 1),
                    "ratio": round(seconds[ours] / seconds[rival], 2),
                    "ratio in Meng 2021": 3.8 if ours == "AUROC" else "",
                }
            )
    record("iteration", "One training step against cross-entropy's", "python benchmarks/bench_iteration.py", rows)


if __name__ == "__main__":
    main()
