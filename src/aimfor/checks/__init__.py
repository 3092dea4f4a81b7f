"""The one input gate: everything a user passes is checked and formatted here, and nowhere else.

Behind the gate the mathematics may assume finite float32/float64 scores in a known layout, labels in the
metric's domain, weights ≥ 0 and a boolean mask. Masked entries are not looked at: they may hold anything.

Reading a yes or no off the device costs one small synchronisation per check; `values=False` skips the checks
that need one (shapes, types and devices are always checked).

What needs torch is imported on first use: settings are checked without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .settings import integer, number, one_of

if TYPE_CHECKING:
    from .batches import binary, lists, masks, multiclass, multilabel
    from .tensors import describe, finite, floating_scores, index_like, largest_score, tensor, weights_like

_HOME = {
    "batches": ("binary", "lists", "masks", "multiclass", "multilabel"),
    "tensors": (
        "describe",
        "finite",
        "floating_scores",
        "index_like",
        "largest_score",
        "tensor",
        "weights_like",
    ),
}

__all__ = [
    "binary",
    "describe",
    "finite",
    "floating_scores",
    "index_like",
    "integer",
    "largest_score",
    "lists",
    "masks",
    "multiclass",
    "multilabel",
    "number",
    "one_of",
    "tensor",
    "weights_like",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOME.items():
        if name in names:
            value = getattr(importlib.import_module(f".{home}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
