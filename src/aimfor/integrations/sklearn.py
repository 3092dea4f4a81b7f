"""A scikit-learn classifier trained on the metric you are judged by."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from ..data.columns import Column, TableEncoder, columns_of
from ..data.executors import cores
from ..data.source import copied_rows
from ..errors import CopiesWarning, InputError, callers_level
from ..learners.ensemble import Ensemble, fit_ensemble
from ..metrics import Metric
from ..metrics.at_rate import AtRate
from ..targets.calibrate import probability
from ..targets.objective import Objective
from .guaranteed_threshold import GuaranteedThreshold
from .network_estimator import NetworkSettings, fit_network

__all__ = ["GuaranteedThreshold", "MetricClassifier"]

Array = NDArray[Any]

#: What only one network has; under an ensemble these must be left as they are.
_NETWORK_ONLY = {"hidden": 32, "epochs": 100, "learning_rate": 1e-2, "weight_decay": 1e-3, "validation_fraction": 0.2}


class MetricClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What `aimfor train` makes of a table: an ensemble weighed by the metric on out-of-fold rows.

    Data frames with text, dates and missing values are taken as they are. With ``model="mlp"`` or ``"linear"`` it is
    one small network instead, for numbers: cross-entropy, weighted cross-entropy, the metric's own loss and a refitted
    last layer are tried in turn, and the best on held-out rows is kept. That recipe is its own and not the program's:
    there a weight of two is a repeated row, as scikit-learn asks, which only steps on all rows at once can keep.

    Args:
        metric: A `Metric` or its name: ``"auroc"``, ``"f1"``, ``"recall@precision=0.9"``, …; for more than two classes
            a multi-class metric such as ``"auroc_ovr"``.
        model: ``"ensemble"``, ``"mlp"`` or ``"linear"``.
        members: Kinds of members of the ensemble, and scikit-learn classifiers of your own, which learn from the
            encoded columns: ``["linear", "trees", RandomForestClassifier()]``; also as one text, ``"linear,trees"``.
        pos_label: The positive class of a binary metric; by default the second in order.
        n_jobs: Processes for the ensemble's folds; -1 takes one per core.
        hidden: Width of the hidden layers.
        epochs: Passes over the data per candidate.
        learning_rate: Of AdamW.
        weight_decay: Of AdamW.
        validation_fraction: Share of the rows held out. Rows are chosen by their content, so equal rows stay together.
        random_state: Decides the folds, the initial weights and the held-out rows.

    Attributes:
        classes_: The labels, in order.
        threshold_: Tuned on out-of-fold (or held-out) rows; `decision_function` is the score minus it.
        guarantee_: False for a metric with a floor, such as ``"recall@precision=0.9"``: the threshold is the best for
            it on rows that also chose the model, and nothing is promised for new ones. `GuaranteedThreshold` around
            this classifier keeps a floor. None for a metric without one.
        metric_: The metric estimated from out-of-fold rows (or found on the held-out ones).
        ensemble_: The fitted `aimfor.learners.ensemble.Ensemble`; its ``weighted_members`` hold the members' weights.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = MetricClassifier(metric="f1", members=("linear",), random_state=0).fit(X[:400], y[:400])
        >>> bool(model.score(X[400:], y[400:]) > 0.9)
        True
    """

    def __init__(
        self,
        metric: str | Metric = "auroc",
        *,
        model: str = "ensemble",
        members: Sequence[Any] | str = ("linear", "trees", "network"),
        pos_label: Any = None,
        n_jobs: int = 1,
        hidden: int = 32,
        epochs: int = 100,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-3,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.model = model
        self.members = members
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            tags.classifier_tags.multi_class = not _objective(self.metric).binary
        except ValueError:  # an unknown name is refused by fit, not by a question about tags
            tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = self.model == "ensemble"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MetricClassifier:
        """Trains on the rows of ``X`` ``(n, d)`` with labels ``y`` ``(n,)``.

        Rows with one value of ``groups`` ``(n,)`` never stand on both sides of a fold (ensemble only).
        """
        objective = _objective(self.metric)
        X, y = self._validated(X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, ids = np.unique(y, return_inverse=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if weights is not None and (weights < 0).any():
            raise ValueError("Negative values in data passed to `sample_weight`.")
        self._check_classes(objective, y, ids, weights)
        ids = self._ids(objective, ids)
        seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        self.guarantee_ = False if isinstance(objective.metric, AtRate) else None
        if self.model == "ensemble":
            return self._fit_ensemble(objective, X, ids, weights, seed, groups)
        if groups is not None:
            raise InputError("groups", f"some for model={self.model!r}", "none, or model='ensemble'")
        self.network_ = fit_network(
            X,
            ids,
            objective,
            1 if objective.binary else len(self.classes_),
            weights=weights,
            held_out=self.validation_fraction,
            settings=NetworkSettings(self.model, self.hidden, self.epochs, self.learning_rate, self.weight_decay),
            seed=seed,
        )
        self.metric_, self.n_iter_ = self.network_.value, self.network_.checkpoints
        self.calibration_: Any = self.network_.calibration
        if objective.binary:
            self.threshold_ = self.network_.threshold
        return self

    def _validated(self, X: Any, *y: Any) -> Any:
        """Data frames are kept as they are for the ensemble; anything else becomes a float64 matrix."""
        ensemble = self.model == "ensemble"
        if _is_frame(X) and ensemble:
            validate_data(self, X, skip_check_array=True, reset=bool(y))
            return (X, np.asarray(y[0])) if y else X
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan" if ensemble else True}
        if y:
            return validate_data(self, X, y[0], multi_output=False, **checks)
        return validate_data(self, X, reset=False, **checks)

    def _ids(self, objective: Objective, ids: Array) -> Array:
        """Class ids; for a binary metric 1 where the label is the positive one."""
        if self.pos_label is None or not objective.binary:
            return ids
        if self.pos_label not in self.classes_.tolist():
            raise InputError("pos_label", repr(self.pos_label), f"one of {self.classes_.tolist()}")
        return np.asarray((self.classes_[ids] == self.pos_label).astype(np.int64))

    def _fit_ensemble(
        self, objective: Objective, X: Any, ids: Array, weights: Array | None, seed: int, groups: Any
    ) -> MetricClassifier:
        changed = [name for name, usual in _NETWORK_ONLY.items() if getattr(self, name) != usual]
        if changed:
            came, remedy = repr(getattr(self, changed[0])), "It is about one network: set model='mlp' as well."
            raise InputError(changed[0], came, "its default for model='ensemble'", remedy)
        outputs = 1 if objective.binary else len(self.classes_)
        jobs = cores() if self.n_jobs == -1 else self.n_jobs
        self.table_: FittedTable = fit_table(
            X,
            ids,
            objective,
            outputs,
            members=tuple(self.members.split(",") if isinstance(self.members, str) else self.members),
            weights=weights,
            groups=None if groups is None else column_or_1d(groups),
            seed=seed,
            workers=jobs,
        )
        self.ensemble_ = self.table_.ensemble
        self.metric_, self.n_iter_ = self.ensemble_.cross_validated, len(self.ensemble_.weighted_members)
        self.calibration_ = (1.0, 0.0) if outputs == 1 else (1.0, [0.0] * outputs)
        if outputs == 1:
            self.threshold_ = self.ensemble_.threshold.value
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

    def _scores(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = self._validated(X)
        return self.table_.scores(X) if self.model == "ensemble" else self.network_.scores(X)

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
        if decided.ndim == 1:
            return np.asarray(np.where(decided > 0, *self._positive_first()))
        return np.asarray(self.classes_[decided.argmax(1)])

    def _positive_first(self) -> tuple[Any, Any]:
        """The label that is decided above the threshold, and the other."""
        first, last = self.classes_[0], self.classes_[-1]
        return (first, last) if self.pos_label is not None and self.pos_label == first else (last, first)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The metric, at the tuned threshold where it makes decisions."""
        objective = _objective(self.metric)
        scores = self._scores(X)
        labels = np.asarray(y)
        if objective.binary:
            ids = labels == self._positive_first()[0]
        else:
            ids = np.searchsorted(self.classes_, labels)
        weights = None if sample_weight is None else torch.from_numpy(np.asarray(sample_weight, dtype=np.float64))
        threshold = getattr(self, "threshold_", 0.0)
        return objective.value(scores, torch.from_numpy(np.asarray(ids).astype(np.int64)), threshold, weights)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities ``(n, c)``, calibrated on held-out rows (Platt's sigmoid, or softmax with class offsets)."""
        if not hasattr(self, "threshold_"):
            columns = torch.from_numpy(self.decision_function(X))
            columns = columns if columns.ndim == 2 else torch.stack((torch.zeros_like(columns), columns), 1)
            return np.asarray(columns.softmax(1).numpy())
        positive = probability(self._scores(X), self.calibration_).numpy()
        pair = np.stack((1 - positive, positive), axis=1)
        return pair if self._positive_first()[0] == self.classes_[-1] else np.flip(pair, axis=1)


def _objective(metric: str | Metric) -> Objective:
    return Objective.of(metric) if isinstance(metric, str) else Objective(repr(metric), metric)


def _is_frame(X: Any) -> bool:
    """A data frame of any library: its columns may hold text, dates and missing values."""
    if hasattr(X, "collect_schema") and not hasattr(X, "__arrow_c_stream__"):
        raise InputError("X", f"a {type(X).__name__}, which holds no rows yet", "a data frame", "Pass X.collect().")
    return hasattr(X, "__arrow_c_stream__") or (hasattr(X, "iloc") and hasattr(X, "columns"))


@dataclass
class FittedTable:
    """An encoder and the ensemble that learned from its matrix."""

    encoder: TableEncoder
    ensemble: Ensemble

    def scores(self, X: Any) -> Tensor:
        return self.ensemble.scores(torch.from_numpy(self.encoder.transform(columns_of(X))))


def fit_table(
    X: Any,
    ids: Array,
    objective: Objective,
    outputs: int,
    *,
    members: tuple[Any, ...],
    weights: Array | None,
    groups: Array | None,
    seed: int,
    workers: int,
) -> FittedTable:
    """Fits encoder and ensemble on all rows.

    Args:
        X: A data frame or an ``(n, d)`` array; missing values are welcome.
        ids: Class ids ``(n,)``; 1 is the positive class of a binary metric.
        objective: The metric.
        outputs: 1, or the number of classes.
        members: Kinds of members, and scikit-learn classifiers.
        weights: Of the rows, or None.
        groups: Labels ``(n,)`` of rows that belong together, or None.
        seed: Decides folds and everything random.
        workers: Processes.
    """
    columns = columns_of(X)
    encoder = TableEncoder.fit(columns)
    if groups is None:
        groups = _kept_together(columns, ids)
    together = None if groups is None else torch.from_numpy(np.unique(groups, return_inverse=True)[1].astype(np.int64))
    ensemble = fit_ensemble(
        torch.from_numpy(encoder.transform(columns)),
        torch.from_numpy(ids.astype(np.int64)),
        objective,
        outputs=outputs,
        levels=encoder.levels,
        weights=None if weights is None else torch.from_numpy(np.asarray(weights, dtype=np.float64)),
        groups=together,
        kinds=members,
        seed=seed,
        workers=workers,
    )
    return FittedTable(encoder, ensemble)


def _kept_together(columns: Mapping[str, Column], ids: Array) -> Array | None:
    """The set of equal rows that each row belongs to, with a warning, where rows are copies of others."""
    copied = copied_rows(columns, ids)
    if copied is None:
        return None
    sets, sentence = copied
    apart = min(len(np.unique(sets[ids == label])) for label in np.unique(ids)) >= 2
    effect = "equal rows stay in one fold, and metric_ is about the rows as given" if apart else "metric_ is too high"
    text = f"{sentence}: {effect}. An oversampler belongs behind the split, or nowhere."
    warnings.warn(text, CopiesWarning, stacklevel=callers_level())
    return sets if apart else None
