"""The groups of a data set, as the user gave them, and the positions of a batch in it."""

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
    found = given.unique().tolist()
    if len(found) < 2:
        raise InputError("labels", "one class only", "at least two groups, 0 and 1", "F_β compares S⁺ with S⁻.")
    if len(found) > 256 or found != list(range(len(found))):
        listed = ", ".join(f"{value:g}" for value in found[:6]) + (", …" if len(found) > 6 else "")
        raise InputError("labels", f"values {listed}", "0 and 1, or 0 … p−1 with every group present")
    return given.to(torch.int16)


def checked_index(index: Tensor | None, groups: Tensor, known: Tensor) -> Tensor:
    """The positions ``(n,)`` of a batch in the data set, where they fit its groups; ``known`` are those of all."""
    if index is None:
        raise InputError(
            "index",
            "None",
            "each example's position in the data set",
            "Let the data set return it: loss_fn(scores, targets, index=index). To evaluate, call .eval() first.",
        )
    size = known.numel()
    try:
        if index.device.type != "cpu" and index.numel():  # a gather outside the bounds raises on the CPU only
            low, high = index.aminmax()
            if bool((low < 0) | (high >= size)):
                raise IndexError
        expected = known.index_select(0, index)
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
