"""Everything the report shows about one part of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...metrics import AUROC, Accuracy, AUROCOneVsRest, AveragePrecision, Metric
from ..intervals import Interval, bootstrap_interval, exact_interval
from ..objective import Objective
from .decisions import (
    brier,
    by_group,
    class_table,
    confusion,
    confusion_matrix,
    curves,
    histogram,
    log_loss,
    rates,
    reliability,
    steps,
)
from .results import Beside, SeveralClasses, TwoClasses, certificate_found

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """A number as a function of row numbers (with repetitions), so that it can be drawn again."""

    name: str
    value: Callable[[Tensor], float]
    constant: float
    higher_is_better: bool = True
    #: A share of the rows, whose interval is exact.
    share: bool = False

    def row(self, n: int, thorough: bool) -> Beside:
        value = self.value(torch.arange(n))
        interval = self._interval(value, n) if thorough else None
        return Beside(self.name, value, self.constant, self.higher_is_better, interval)

    def _interval(self, value: float, n: int) -> Interval | None:
        return exact_interval(round(value * n), n) if self.share else bootstrap_interval(self.value, n)


def numbers_beside(
    objective: Objective, scores: Tensor, targets: Tensor, probabilities: Array | None, thorough: bool
) -> list[Beside]:
    """Two classes: AUROC and average precision; several: accuracy and one-versus-rest AUROC; Brier score and log loss.

    What the model was trained for stands above them and is left out here.
    """
    classes = 2 if objective.binary else scores.shape[1]
    shares = np.bincount(targets.numpy(), minlength=classes) / len(targets)
    ranked: list[tuple[str, Metric, float]] = (
        [("AUROC", AUROC(), 0.5), ("average precision", AveragePrecision(), float(shares[1]))]
        if objective.binary
        else [("accuracy", Accuracy(), float(shares.max())), ("AUROC, one versus rest", AUROCOneVsRest(), 0.5)]
    )
    found = [
        Drawn(name, partial(_exact, metric, scores, targets), constant, share=isinstance(metric, Accuracy))
        for name, metric, constant in ranked
        if metric != objective.metric
    ]
    if probabilities is not None:
        y = targets.double().numpy()
        constant = np.broadcast_to(shares[1] if objective.binary else shares, probabilities.shape)
        for name, score in (("Brier score", brier), ("log loss", log_loss)):
            found.append(Drawn(name, partial(_scored, score, probabilities, y), score(constant, y), False))
    return [one.row(len(targets), thorough) for one in found]


def _exact(metric: Metric, scores: Tensor, targets: Tensor, rows: Tensor) -> float:
    return float(metric.value(scores[rows], targets[rows]))


def _scored(score: Callable[[Array, Array], float], probabilities: Array, targets: Array, rows: Tensor) -> float:
    return score(probabilities[rows.numpy()], targets[rows.numpy()])


def evaluate(
    objective: Objective,
    scores: Tensor,
    targets: Tensor,
    threshold: float,
    groups: NDArray[Any] | None = None,
    *,
    probabilities: Array | None = None,
    clusters: Tensor | None = None,
    thorough: bool = False,
) -> TwoClasses | SeveralClasses:
    """The metric and what explains it.

    Args:
        objective: The metric the model was trained for.
        scores: ``(n,)``, or ``(n, c)`` for several classes.
        targets: ``(n,)`` class ids.
        threshold: Decisions are ``score > threshold`` (two classes).
        groups: A name for every row, for the table by group.
        probabilities: ``(n,)`` of the positive class or ``(n, c)``, for Brier score and reliability.
        clusters: ``(n,)`` ids of rows that belong together: the metric's interval draws whole clusters.
        thorough: Bootstrap intervals too. A comparison over seeds has intervals of its own and leaves them out.
    """
    part: dict[str, Any] = {
        "metric": objective.value(scores, targets, threshold),
        "baseline": constant_value(objective, targets, scores.shape[1:]),
        "n": len(targets),
        "beside": numbers_beside(objective, scores, targets, probabilities, thorough),
        "interval": metric_interval(objective, scores, targets, threshold, clusters) if thorough else None,
        "reliability": None if probabilities is None else reliability(probabilities, targets.double().numpy()),
    }
    if objective.binary:
        return TwoClasses(**part, **_decisions(objective, scores, targets, threshold, groups))
    matrix = confusion_matrix(scores, targets)
    return SeveralClasses(**part, confusion=matrix.tolist(), per_class=class_table(scores, targets, matrix))


def _decisions(
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float, groups: NDArray[Any] | None
) -> dict[str, Any]:
    s, y = scores.double().numpy(), targets.double().numpy()
    counts = confusion(s, y, threshold)
    certificate = objective.certificate(scores, targets, threshold)
    return {
        "positives": int(y.sum()),
        "counts": counts,
        "rates": rates(counts),
        "curves": curves(s, y),
        "intervals": {
            "precision": exact_interval(counts["tp"], counts["tp"] + counts["fp"]),
            "recall": exact_interval(counts["tp"], counts["tp"] + counts["fn"]),
            "specificity": exact_interval(counts["tn"], counts["tn"] + counts["fp"]),
        },
        "histogram": histogram(s, y),
        "steps": steps(s, y, threshold),
        "certificate": None if certificate is None else certificate_found(certificate),
        "groups": None if groups is None else by_group(s, y, threshold, groups),
    }


def constant_value(objective: Objective, targets: Tensor, columns: tuple[int, ...] = ()) -> float:
    """The metric of the best constant: one score, or one decision, for every row. NaN where it has none.

    For AUROC this is 0.5, for average precision the share of positives, for F1 "all positive", for accuracy the
    share of the largest class.
    """
    n = len(targets)
    if objective.binary:
        candidates = [torch.full((n,), one, dtype=torch.float64) for one in (-1.0, 1.0)]
    else:
        candidates = [torch.eye(columns[0], dtype=torch.float64)[k].expand(n, -1) for k in range(columns[0])]
    found = [objective.value(one, targets) for one in candidates]
    known = [one for one in found if np.isfinite(one)]
    return max(known) if known else float("nan")


def metric_interval(
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float, clusters: Tensor | None = None
) -> tuple[float, float] | None:
    """95 % interval of the metric at a threshold that these rows did not choose; exact for accuracy."""
    n = len(targets)
    if isinstance(objective.metric, Accuracy) and clusters is None:
        return exact_interval(round(objective.value(scores, targets, threshold) * n), n)
    return bootstrap_interval(
        lambda rows: objective.value(scores[rows], targets[rows], threshold), n, clusters=clusters
    )


def or_undefined(value: float, digits: int = 4) -> str:
    """A number for the screen, or that these rows do not define it: a class is missing, or nothing was decided so.

    Example:
        >>> or_undefined(0.5), or_undefined(float("nan"))
        ('0.5000', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.{digits}f}"
