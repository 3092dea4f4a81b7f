"""Time of one training step (forward, loss, backward, AdamW) with the metric's loss against cross-entropy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from common import median_seconds, record
from torch import Tensor, nn
from torch.nn import functional

import aimfor
from paper.networks.mask_networks import SegNet
from paper.networks.models import own_resnet20, small_cnn
from paper.rivals.mask_rivals import soft_iou

Loss = Callable[[Tensor], Tensor]


def step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Loss, x: Tensor) -> None:
    optimizer.zero_grad()
    loss(model(x)).backward()
    optimizer.step()


def compared(network: str, x: Tensor, losses: dict[str, tuple[Callable[[], nn.Module], Loss]], repeats: int) -> Any:
    """Rows of every loss that is not cross-entropy, each against the cross-entropy before it."""
    steps = {}
    for title, (make, loss) in losses.items():
        torch.manual_seed(0)
        model = make()
        steps[title] = partial(step, model, torch.optim.AdamW(model.parameters(), fused=True), loss, x)
    seconds = median_seconds(steps, repeats=repeats)
    rival = ""
    for title in losses:
        if title.startswith("cross-entropy"):
            rival = title
            continue
        yield {
            "network": network,
            "batch": len(x),
            "loss": title,
            "ms a step": round(1e3 * seconds[title], 1),
            "cross-entropy, ms a step": round(1e3 * seconds[rival], 1),
            "ratio": round(seconds[title] / seconds[rival], 2),
            "ratio in Meng 2021": 3.8 if title == "AUROC" else "",
        }


def on_images(network: str, make: Callable[[int], nn.Module], size: int, repeats: int) -> Any:
    y, ids = (torch.rand(size) < 0.1).long(), torch.arange(size) % 10
    y[0] = 1
    auroc, one_vs_rest, auc_mu = (aimfor.MetricLoss(name) for name in ("auroc", "auroc_ovr", "auc_mu"))
    losses: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
        "cross-entropy": (
            partial(make, 1),
            lambda s: functional.binary_cross_entropy_with_logits(s.squeeze(1), y.float()),
        ),
        "AUROC": (partial(make, 1), lambda s: auroc(s.squeeze(1), y)),
        "cross-entropy, 3 classes": (partial(make, 3), lambda s: functional.cross_entropy(s, ids % 3)),
        "AUROC, one versus rest, 3 classes": (partial(make, 3), lambda s: one_vs_rest(s, ids % 3)),
        "AUC_mu, 3 classes": (partial(make, 3), lambda s: auc_mu(s, ids % 3)),
        "cross-entropy, 10 classes": (partial(make, 10), lambda s: functional.cross_entropy(s, ids)),
        "AUROC, one versus rest, 10 classes": (partial(make, 10), lambda s: one_vs_rest(s, ids)),
        "AUC_mu, 10 classes": (partial(make, 10), lambda s: auc_mu(s, ids)),
    }
    return compared(network, torch.randn(size, 3, 32, 32), losses, repeats)


def on_masks(size: int, repeats: int) -> Any:
    masks = (torch.rand(size, 48, 64) < 0.2).long()
    smooth, direct = aimfor.MetricLoss("iou"), aimfor.MetricLoss("iou", aimfor.DirectEngine())
    shares = torch.tensor([0.8, 0.2])
    losses: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
        "cross-entropy": (
            SegNet,
            lambda s: functional.binary_cross_entropy_with_logits(s[0].squeeze(1), masks.float()),
        ),
        "IoU, soft counts": (SegNet, lambda s: soft_iou(s[0].reshape(-1), masks.reshape(-1), shares)),
        "IoU, smooth (default)": (SegNet, lambda s: smooth(s[0].squeeze(1), masks)),
        "IoU, direct": (SegNet, lambda s: direct(s[0].squeeze(1), masks)),
    }
    return compared("SegNet", torch.randn(size, 3, 48, 64), losses, repeats)


def main() -> None:
    rows = [
        *on_images("small CNN", small_cnn, 128, 201),
        *on_images("ResNet-20", own_resnet20, 64, 7),
        *on_masks(16, 9),
    ]
    record("iteration", "One training step against cross-entropy's", "python paper/benchmarks/bench_iteration.py", rows)


if __name__ == "__main__":
    main()
