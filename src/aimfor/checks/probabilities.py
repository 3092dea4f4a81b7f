"""Scores that are probabilities, met where raw scores are meant: said once, never silent."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from torch import Tensor

from ..errors import ProbabilityWarning
from .tensors import extremes

#: Batches in a row, and scores in them, before values alone are taken for probabilities.
BATCHES, SCORES = 100, 32
#: Operations that only reshape or convert: the scores are made by what stands before them.
_PASSING = ("View", "Squeeze", "Unsqueeze", "Select", "Slice", "ToCopy", "Reshape", "Expand", "Clone", "Alias", "Index")
_MAKERS = {"Sigmoid": "torch.sigmoid", "Softmax": "a softmax"}


class ProbabilityWatch:
    """Warns, once, when probabilities are decided at a threshold of 0 or less, where all of them are positive.

    A sigmoid or softmax that made the scores is certain, and settles it in the first batch. Otherwise values speak:
    every score of ``batches`` batches in a row (at least ``SCORES`` in all) lies in [0, 1], and 0.5 lies between them.
    Raw scores of a network that has just been made may do so too, but not for long.
    """

    def __init__(self, batches: int = BATCHES) -> None:
        self._enough, self._warned = batches, False
        self._batches, self._count = 0, 0
        self._low, self._high = 1.0, 0.0

    def look(self, scores: Tensor, checked: Tensor | None, threshold: float | None) -> None:
        """``scores`` as they entered, and as the gate left them (None: their values are not read).

        ``threshold`` is where they are decided, None if they are not.
        """
        if self._warned or threshold is None or threshold > 0.0:
            return
        maker = made_by(scores)
        if maker is not None:
            self._warn(f"scores come out of {maker}", threshold)
        elif checked is not None and checked.numel():
            self._collect(checked.detach(), threshold)

    def _collect(self, scores: Tensor, threshold: float) -> None:
        low, high = extremes(scores)
        if low < 0.0 or high > 1.0:
            self._batches, self._count, self._low, self._high = 0, 0, 1.0, 0.0
            return
        self._batches, self._count = self._batches + 1, self._count + scores.numel()
        self._low, self._high = min(low, self._low), max(high, self._high)
        if self._batches >= self._enough and self._count >= SCORES and self._low < 0.5 < self._high:
            came = f"all of {self._count} scores lie in [{self._low:.3g}, {self._high:.3g}]"
            self._warn(came, threshold)

    def _warn(self, came: str, threshold: float) -> None:
        self._warned = True
        warnings.warn(
            f"{came}: probabilities, decided at {threshold:g}, are all positive. Pass raw scores (logits), or say "
            "threshold=0.5 (of the metric, or of MetricLoss).",
            ProbabilityWarning,
            stacklevel=callers_level(),
        )


def made_by(scores: Tensor) -> str | None:
    """The function that made probabilities of the scores, read off the graph; None if there is none."""
    node: Any = scores.grad_fn
    while node is not None:
        name = type(node).__name__
        for key, maker in _MAKERS.items():
            if name.startswith(key):
                return maker
        if not name.startswith(_PASSING) or not node.next_functions:
            return None
        node = node.next_functions[0][0]
    return None


def callers_level() -> int:
    """How far up the stack the user's own line is, past this package and torch, for `warnings.warn` in the caller."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("aimfor", "torch"):
        level, frame = level + 1, frame.f_back
    return level + 1
