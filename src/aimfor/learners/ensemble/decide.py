"""From the ensemble's out-of-fold scores to decisions: the threshold, and the cross-validated metric."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...metrics.accuracy import Accuracy
from ...metrics.at_rate import AtRate
from ...targets.folds import list_parts
from ...targets.grouping import rows_of_each
from ...targets.objective import Objective
from .weights import Judge, choose, mixed

#: Fewer rows than the first number (for accuracy, the second) do not move a threshold: even odds are right already, and
#: the best of many thresholds on few rows is luck.
ROWS_TO_TUNE, ROWS_TO_TUNE_ACCURACY = 50, 10_000
#: Parts of the rows; what each is promised comes from the others.
PARTS = 5


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


def cross_validated(rule: str, judge: Judge, seed: int) -> float:
    """What the metric will be on new rows, as far as out-of-fold rows can tell.

    Weights and threshold are chosen on four fifths of the rows and judged on the last, in turn: a value on the very
    rows that chose would be the luck of the choice as well. Lists are kept whole. NaN where a class has one row, or
    where fewer than two lists have rows of different grades.
    """
    scores = foreseen(rule, judge, seed, decide=judge.objective.needs_threshold)
    if scores is None:
        return math.nan
    return judge.objective.value(scores, judge.y, weights=judge.weights, lists=judge.lists)


def foreseen(rule: str, judge: Judge, seed: int, decide: bool) -> Tensor | None:
    """Scores of each part of the rows by weights that the other parts chose; None where no parts can be made.

    With ``decide``, decisions at a threshold that the other parts chose, as ±1: all that a metric of decisions sees.
    """
    parts = _parts(judge.y, seed) if judge.lists is None else list_parts(judge.lists, judge.y, PARTS, seed)
    if parts is None:
        return None
    scores = torch.zeros_like(judge.scores[0])
    for rows in parts:
        others = torch.ones(len(judge.y), dtype=torch.bool)
        others[rows] = False
        rest = judge.drawn(others.nonzero().reshape(-1))
        shares = choose(rule, rest, seed)
        found = mixed(judge.scores[:, rows], shares)
        if decide:
            cut = threshold_of(judge.objective, mixed(rest.scores, shares), rest.y, rest.weights).value
            found = torch.where(found > cut, 1.0, -1.0).double()
        scores[rows] = found
    return scores


def _parts(y: Tensor, seed: int) -> list[Tensor] | None:
    """Stratified parts; None when a class has too few rows for two of them."""
    generator = torch.Generator().manual_seed(seed)
    classes = rows_of_each(y)
    number = min(PARTS, *map(len, classes))
    if number < 2:
        return None
    numbers = torch.empty(len(y), dtype=torch.long)
    for rows in classes:
        numbers[rows[torch.randperm(len(rows), generator=generator)]] = torch.arange(len(rows)) % number
    return [(numbers == part).nonzero().reshape(-1) for part in range(number)]
