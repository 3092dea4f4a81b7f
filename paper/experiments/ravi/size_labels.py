"""Size labels as the papers make them: by the mean, by a threshold, by a vote of the classes in an image."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aimfor import checks
from aimfor.errors import InputError

#: The thresholds over which Ravi averages the results of the sky experiment, and of the stuff experiment.
SKY_THRESHOLDS = (0.55, 0.6, 0.65)
STUFF_THRESHOLDS = (0.01, 0.03, 0.05, 0.07, 0.09)


def labels_by_mean(sizes: Tensor) -> Tensor:
    """Big (True) where the size exceeds the mean of all sizes (Ravi's S-MNIST).

    Args:
        sizes: ``(N,)``, e.g. the number of foreground pixels.

    Example:
        >>> import torch
        >>> labels_by_mean(torch.tensor([1, 2, 9])).tolist()
        [False, False, True]
    """
    values = _sizes(sizes, 1)
    return values > values.double().mean()


def labels_by_threshold(fractions: Tensor, threshold: float = 0.6) -> Tensor:
    """Big (True) where the fraction of pixels is at least ``threshold`` (Venkatesh's sky, 0.6).

    The papers' other figure is the mean over `SKY_THRESHOLDS` of the *results*: one run for each.

    Example:
        >>> import torch
        >>> [labels_by_threshold(torch.tensor([0.5, 0.58, 0.7]), t).tolist() for t in SKY_THRESHOLDS]
        [[False, True, True], [False, False, True], [False, False, True]]
    """
    return _sizes(fractions, 1) >= checks.number("threshold", threshold)


def labels_by_vote(fractions: Tensor, threshold: float = 0.05) -> Tensor:
    """Big (True) where most of the classes present in an image are big (Ravi's stuff segmentation).

    A class is present when its fraction is above 0 and big when it is at least ``threshold``. A tie is small. The
    papers' figure is the mean of the results over `STUFF_THRESHOLDS`.

    Args:
        fractions: ``(N, c)``, fraction of each image's pixels in each class; see `class_fractions`.
        threshold: In (0, 1).

    Example:
        >>> import torch
        >>> labels_by_vote(torch.tensor([[0.5, 0.5, 0.0], [0.96, 0.02, 0.02]])).tolist()
        [True, False]
    """
    values = _sizes(fractions, 2)
    threshold = checks.number("threshold", threshold, above=0, below=1)
    return 2 * (values >= threshold).sum(1) > (values > 0).sum(1)


def class_fractions(masks: Tensor, classes: int) -> Tensor:
    """``(N, c)`` fraction of each image's pixels in each class; ids outside 0 … c−1 (ignored pixels) count nowhere.

    Example:
        >>> import torch
        >>> class_fractions(torch.tensor([[[0, 1], [1, 255]]]), 2).tolist()
        [[0.25, 0.5]]
    """
    classes = checks.integer("classes", classes, at_least=1)
    given = checks.tensor("masks", masks)
    if given.ndim < 2 or given.is_floating_point() or given.is_complex():
        raise InputError("masks", f"{given.dtype} of shape {tuple(given.shape)}", "class ids, (N, h, w)")
    flat = given.reshape(given.shape[0], -1)
    counts = torch.stack([(flat == c).sum(1) for c in range(classes)], 1)
    return counts / max(flat.shape[1], 1)


def _sizes(values: Any, dimensions: int) -> Tensor:
    given = checks.tensor("sizes", values)
    if given.ndim != dimensions or given.numel() == 0 or given.is_complex():
        shape = "(N,)" if dimensions == 1 else "(N, c)"
        raise InputError("sizes", f"shape {tuple(given.shape)}", f"one size per example, {shape}")
    checks.finite("sizes", given)
    return given
