"""What a loss notices over many batches: those that teach nothing, counted and said aloud.

None of it is state: the numbers are plain Python ones, not buffers, so that checkpoints are the same with and without.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from .checks import callers_level
from .engine import EngineOutput, Status
from .errors import DegenerateBatchWarning

#: The shares of undefined batches, and of gradients of 0, that are worth a word, after so many batches.
UNDEFINED, ZERO, AFTER = 0.1, 0.5, 50


@dataclass
class BatchCounts:
    """How many training batches a loss has seen since it was made (or since these numbers were set to 0).

    Attributes:
        batches: All of them.
        undefined: Those that left the metric undefined: loss 0, gradient 0.
        zero_gradient: Those with a loss above 0 whose gradient was exactly 0 all the same. Counted where the engine
            knows it in the forward pass ("direct").
    """

    batches: int = 0
    undefined: int = 0
    zero_gradient: int = 0

    def add(self, output: EngineOutput) -> None:
        self.batches += 1
        self.undefined += output.status is Status.undefined_batch
        self.zero_gradient += bool(output.stats.get("zero_gradient", False))

    def stats(self) -> dict[str, int]:
        """The same numbers by the names they have in `EngineOutput.stats`."""
        return {
            "batches": self.batches,
            "undefined_batches": self.undefined,
            "zero_gradient_batches": self.zero_gradient,
        }


class DegenerateWatch:
    """One warning at a process's first degenerate batch; for each loss one more, with numbers, if they are many."""

    first_in_process = True

    def __init__(self) -> None:
        self._hinted: set[str] = set()

    def look(self, output: EngineOutput, counts: BatchCounts, metric: object, bank: bool) -> None:
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
