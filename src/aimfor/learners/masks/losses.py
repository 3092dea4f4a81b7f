"""What masks are trained on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ...loss import MetricLoss
from ...metrics.iou import IoU

#: Scores ``(n, c)`` and class ids ``(n,)`` of the pixels of a batch that count, to a scalar.
PixelLoss = Callable[[Tensor, Tensor], Tensor]


def lovasz_weights(truth: Tensor) -> Tensor:
    """Gradient of the Lovász extension of the Jaccard loss, at errors sorted downwards with these truths ``(n, c)``."""
    total = truth.sum(0)
    union = total + (1.0 - truth).cumsum(0)
    jaccard = 1.0 - (total - truth.cumsum(0)) / union
    return torch.cat((jaccard[:1], jaccard[1:] - jaccard[:-1]))


def lovasz(scores: Tensor, y: Tensor) -> Tensor:
    """The convex extension of the Jaccard loss of ``|y − p|``, mean over the classes in the batch.

    On pictures the networks had not learned from it had the highest mean IoU, CamVid and Stanford Background taken
    together (`mask_offsets`); its scores need no offsets.

    References:
        Berman, Triki, Blaschko, The Lovász-softmax loss, 2018.
    """
    truth = functional.one_hot(y, scores.shape[1]).to(scores.dtype)
    there = truth.sum(0) > 0
    truth, errors = truth[:, there], (truth - scores.softmax(1)).abs()[:, there]
    order = errors.detach().argsort(0, descending=True)
    return (errors.gather(0, order) * lovasz_weights(truth.gather(0, order))).sum(0).mean()


def lovasz_loss() -> PixelLoss:
    """The default; it remembers nothing."""
    return lovasz


def mean_iou() -> PixelLoss:
    """`MetricLoss` of the mean IoU as it comes. It remembers the spread of scores."""
    return MetricLoss(IoU(classes="mean"))


def cross_entropy() -> PixelLoss:
    """Every pixel alike."""
    return functional.cross_entropy


#: By the names of ``--loss``.
LOSSES: dict[str, Callable[[], PixelLoss]] = {"iou": mean_iou, "lovasz": lovasz_loss, "cross-entropy": cross_entropy}
