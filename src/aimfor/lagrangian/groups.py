"""The groups of a data set, as the user gave them."""

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
