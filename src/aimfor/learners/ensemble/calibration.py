"""From out-of-fold scores to calibrated log-odds, on one scale for all members, and to the threshold of decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import log1p
from torch import Tensor

from ...metrics.accuracy import Accuracy
from ...metrics.at_rate import AtRate
from ...targets.calibrate import class_scaling, platt, probability
from ...targets.objective import Objective

#: Log-odds beyond this are one chance in three million; they still count, but by their logarithm.
MOST = 15.0


@dataclass(frozen=True)
class Scale:
    """``slope · score + offset``, one offset per class. The slope is never negative.

    Beyond ±15 only the logarithm of the excess is added: a member that is certain of everything cannot shout the others
    down, and the order of the rows stays as it was.

    Calibrated scores of several members may be averaged: they all mean the same thing. For classes the columns are made
    to sum to zero in each row, because a softmax leaves their common part open.
    """

    slope: float
    offsets: tuple[float, ...]

    @classmethod
    def fit(cls, scores: Tensor, y: Tensor, weights: Tensor | None = None) -> Scale:
        """From scores ``(n,)`` or ``(n, c)`` of rows the member has not learned from."""
        held = _bounded(scores.double())
        if scores.ndim == 1:
            slope, offset = platt(held, y, weights)
            return cls(slope, (offset,))
        slope, offsets = class_scaling(held, y, weights)
        return cls(slope, tuple(offsets))

    @classmethod
    def of_lists(cls, scores: Tensor, lists: Tensor) -> Scale:
        """For ranked lists ``(n,)``: a typical difference within a list becomes 1. Only the order in a list means
        anything, so there are no odds to be calibrated; a member that tells no two rows of a list apart gets slope 0.
        """
        held = _bounded(scores.double())
        number = lists.unique(return_inverse=True)[1]
        sizes = torch.bincount(number).double()
        mean = torch.zeros_like(sizes).index_add(0, number, held) / sizes
        spread = float((held - mean[number]).square().mean().sqrt())
        return cls(1.0 / spread if spread > 1e-12 else 0.0, (0.0,))

    def __call__(self, scores: Tensor) -> Tensor:
        """Log-odds of the same shape, float64."""
        held = _bounded(scores.double())
        if held.ndim == 1:
            return _bounded(self.slope * held + self.offsets[0])
        scaled = self.slope * held + torch.tensor(self.offsets, dtype=torch.float64)
        return _bounded(scaled - scaled.mean(1, keepdim=True))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Of the positive class ``(n,)``, or of every class ``(n, c)``."""
        log_odds = self(scores)
        return probability(log_odds) if log_odds.ndim == 1 else log_odds.softmax(1)

    @property
    def state(self) -> dict[str, Any]:
        return {"slope": self.slope, "offsets": list(self.offsets)}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Scale:
        return cls(float(state["slope"]), tuple(map(float, state["offsets"])))


def _bounded(scores: Tensor) -> Tensor:
    """The same order, with what exceeds ±15 replaced by its logarithm."""
    excess = (scores.abs() - MOST).clamp_min(0.0)
    # Value by value: torch's logarithm differs in the last bit between a row alone and the same row among others.
    return scores.clamp(-MOST, MOST) + scores.sign() * torch.from_numpy(np.asarray(log1p(excess.numpy())))


#: Fewer rows than the first number (for accuracy, the second) do not move a threshold: even odds are right already, and
#: the best of many thresholds on few rows is luck.
ROWS_TO_TUNE, ROWS_TO_TUNE_ACCURACY = 50, 10_000


@dataclass(frozen=True)
class Threshold:
    """Decisions are ``score > value``; ``text`` says where the value comes from.

    ``guaranteed`` is whether a floor is kept with the stated confidence, and None where no floor was asked for.
    """

    value: float
    text: str
    guaranteed: bool | None = None


def threshold_of(objective: Objective, scores: Tensor, y: Tensor, weights: Tensor | None = None) -> Threshold:
    """The threshold for calibrated log-odds ``(n,)`` of rows the models have not learned from.

    Metrics without a threshold of their own get one for `predict` all the same: the operating point of a metric with a
    floor, else the one with the best F1.
    """
    if objective.ranked:
        return Threshold(0.0, "nothing is decided: the rows of a query are put in order")
    if not objective.binary:
        return Threshold(0.0, "the class with the highest probability is decided")
    n, least = len(y), ROWS_TO_TUNE
    if isinstance(objective.metric, Accuracy):
        least = ROWS_TO_TUNE_ACCURACY
    if n < least:
        return Threshold(
            0.0, f"even odds: {n} out-of-fold rows are fewer than the {least} that would move the threshold"
        )
    tuned_for = objective.name if objective.needs_threshold or isinstance(objective.metric, AtRate) else "F1"
    return Threshold(objective.tuned(scores, y, weights)[0], f"the best for {tuned_for} on {n} out-of-fold rows")
