"""A scikit-learn classifier trained on the metric you are judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from ..fitting.calibrate import class_scaling, platt, probability
from ..fitting.config import Recipe, Settings, Stage
from ..fitting.fit import Fit
from ..fitting.models import scores_of
from ..fitting.objective import Objective
from ..fitting.steps import Task

Array = NDArray[Any]

#: Every candidate sees all rows at once, so that sample weights mean exactly repetition; the best on held-out rows
#: wins.
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


class MetricClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A small network trained for a metric, with its threshold and probabilities fitted on held-out rows.

    Cross-entropy, weighted cross-entropy, the metric's own loss and a refitted last layer are tried in turn; the one
    with the best metric on held-out rows is kept, so the plain networks are never lost to.

    Args:
        metric: A metric's name: ``"auroc"``, ``"f1"``, ``"recall@precision=0.9"``, …; for more than two classes a
            multi-class metric such as ``"auroc_ovr"``.
        model: ``"mlp"`` or ``"linear"``.
        hidden: Width of the hidden layers.
        epochs: Passes over the data per candidate.
        learning_rate: Of AdamW.
        weight_decay: Of AdamW.
        validation_fraction: Share of the rows held out. Rows are chosen by their content, so equal rows stay together.
        random_state: Decides the initial weights and the held-out rows.

    Attributes:
        classes_: The labels; the second is the positive class.
        threshold_: Tuned on the held-out rows; `decision_function` is the score minus it.
        metric_: The metric on the held-out rows.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = MetricClassifier(metric="f1", epochs=20, random_state=0).fit(X[:400], y[:400])
        >>> bool(model.score(X[400:], y[400:]) > 0.9)
        True
    """

    def __init__(
        self,
        metric: str = "auroc",
        *,
        model: str = "mlp",
        hidden: int = 32,
        epochs: int = 100,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-3,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.model = model
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            tags.classifier_tags.multi_class = not Objective.of(self.metric).binary
        except ValueError:  # an unknown name is refused by fit, not by a question about tags
            tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MetricClassifier:
        """Trains on the rows of ``X`` ``(n, d)`` with labels ``y`` ``(n,)``."""
        objective = Objective.of(self.metric)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=False)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, ids = np.unique(y, return_inverse=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if weights is not None and (weights < 0).any():
            raise ValueError("Negative values in data passed to `sample_weight`.")
        self._check_classes(objective, y, ids, weights)
        counted = np.ones(len(X)) if weights is None else weights
        kept = counted > 0
        X, ids, counted = X[kept], ids[kept], counted[kept]
        self.mean_ = np.average(X, axis=0, weights=counted)
        scale = np.sqrt(np.average((X - self.mean_) ** 2, axis=0, weights=counted))
        self.scale_ = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(self.mean_)), scale, 1.0)
        seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        task = self._task(objective, X, ids, None if weights is None else counted, seed)
        fitted = Fit(task, self._settings(seed), _RECIPE).run()
        self.model_ = fitted.model
        self.n_iter_ = len(fitted.state.history)
        self.metric_ = fitted.state.best["value"]
        self._calibrate(task, float(fitted.state.best["threshold"]))
        return self

    def _check_classes(self, objective: Objective, y: Array, ids: Array, weights: Array | None) -> None:
        seen = len(np.unique(ids if weights is None else ids[weights > 0]))
        if seen < 2:
            raise ValueError(
                f"y has one class only ({self.classes_[0]!r} …); a metric needs rows of at least 2 classes."
            )
        if objective.binary and len(self.classes_) > 2:
            kind = type_of_target(y, input_name="y")
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. "
                "Use a multi-class metric such as 'auroc_ovr'."
            )

    def _settings(self, seed: int) -> Settings:
        return Settings(
            data="",
            metric=self.metric,
            model=self.model,
            hidden=self.hidden,
            dropout=0.0,  # masks depend on the number of rows, and weights would not mean repetition
            epochs=self.epochs,
            batch_size=1024,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=20,
            seed=seed % 2**20,
        )

    def _task(self, objective: Objective, X: Array, ids: Array, weights: Array | None, seed: int) -> Task:
        held = _held_out(X, ids, self.validation_fraction, seed)
        train = ~held
        if not all(set(ids[part]) == set(ids) for part in (train, held)):
            train = held = np.ones(len(X), dtype=bool)  # too few rows to hold some out: judge on all of them
        x, y = torch.from_numpy(self._scaled(X)), torch.from_numpy(ids.astype(np.int64))
        given = None if weights is None else torch.from_numpy(weights)
        outputs = 1 if objective.binary else len(self.classes_)
        parts = [None if given is None else given[torch.from_numpy(part)] for part in (train, held)]
        return Task(x[train], y[train], x[held], y[held], objective, outputs, parts[0], parts[1])

    def _scaled(self, X: Array) -> Array:
        return np.ascontiguousarray((X - self.mean_) / self.scale_)

    def _calibrate(self, task: Task, threshold: float) -> None:
        scores = scores_of(self.model_, task.x_validation, task.outputs)
        if task.outputs == 1:
            self.calibration_: Any = platt(scores, task.y_validation, task.weights_validation)
            self.threshold_ = _prefer_even_odds(task, scores, threshold, self.calibration_)
        else:
            self.calibration_ = class_scaling(scores, task.y_validation, task.weights_validation)

    def _scores(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        outputs = 1 if hasattr(self, "threshold_") else len(self.classes_)
        return scores_of(self.model_, torch.from_numpy(self._scaled(X)), outputs)

    def decision_function(self, X: Any) -> Array:
        """Scores: ``(n,)``, above 0 where the positive class is decided; ``(n, c)`` log-odds for several classes."""
        scores = self._scores(X).numpy()
        if scores.ndim == 1:
            return np.asarray(scores - self.threshold_)
        slope, offsets = self.calibration_
        columns = slope * scores + np.array(offsets)
        return np.asarray(columns[:, 1] - columns[:, 0] if columns.shape[1] == 2 else columns)

    def predict(self, X: Any) -> Array:
        """Decisions at the tuned threshold, or the class with the highest score."""
        decided = self.decision_function(X)
        return np.asarray(self.classes_[(decided > 0).astype(int) if decided.ndim == 1 else decided.argmax(1)])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities ``(n, c)``, calibrated on held-out rows (Platt's sigmoid, or softmax with class offsets)."""
        if not hasattr(self, "threshold_"):
            columns = torch.from_numpy(self.decision_function(X))
            columns = columns if columns.ndim == 2 else torch.stack((torch.zeros_like(columns), columns), 1)
            return np.asarray(columns.softmax(1).numpy())
        positive = probability(self._scores(X), self.calibration_).numpy()
        return np.stack((1 - positive, positive), axis=1)


def _prefer_even_odds(task: Task, scores: Tensor, tuned: float, calibration: tuple[float, float]) -> float:
    """Probability one half is the threshold unless the tuned one gains more than chance would on so few rows.

    On n held-out rows the best of many thresholds wins by about ``0.5 / √n`` for no reason. Where that is all it
    wins, one half is as good, and makes `predict` and `predict_proba` agree.
    """
    if calibration[0] == 0:
        return tuned
    even = -calibration[1] / calibration[0]
    judge = task.objective if task.objective.needs_threshold else Objective.of("f1")
    values = [judge.value(scores, task.y_validation, one, task.weights_validation) for one in (tuned, even)]
    weights = task.weights_validation
    rows = float(len(scores) if weights is None else weights.sum())
    return even if values[1] >= values[0] - 0.5 / max(1.0, rows) ** 0.5 else tuned


def _held_out(X: Array, ids: Array, fraction: float, seed: int) -> Array:
    """True for held-out rows. A row's own content decides (in the order of its hash within the class), not its place.

    Equal rows go together, so that a weight of two and a repeated row lead to the same split.
    """
    import hashlib

    salt = str(seed).encode()
    digests = np.array([hashlib.sha256(salt + row.tobytes()).hexdigest() for row in np.ascontiguousarray(X + 0.0)])
    held = np.zeros(len(X), dtype=bool)
    for one in np.unique(ids):
        members = np.flatnonzero(ids == one)
        distinct = np.unique(digests[members])
        take = round(fraction * len(distinct)) or (1 if len(distinct) > 1 else 0)
        held[members] = np.isin(digests[members], distinct[:take])
    return held
