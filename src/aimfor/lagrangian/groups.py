"""The groups of a data set: as the user gave them, made of sizes, and the positions of a batch in it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import checks
from ..errors import InputError


def group_labels(labels: Any) -> Tensor:
    """``(N,)`` int16 group numbers 0 … p−1, every one of them present."""
    given = checks.tensor("labels", labels).detach()
    if given.ndim != 1 or given.is_complex():
        raise InputError("labels", f"shape {tuple(given.shape)}", "one group per example, (N,)")
    values = given.unique().tolist()
    if len(values) < 2:
        raise InputError("labels", "one class only", "at least two groups, 0 and 1", "F_β compares S⁺ with S⁻.")
    if len(values) > 256 or values != list(range(len(values))):
        listed = ", ".join(f"{value:g}" for value in values[:6]) + (", …" if len(values) > 6 else "")
        raise InputError("labels", f"values {listed}", "0 and 1, or 0 … p−1 with every group present")
    return given.to(torch.int16)


def checked_index(index: Tensor | None, groups: Tensor, of_all: Tensor) -> Tensor:
    """The positions ``(n,)`` of a batch in the data set, where they fit its groups; ``known`` are those of all."""
    if index is None:
        raise InputError(
            "index",
            "None",
            "each example's position in the data set",
            "Let the data set return it: loss_fn(scores, targets, index=index). To evaluate, call .eval() first.",
        )
    size = of_all.numel()
    try:
        if index.device.type != "cpu" and index.numel():  # a gather outside the bounds raises on the CPU only
            low, high = index.aminmax()
            if bool((low < 0) | (high >= size)):
                raise IndexError
        expected = of_all.index_select(0, index)
    except IndexError:
        came = f"values from {int(index.min())} to {int(index.max())}"
        raise InputError("index", came, f"positions from 0 to {size - 1}") from None
    if not torch.equal(expected, groups):
        raise InputError(
            "targets",
            "labels that differ from those the engine was made with",
            "targets == labels[index]",
            "Check that index is the position in the same data set, in the same order.",
        )
    return index


#: Of a class in an image, for the vote (Ravi's stuff segmentation).
BIG_CLASS = 0.05


def size_labels(sizes: Tensor, threshold: float | None = None) -> Tensor:
    """Big (True) or small: the labels S⁺ and S⁻ of a `LagrangianEngine`.

    One size an example: big from ``threshold`` on (Venkatesh's sky, 0.6), or above the mean of all sizes (Ravi's
    S-MNIST). Several fractions an example: big where most of the classes that are present (fraction above 0) have at
    least ``threshold``, 0.05 by default (Ravi's stuff segmentation); a tie is small.

    Args:
        sizes: ``(N,)``: numbers of pixels, areas of boxes, …; or ``(N, c)``: see `class_fractions`.
        threshold: None is the mean, or 0.05 for fractions.

    Returns:
        ``(N,)`` bool.

    Raises:
        InputError: Sizes that are empty, not finite or of another shape; a threshold outside (0, 1) for fractions.

    Example:
        >>> import torch
        >>> size_labels(torch.tensor([1, 2, 9])).tolist(), size_labels(torch.tensor([1, 2, 9]), 2).tolist()
        ([False, False, True], [False, True, True])
        >>> size_labels(torch.tensor([[0.5, 0.5, 0.0], [0.96, 0.02, 0.02]])).tolist()
        [True, False]

    References:
        Ravi et al., 2020, §4; Venkatesh and Zeng, 2019, figure 7.
    """
    given = checks.tensor("sizes", sizes)
    if given.ndim not in (1, 2) or given.numel() == 0 or given.is_complex():
        raise InputError("sizes", f"shape {tuple(given.shape)}", "one size per example, (N,), or fractions, (N, c)")
    checks.finite("sizes", given)
    if given.ndim == 2:
        least = BIG_CLASS if threshold is None else checks.number("threshold", threshold, above=0, below=1)
        return 2 * (given >= least).sum(1) > (given > 0).sum(1)
    if threshold is None:
        return given > given.double().mean()
    return given >= checks.number("threshold", threshold)


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
