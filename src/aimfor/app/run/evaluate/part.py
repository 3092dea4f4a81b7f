"""Everything the report shows about one part of the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....fitting.intervals import bootstrap_interval, exact_interval
from ....fitting.objective import Objective
from ....metrics import Accuracy
from .beside import numbers_beside
from .classes import class_table, confusion_matrix
from .curves import curves, histogram, steps
from .decisions import by_group, confusion, rates
from .probabilities import reliability

Array = NDArray[np.float64]


def evaluate(
    objective: Objective,
    scores: Tensor,
    targets: Tensor,
    threshold: float,
    groups: NDArray[Any] | None = None,
    *,
    probabilities: Array | None = None,
    thorough: bool = False,
) -> dict[str, Any]:
    """The metric and what explains it.

    Args:
        objective: The metric the model was trained for.
        scores: ``(n,)``, or ``(n, c)`` for several classes.
        targets: ``(n,)`` class ids.
        threshold: Decisions are ``score > threshold`` (two classes).
        groups: A name for every row, for the table by group.
        probabilities: ``(n,)`` of the positive class or ``(n, c)``, for Brier score and reliability.
        thorough: Bootstrap intervals too. A comparison over seeds has intervals of its own and leaves them out.
    """
    result: dict[str, Any] = {
        "metric": objective.value(scores, targets, threshold),
        "baseline": constant_value(objective, targets, scores.shape[1:]),
        "n": len(targets),
    }
    if thorough:
        result["interval"] = metric_interval(objective, scores, targets, threshold)
    if probabilities is not None:
        result["reliability"] = reliability(probabilities, targets.double().numpy())
    result["beside"] = numbers_beside(objective, scores, targets, probabilities, thorough)
    if objective.binary:
        return result | _of_two_classes(objective, scores, targets, threshold, groups)
    matrix = confusion_matrix(scores, targets)
    return result | {"confusion": matrix.tolist(), "per_class": class_table(scores, targets, matrix)}


def _of_two_classes(
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float, groups: NDArray[Any] | None
) -> dict[str, Any]:
    s, y = scores.double().numpy(), targets.double().numpy()
    counts = confusion(s, y, threshold)
    result: dict[str, Any] = {
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
    }
    certificate = objective.certificate(scores, targets, threshold)
    if certificate is not None:
        result["certificate"] = certificate.to_dict() | {"text": str(certificate)}
    if groups is not None:
        result["groups"] = by_group(s, y, threshold, groups)
    return result


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
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float
) -> tuple[float, float] | None:
    """95 % interval of the metric at a threshold that these rows did not choose; exact for accuracy."""
    n = len(targets)
    if isinstance(objective.metric, Accuracy):
        return exact_interval(round(objective.value(scores, targets, threshold) * n), n)
    return bootstrap_interval(lambda rows: objective.value(scores[rows], targets[rows], threshold), n)


def or_undefined(value: float, digits: int = 4) -> str:
    """A number for the screen, or that these rows do not define it: a class is missing, or nothing was decided so.

    Example:
        >>> or_undefined(0.5), or_undefined(float("nan"))
        ('0.5000', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.{digits}f}"
