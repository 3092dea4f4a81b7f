"""What people train masks on: Dice and Lovász losses, for one class and for several, and the sums with cross-entropy.

All take the known pixels of a whole batch: scores ``(n,)`` or ``(n, c)``, class ids ``(n,)``. The formulas are those of
`segmentation_models_pytorch` with its default options (a test holds them equal where that library is installed).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from aimfor.learners.masks import lovasz as of_classes
from aimfor.learners.masks import lovasz_weights

from ..protocol.protocol import Contender, Loss, cross_entropy, weighted_cross_entropy


def _memberships(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and truth, ``(n, c)`` each; a binary mask has the one column of its positive class."""
    if scores.ndim == 1:
        return torch.sigmoid(scores)[:, None], targets[:, None].to(scores.dtype)
    return scores.softmax(1), functional.one_hot(targets, scores.shape[1]).to(scores.dtype)


def dice(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """``1 − 2 Σ p y / (Σ p + Σ y)`` of each class over the batch; a class that is absent adds 0; mean over classes."""
    chance, truth = _memberships(scores, targets)
    there = truth.sum(0)
    overlap = 2.0 * (chance * truth).sum(0) / (chance.sum(0) + there).clamp_min(1e-7)
    return ((1.0 - overlap) * (there > 0)).mean()


def lovasz(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """Berman 2018: the convex extension of the Jaccard loss, of hinge errors (binary) or of ``|y − p|`` (several
    classes, mean over those in the batch)."""
    if scores.ndim == 2:
        return of_classes(scores, targets)
    truth = targets[:, None].to(scores.dtype)
    errors = 1.0 - scores[:, None] * (2.0 * truth - 1.0)
    order = errors.detach().argsort(0, descending=True)
    return (functional.relu(errors.gather(0, order)) * lovasz_weights(truth.gather(0, order))).sum(0).mean()


def soft_iou(scores: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
    """``1 − Σ p y / (Σ p + Σ y − Σ p y)``, mean over the classes in the batch, the background of a binary mask too.

    Counts are summed over the batch before dividing, as the metric sums them over the data set.
    """
    chance, truth = _memberships(scores, targets)
    if scores.ndim == 1:
        chance, truth = torch.cat((1.0 - chance, chance), 1), torch.cat((1.0 - truth, truth), 1)
    there, both = truth.sum(0), (chance * truth).sum(0)
    present = (there > 0).to(scores.dtype)
    values = both / (chance.sum(0) + there - both).clamp_min(1e-7)
    return 1.0 - (values * present).sum() / present.sum().clamp_min(1.0)


def beside_cross_entropy(other: Loss) -> Loss:
    """Cross-entropy plus another loss, weight one each."""
    return lambda scores, targets, shares: cross_entropy(scores, targets, shares) + other(scores, targets, shares)


MASK_RIVALS: tuple[Contender, ...] = (
    Contender("cross-entropy", cross_entropy),
    Contender("weighted", weighted_cross_entropy),
    Contender("Dice", dice),
    Contender("Lovász", lovasz),
    Contender("cross-entropy + Dice", beside_cross_entropy(dice)),
)
#: What the network is fine-tuned on for IoU, from the rivals' best checkpoint.
OURS: tuple[Contender, ...] = (
    Contender("fine-tuned on IoU (soft counts)", soft_iou),
    Contender("fine-tuned on IoU (Lovász extension)", lovasz),
)
