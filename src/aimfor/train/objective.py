"""The metric as the program sees it: its value at a threshold, and the threshold that is best on given data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .. import checks
from ..errors import InputError
from ..metrics import Metric, metric_from_name
from ..metrics.curve import threshold_curve


@dataclass(frozen=True)
class Objective:
    """A metric by name; higher is better for all of them.

    Example:
        >>> import torch
        >>> scores, y = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> Objective.of("auroc").value(scores, y)
        0.75
    """

    name: str
    metric: Metric

    @classmethod
    def of(cls, name: str) -> Objective:
        """Raises `InputError` for an unknown name, and for metrics over ranked lists, which a table does not hold."""
        metric = metric_from_name(name)
        if metric.layout not in ("binary", "multiclass"):
            raise InputError(
                "--metric",
                f"{name!r}, a metric over ranked lists",
                "a metric of a table's rows, such as auroc or f1",
                "Ranked lists are trained in a plain loop: see the documentation of the loss.",
            )
        return cls(name, metric)

    @property
    def binary(self) -> bool:
        return self.metric.layout == "binary"

    @cached_property
    def needs_threshold(self) -> bool:
        """Whether moving all scores by a constant changes the metric (F1: yes; AUROC, average precision: no)."""
        if not self.binary:
            return False
        scores, targets = torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.tensor([0, 1, 0, 1])
        moved = [float(self.metric.value(scores + shift, targets)) for shift in (-1.5, 0.0, 1.5)]
        return len({f"{value:.9f}" for value in moved}) > 1

    def value(self, scores: Tensor, targets: Tensor, threshold: float = 0.0) -> float:
        """The metric with decisions at ``score >= threshold`` where it makes any."""
        moved = _beyond(scores, threshold) if self.needs_threshold else scores
        return float(self.metric.value(moved, targets))

    def tuned(self, scores: Tensor, targets: Tensor) -> tuple[float, float]:
        """The best threshold on this data, and the metric there.

        Metrics without a threshold of their own still get one for `predict`: that of a rate metric's operating
        point, else the one with the best F1.
        """
        if not self.binary:
            return 0.0, self.value(scores, targets)
        if self.needs_threshold:
            return self._best_threshold(scores, targets)
        return operating_point(self.name, scores, targets), self.value(scores, targets)

    def _best_threshold(self, scores: Tensor, targets: Tensor) -> tuple[float, float]:
        candidates = between(scores)
        if len(candidates) > 256:
            candidates = candidates[np.unique(np.linspace(0, len(candidates) - 1, 256).round().astype(int))]
        values = np.array([self.value(scores, targets, float(one)) for one in candidates])
        if not np.isfinite(values).any():
            return 0.0, float("nan")
        best = np.flatnonzero(values >= np.nanmax(values) - 1e-12)
        chosen = best[len(best) // 2]
        return float(candidates[chosen]), float(values[chosen])


def _beyond(scores: Tensor, threshold: float) -> Tensor:
    """Scores whose sign is the decision: never zero, so that a metric's own rule for ties at 0 plays no part."""
    return torch.where(scores.double() >= threshold, 1.0, -1.0).double()


def between(scores: Tensor) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Thresholds that tell all distinct scores apart: halfway between neighbours, descending, and one beyond each end."""
    distinct = np.unique(scores.double().numpy())
    middle = (distinct[1:] + distinct[:-1]) / 2
    return np.concatenate(([distinct[-1] + 1.0], middle[::-1], [distinct[0] - 1.0]))


def operating_point(name: str, scores: Tensor, targets: Tensor) -> float:
    """The threshold a metric without one stands for.

    ``recall@precision=p``: the highest recall with precision >= p. ``precision@recall=r``: the highest precision
    with recall >= r. Everything else: the highest F1.
    """
    curve = threshold_curve(checks.binary(scores.double(), targets))
    precision = curve.tp / (curve.tp + curve.fp)
    recall = curve.tp / curve.positives
    kind, _, number = name.partition("=")
    if kind == "recall@precision" and number:
        ranked = torch.where(precision >= float(number), recall, precision - 1.0)
    elif kind == "precision@recall" and number:
        ranked = torch.where(recall >= float(number), precision, recall - 1.0)
    else:
        ranked = 2 * curve.tp / (curve.tp + curve.fp + curve.positives)
    place = int(ranked.argmax())
    threshold = float(curve.thresholds[place])
    below = float(curve.thresholds[place + 1]) if place + 1 < len(curve.thresholds) else threshold - 1.0
    return (threshold + below) / 2
