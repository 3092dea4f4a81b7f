"""What a loss notices over many batches, and warns of: batches that teach nothing, and scores that are probabilities.

None of it is state: the numbers are plain Python ones, not buffers, so that checkpoints are the same with and without.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from torch import Tensor

from .checks.tensors import extremes
from .engine import EngineOutput, Status
from .errors import DegenerateBatchWarning, ProbabilityWarning, callers_level

#: The shares of undefined batches, and of gradients of 0, that are worth a word, after so many batches.
UNDEFINED, ZERO, AFTER = 0.1, 0.5, 50
#: Batches in a row, and scores in them, before values alone are taken for probabilities.
BATCHES, SCORES = 100, 32
#: Operations that only reshape or convert: the scores are made by what stands before them.
_PASSING = ("View", "Squeeze", "Unsqueeze", "Select", "Slice", "ToCopy", "Reshape", "Expand", "Clone", "Alias", "Index")
_MAKERS = {"Sigmoid": "torch.sigmoid", "Softmax": "a softmax"}


class BatchCounts:
    """How many training batches a loss has seen since it was made (or since these numbers were set to 0).

    Attributes:
        batches: All of them.
        undefined: Those that left the metric undefined: loss 0, gradient 0. Where a device was not waited for, this
            waits for it.
        zero_gradient: Those with a loss above 0 whose gradient was exactly 0 all the same. Counted where the engine
            knows it in the forward pass ("direct").
    """

    def __init__(self, batches: int = 0, undefined: int = 0, zero_gradient: int = 0) -> None:
        self.batches, self._undefined, self.zero_gradient = batches, undefined, zero_gradient
        self._unread: Tensor | None = None

    @property
    def undefined(self) -> int:
        if self._unread is not None:
            self._undefined, self._unread = self._undefined + int(self._unread), None
        return self._undefined

    @undefined.setter
    def undefined(self, count: int) -> None:
        self._undefined, self._unread = count, None

    def add(self, output: EngineOutput, wait: bool = True) -> None:
        """Counts a batch; with ``wait=False`` a status that is on a device is left there."""
        self.batches += 1
        defined = None if wait else output.unread
        if defined is None:
            if output.status is Status.undefined_batch:
                self.undefined += 1
            self.zero_gradient += bool(output.stats.get("zero_gradient", False))
        else:
            self._unread = ~defined + (0 if self._unread is None else self._unread)

    def stats(self) -> dict[str, int]:
        """The same numbers by the names they have in `EngineOutput.stats`."""
        return {
            "batches": self.batches,
            "undefined_batches": self.undefined,
            "zero_gradient_batches": self.zero_gradient,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchCounts) and self.stats() == other.stats()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BatchCounts(batches={self.batches}, undefined={self.undefined}, zero_gradient={self.zero_gradient})"


class DegenerateWatch:
    """One warning at a process's first degenerate batch; for each loss one more, with numbers, if they are many."""

    first_in_process = True

    def __init__(self) -> None:
        self._hinted: set[str] = set()

    def observe(self, output: EngineOutput, counts: BatchCounts, metric: object, bank: bool) -> None:
        """``bank``: the engine could rank against a bank of recent scores, and does not."""
        if output.status is Status.undefined_batch and DegenerateWatch.first_in_process:
            DegenerateWatch.first_in_process = False
            _say(f"{output.status.message}. {output.status.remedy}.")
        if counts.batches < AFTER:
            return
        if counts.undefined >= UNDEFINED * counts.batches and "undefined" not in self._hinted:
            self._hinted.add("undefined")
            _say(_about_undefined(counts, metric, bank))
        if counts.zero_gradient >= ZERO * counts.batches and "zero" not in self._hinted:
            self._hinted.add("zero")
            _say(
                f"{counts.zero_gradient} of {counts.batches} batches had a loss but a gradient of exactly 0 for "
                f"{metric!r}: no change of the size that the engine looks for alters the metric. Use a larger epsilon, "
                "larger batches, or another engine (aimfor.support())."
            )


def _about_undefined(counts: BatchCounts, metric: object, bank: bool) -> str:
    share = counts.undefined / counts.batches
    text = (
        f"{counts.undefined} of {counts.batches} batches ({share:.0%}) left {metric!r} undefined and taught nothing. "
    )
    remedies = ["aimfor.learners.networks.sampler.BalancedBatchSampler gives every batch both classes"]
    if share < 1.0:
        # Chance alone leaves a batch empty with share u, and one k times as large with u^k.
        remedies.append(f"batches {math.ceil(math.log(0.01) / math.log(share))} times as large would be undefined 1 %")
    if bank:
        remedies.append("an engine with bank=4096 counts and ranks each batch among recent ones")
    return text + "; ".join(remedies) + "."


def _say(text: str) -> None:
    warnings.warn(text, DegenerateBatchWarning, stacklevel=callers_level())


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

    def observe(self, scores: Tensor, checked: Tensor | None, threshold: float | None) -> None:
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
