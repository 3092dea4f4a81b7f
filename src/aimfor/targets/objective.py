"""The metric as the program sees it: its value at a threshold, and the threshold that is best on given data."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import checks
from ..decisions.certificate import Certificate
from ..engine import Batch
from ..errors import InputError
from ..metrics import NDCG, Accuracy, BalancedAccuracy, FBeta, Metric, metric_from_name
from ..metrics.at_rate import AtRate, TPRAtFPR
from ..metrics.confusion import CountMetric
from ..metrics.curve import ROUNDING, just_below, threshold_curve

#: Of the rows, for the test of a floor.
LEAST_ASIDE, MOST_ASIDE = 0.05, 0.4
#: Of metrics of neighbours, for embeddings.
_NEIGHBOURS = re.compile(r"map@r|r_precision|recall@([1-9]\d*)")


def aside_for(objective: Objective, ids: NDArray[np.int64]) -> float:
    """The share of the rows that a floor is tested on, 0 without a floor.

    So many that a rate a third of the way from the floor to the end passes a test at 95 % four times in five. Precision
    is tested on rows that are found, about as many as there are positives, recall on positives, rates of false
    positives on negatives.

    Example:
        >>> ids = np.repeat([0, 1], [9000, 1000])
        >>> [round(aside_for(Objective.of(f"recall@precision={floor}"), ids), 3) for floor in (0.5, 0.8, 0.95)]
        [0.054, 0.201, 0.4]
    """
    if not isinstance(objective.metric, AtRate):
        return 0.0
    metric = objective.metric
    floor = 1.0 - metric.fpr if isinstance(metric, TPRAtFPR) else next(iter(vars(metric).values()))
    tested = int((ids == (0 if isinstance(metric, TPRAtFPR) else 1)).sum())
    true = floor + (1.0 - floor) / 3.0
    spread = 1.645 * math.sqrt(floor * (1.0 - floor)) + 0.842 * math.sqrt(true * (1.0 - true))
    rows = (spread / max(true - floor, 1e-9)) ** 2
    return float(np.clip(rows / max(1, tested), LEAST_ASIDE, MOST_ASIDE))


@dataclass(frozen=True)
class Objective:
    """A metric by name; higher is better for all of them. Decisions are ``score > threshold``.

    Example:
        >>> import torch
        >>> scores, y = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> Objective.of("auroc").value(scores, y)
        0.75
        >>> threshold, best = Objective.of("f1").tuned(scores, y)
        >>> round(threshold, 3), round(best, 3)
        (0.225, 0.8)
    """

    name: str
    metric: Metric
    #: Several classes although the metric knows two as well (accuracy); see `on_classes`.
    several: bool = False
    #: Of lists inside a table, one for each query, instead of the table as one list; see `by_list`.
    ranked: bool = False

    @classmethod
    def of(cls, name: str) -> Objective:
        """Raises `InputError` for an unknown name, and for metrics of whole pictures, which a table does not hold."""
        metric = metric_from_name(name)
        if metric.layout not in ("binary", "multiclass", "lists"):
            what = "several labels at once" if metric.layout == "multilabel" else "whole pictures"
            raise InputError("--metric", f"{name!r}, a metric of {what}", "a metric of rows, such as auroc or f1")
        return cls(name, metric)

    def on_classes(self, number: int, positive: str | None = None) -> Objective:
        """The objective on a target of so many classes: accuracy over more than two, none of them named
        positive, decides by the highest of several scores.

        Example:
            >>> Objective.of("accuracy").on_classes(3).binary, Objective.of("accuracy").on_classes(2).binary
            (False, True)
        """
        either = isinstance(self.metric, Accuracy | BalancedAccuracy)
        return replace(self, several=either and number > 2 and positive is None)

    def by_list(self) -> Objective:
        """The objective of a table of ranked lists. Raises `InputError` for a metric that is not of lists.

        Example:
            >>> Objective.of("ndcg@10").by_list().ranked
            True
        """
        if self.metric.layout != "lists":
            raise InputError(
                "--query",
                f"the option together with the metric {self.name!r}, which is not of ranked lists",
                "ndcg, ndcg@10, ap (their mean is MAP), map@r, r_precision, mrr or precision@1",
                "Leave --query out for metrics of rows.",
            )
        return replace(self, ranked=True)

    @property
    def graded(self) -> bool:
        """Whether a grade of 2 is worth more than one of 1; otherwise every grade above 0 is simply relevant."""
        return isinstance(self.metric, NDCG)

    @property
    def binary(self) -> bool:
        """One score per row. A table under a list metric (average precision) is one list."""
        return self.metric.layout != "multiclass" and not self.several

    def check_group(self, group: str | None) -> None:
        """Raises `InputError` where rates are to be broken down by group and nothing decides between two classes."""
        if group is not None and not self.binary:
            came = "the option for a metric of several classes"
            raise InputError("--group", came, "a metric of two classes", "Leave it out, or name --positive.")

    @property
    def needs_threshold(self) -> bool:
        """Whether the metric is one of decisions (F1: yes; AUROC, average precision: no)."""
        return self.binary and isinstance(self.metric, CountMetric)

    def value(
        self,
        scores: Tensor,
        targets: Tensor,
        threshold: float = 0.0,
        weights: Tensor | None = None,
        lists: Tensor | None = None,
    ) -> float:
        """The exact metric, with decisions at the threshold where it makes any; NaN where undefined.

        ``lists`` has one number per row, equal for the rows of one list; None takes the table as one list.
        """
        moved = _decided(scores, threshold) if self.needs_threshold else scores
        return float(self.metric.value(moved, targets, weights=weights, groups=lists))

    def tuned(self, scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> tuple[float, float]:
        """The best threshold on this data, and the metric there.

        Metrics without a threshold of their own still get one for `predict`: that of a rate metric's operating
        point, else the one with the best F1.
        """
        if not self.binary:
            return 0.0, self.value(scores, targets, weights=weights)
        if isinstance(self.metric, AtRate):
            value = self.value(scores, targets, weights=weights)
            return _operating_point(self.metric, checks.binary(scores.double(), targets, weights=weights)), value
        decided_for = self.metric if self.needs_threshold else FBeta(1.0)
        threshold, value_there = decided_for.best_threshold(scores.double(), targets, weights=weights)
        if self.needs_threshold:
            return float(threshold), float(value_there)
        return float(threshold), self.value(scores, targets, weights=weights)

    def best(
        self, scores: Tensor, targets: Tensor, weights: Tensor | None = None, lists: Tensor | None = None
    ) -> float:
        """The metric, at the best threshold on this data where it needs one: `tuned` without the threshold."""
        if self.needs_threshold:
            return self.tuned(scores, targets, weights)[1]
        return self.value(scores, targets, weights=weights, lists=lists)

    def certificate(self, scores: Tensor, targets: Tensor, threshold: float) -> Certificate | None:
        """What these rows say about the metric's floor at this threshold; None for a metric that states none."""
        if not isinstance(self.metric, AtRate):
            return None
        return self.metric.problem().certificate(_decided(scores, threshold), targets)


def _decided(scores: Tensor, threshold: float) -> Tensor:
    """±1 by the decision in float64, so that a float32 score next to the threshold cannot change sides."""
    return torch.where(scores.double() > threshold, 1.0, -1.0).double()


def _operating_point(metric: AtRate, batch: Batch) -> float:
    """The threshold of the best rate that meets the floor, or of the one nearest to it."""
    curve = threshold_curve(batch)
    best, floored, floor = metric.rates(curve)
    index = int(torch.where(floored >= floor - ROUNDING, best, floored - 1.0).argmax())
    return float(just_below(curve.thresholds, index, beyond=0.5))


def is_retrieval(metric: str) -> bool:
    """Whether a name is a metric of neighbours: map@r, r_precision, recall@1, recall@10, …"""
    return _NEIGHBOURS.fullmatch(metric) is not None


def depth_of(metric: str) -> int:
    """How many neighbours recall@k looks at; 1 for the others, which look as far as a class is large."""
    match = _NEIGHBOURS.fullmatch(metric)
    return int(match[1]) if match is not None and match[1] else 1
