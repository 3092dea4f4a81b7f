"""The one input gate: everything a user passes is checked and formatted here, and nowhere else.

Behind the gate the mathematics may assume finite float32/float64 scores in a known layout, labels in the
metric's domain, weights ≥ 0 and a boolean mask. Masked entries are not looked at: they may hold anything.

Reading a yes or no off the device costs one small synchronisation per check; `values=False` skips the checks
that need one (shapes, types and devices are always checked).
"""

from .batches import binary, lists, masks, multiclass, multilabel
from .probabilities import ProbabilityWatch, callers_level
from .settings import integer, number, one_of
from .tensors import describe, finite, floating_scores, index_like, largest_score, tensor, weights_like

__all__ = [
    "ProbabilityWatch",
    "binary",
    "callers_level",
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
