"""Numbers that any reader asks for, whatever the model was trained for; each with what a constant reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....fitting.intervals import Interval, bootstrap_interval, exact_interval
from ....fitting.objective import Objective
from ....metrics import AUROC, Accuracy, AUROCOneVsRest, AveragePrecision, Metric
from .probabilities import brier, log_loss

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Beside:
    """A number as a function of row numbers (with repetitions), so that it can be drawn again."""

    name: str
    value: Callable[[Tensor], float]
    constant: float
    higher_is_better: bool = True
    #: A share of the rows, whose interval is exact.
    share: bool = False

    def row(self, n: int, thorough: bool) -> dict[str, Any]:
        value = self.value(torch.arange(n))
        return {
            "name": self.name,
            "value": value,
            "constant": self.constant,
            "higher_is_better": self.higher_is_better,
            "interval": self._interval(value, n) if thorough else None,
        }

    def _interval(self, value: float, n: int) -> Interval | None:
        return exact_interval(round(value * n), n) if self.share else bootstrap_interval(self.value, n)


def numbers_beside(
    objective: Objective, scores: Tensor, targets: Tensor, probabilities: Array | None, thorough: bool
) -> list[dict[str, Any]]:
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
        Beside(name, partial(_exact, metric, scores, targets), constant, share=isinstance(metric, Accuracy))
        for name, metric, constant in ranked
        if metric != objective.metric
    ]
    if probabilities is not None:
        y = targets.double().numpy()
        constant = np.broadcast_to(shares[1] if objective.binary else shares, probabilities.shape)
        for name, score in (("Brier score", brier), ("log loss", log_loss)):
            found.append(Beside(name, partial(_scored, score, probabilities, y), score(constant, y), False))
    return [one.row(len(targets), thorough) for one in found]


def _exact(metric: Metric, scores: Tensor, targets: Tensor, rows: Tensor) -> float:
    return float(metric.value(scores[rows], targets[rows]))


def _scored(score: Callable[[Array, Array], float], probabilities: Array, targets: Array, rows: Tensor) -> float:
    return score(probabilities[rows.numpy()], targets[rows.numpy()])
