"""One-vs-rest masks: a pixel's class by the highest score, as one binary problem per class and image.

The margin of class c is ``φ_c − max over the other classes``; it is above 0 exactly where c is decided (ties aside), so
the IoU of class c at threshold 0 of its margin *is* the IoU of the argmax decision. Every class then has its own score
function, argmax and loss, theorem 1 holds for each, and the gradient of the mean is the mean of the gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..engine import Batch
from .rows import Rows, rows_of


def margins(scores: Tensor) -> Tensor:
    """``(…, c)`` scores to ``(…, c)`` margins over the best other class, differentiable.

    Example:
        >>> import torch
        >>> from aimfor.direct.segmentation import margins
        >>> margins(torch.tensor([3.0, 1.0, 2.0]))
        tensor([ 1., -2., -1.])
    """
    top = scores.topk(2, dim=-1)
    classes = torch.arange(scores.shape[-1], device=scores.device)
    leads = classes == top.indices[..., :1]
    return scores - torch.where(leads, top.values[..., 1:], top.values[..., :1])


def class_rows(batch: Batch) -> Rows:
    """Images ``(b, l, c)``, or one image ``(l, c)``, as ``b · c`` binary rows of length l, image by image."""
    scores = batch.scores if batch.scores.ndim == 3 else batch.scores[None]
    b, length, classes = scores.shape
    targets = batch.targets.reshape(b, 1, length)

    def spread(entries: Tensor | None) -> Tensor | None:
        return (
            None
            if entries is None
            else entries.reshape(b, 1, length).expand(b, classes, length).reshape(b * classes, length)
        )

    is_class = targets == torch.arange(classes, device=scores.device)[:, None]
    return rows_of(
        Batch(
            margins(scores).transpose(1, 2).reshape(b * classes, length),
            is_class.reshape(b * classes, length),
            spread(batch.weights),
            spread(batch.where),
        )
    )


def mean_shares(defined: Tensor) -> Tensor:
    """``(images, classes)`` bool: the weight of each cell in the mean over images of the mean over classes."""
    present = defined.double()
    of_image = present / present.sum(1, keepdim=True).clamp_min(1.0)
    return of_image / present.any(1).sum().clamp_min(1)
