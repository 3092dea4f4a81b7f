"""From out-of-fold scores to decisions: the threshold."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ...metrics.accuracy import Accuracy
from ...metrics.at_rate import AtRate
from ...targets.objective import Objective

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
