"""One network behind `MetricClassifier`: numbers in, the best of four ways to train on held-out rows, scores out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..fitting.calibrate import class_scaling, platt
from ..fitting.config import Recipe, Settings, Stage
from ..fitting.fit import Fit
from ..fitting.models import scores_of
from ..fitting.objective import Objective
from ..fitting.steps import Task

Array = NDArray[Any]

#: Not the program's recipes, which go by batches: scikit-learn asks that a weight of two be a repeated row, which is so
#: only where every step sees all rows at once.
_RECIPE = Recipe(
    name="estimator",
    title="cross-entropy, weighted, metric, head",
    stages=(
        Stage(loss="ce", batch=-1),
        Stage(loss="weighted_ce", batch=-1),
        Stage(loss="metric", start="best", batch=-1, rate=0.3, optional=True),
        Stage(loss="head", start="best", optional=True),
    ),
)


@dataclass
class FittedNetwork:
    """A network with the scaling of its inputs, its calibration, and where it decides.

    Attributes:
        model: With the best weights.
        mean: Subtracted from each column.
        scale: Each column is divided by it.
        outputs: 1, or the number of classes.
        threshold: Decisions are ``score > threshold``; 0 for several classes.
        calibration: From scores to log-odds, as `platt` or `class_scaling` return it.
        found: The metric on the held-out rows.
        looks: How often the held-out rows were looked at.
    """

    model: nn.Module
    mean: Array
    scale: Array
    outputs: int
    threshold: float
    calibration: Any
    found: float
    looks: int

    def scores(self, X: Array) -> Tensor:
        """``(n,)``, or ``(n, c)`` for several classes."""
        return scores_of(self.model, torch.from_numpy(_scaled(X, self.mean, self.scale)), self.outputs)


def fit_network(
    X: Array,
    ids: Array,
    objective: Objective,
    outputs: int,
    *,
    weights: Array | None,
    held_out: float,
    settings: Settings,
    seed: int,
) -> FittedNetwork:
    """Trains on the rows that are not held out, and chooses, calibrates and decides on those that are.

    Args:
        X: ``(n, d)`` numbers.
        ids: Class ids ``(n,)``; 1 is the positive class of a binary metric.
        objective: The metric.
        outputs: 1, or the number of classes.
        weights: Of the rows, or None; rows of weight 0 are left out.
        held_out: Share of the rows that are held out.
        settings: Of the network and its training.
        seed: Decides which rows are held out.
    """
    counted = np.ones(len(X)) if weights is None else weights
    kept = counted > 0
    X, ids, counted = X[kept], ids[kept], counted[kept]
    mean = np.average(X, axis=0, weights=counted)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=counted))
    scale = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    held = _held_out(X, ids, held_out, seed)
    train = ~held
    if not all(set(ids[part]) == set(ids) for part in (train, held)):
        train = held = np.ones(len(X), dtype=bool)  # too few rows to hold some out: look at all of them
    x, y = torch.from_numpy(_scaled(X, mean, scale)), torch.from_numpy(ids.astype(np.int64))
    parts = [None if weights is None else torch.from_numpy(counted[part]) for part in (train, held)]
    task = Task(x[train], y[train], x[held], y[held], objective, outputs, parts[0], parts[1])
    fitted = Fit(task, settings, _RECIPE).run()
    best = fitted.state.best
    threshold, calibration = _decided(task, fitted.model, float(best["threshold"]))
    looks = len(fitted.state.history)
    return FittedNetwork(fitted.model, mean, scale, outputs, threshold, calibration, best["value"], looks)


def _scaled(X: Array, mean: Array, scale: Array) -> Array:
    return np.ascontiguousarray((X - mean) / scale)


def _decided(task: Task, model: nn.Module, tuned: float) -> tuple[float, Any]:
    """Threshold and calibration, from the held-out rows."""
    scores = scores_of(model, task.x_validation, task.outputs)
    if task.outputs > 1:
        return 0.0, class_scaling(scores, task.y_validation, task.weights_validation)
    calibration = platt(scores, task.y_validation, task.weights_validation)
    return _prefer_even_odds(task, scores, tuned, calibration), calibration


def _prefer_even_odds(task: Task, scores: Tensor, tuned: float, calibration: tuple[float, float]) -> float:
    """Probability one half is the threshold unless the tuned one gains more than chance would on so few rows.

    On n held-out rows the best of many thresholds wins by about ``0.5 / √n`` for no reason. Where that is all it
    wins, one half is as good, and makes `predict` and `predict_proba` agree.
    """
    if calibration[0] == 0:
        return tuned
    even = -calibration[1] / calibration[0]
    objective = task.objective if task.objective.needs_threshold else Objective.of("f1")
    values = [objective.value(scores, task.y_validation, one, task.weights_validation) for one in (tuned, even)]
    weights = task.weights_validation
    rows = float(len(scores) if weights is None else weights.sum())
    return even if values[1] >= values[0] - 0.5 / max(1.0, rows) ** 0.5 else tuned


def _held_out(X: Array, ids: Array, fraction: float, seed: int) -> Array:
    """True for held-out rows. A row's own content decides (in the order of its hash within the class), not its place.

    Equal rows go together, so that a weight of two and a repeated row lead to the same split.
    """
    salt = str(seed).encode()
    digests = np.array([hashlib.sha256(salt + row.tobytes()).hexdigest() for row in np.ascontiguousarray(X + 0.0)])
    held = np.zeros(len(X), dtype=bool)
    for one in np.unique(ids):
        members = np.flatnonzero(ids == one)
        distinct = np.unique(digests[members])
        take = round(fraction * len(distinct)) or (1 if len(distinct) > 1 else 0)
        held[members] = np.isin(digests[members], distinct[:take])
    return held
