"""A scikit-learn classifier whose threshold is guaranteed to keep its floors, around any classifier with scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils import assert_all_finite, check_random_state, column_or_1d, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..constraints.parse import parse_constraint, parse_objective
from ..decisions import Decision, Problem

Array = NDArray[Any]

_DECLARED = {
    "fits on fewer than the 20 calibration rows that a promise needs": """
    classifier_data_not_an_array classifiers_classes classifiers_one_label_sample_weights dict_unchanged
    dont_overwrite_parameters estimators_dtypes estimators_fit_returns_self estimators_nan_inf
    estimators_overwrite_params estimators_pickle f_contiguous_array_estimator fit2d_1feature fit2d_predict1d
    fit_score_takes_y methods_sample_order_invariance methods_subset_invariance n_features_in_after_fitting
    pipeline_consistency readonly_memmap_input supervised_y_2d""",
    "predicts where its random rows allow no promise at the default floor": """
    dtype_object estimator_sparse_array estimator_sparse_matrix fit_idempotent""",
    "expects decisions at probability one half; another threshold is the point": "classifiers_train",
}
#: For ``sklearn.utils.estimator_checks.check_estimator(…, expected_failed_checks=EXPECTED_FAILED_CHECKS)``.
EXPECTED_FAILED_CHECKS = {f"check_{name}": reason for reason, names in _DECLARED.items() for name in names.split()}


def _has(method: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), method))


class GuaranteedThreshold(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Decides by a threshold at which the constraints truly hold with the stated confidence.

    A part of the rows is kept aside; the classifier is fitted on the others, and the threshold is tested on the part
    (see `Problem.decide`). The order of the tests comes from the classifier's own out-of-fold scores on the rows
    it is fitted on. Out-of-fold scores alone are not used for the tests: they belong to other models than the one that
    decides.

    Args:
        estimator: Any binary classifier with `predict_proba` or `decision_function`.
        maximize: A rate or a sum of rates, as text or as an expression.
        subject_to: One constraint or a list of them, as text or as expressions; groups by the names in ``groups``.
        confidence: Of the promise, in (0.5, 1).
        cv: Folds of the out-of-fold scores that order the tests; ``"prefit"`` takes the estimator as it is and all
            rows for the tests.
        calibration_fraction: Share of the rows that are kept aside for the tests.
        pos_label: The positive class; by default the second of ``classes_``.
        random_state: Decides which rows are kept aside.

    Attributes:
        estimator_: The fitted classifier.
        classes_: The labels.
        decision_: The `Decision`; without threshold where nothing can be guaranteed, and then `predict` raises.
        threshold_: Of the scores, or None.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> inner = make_pipeline(StandardScaler(), LogisticRegression())
        >>> model = GuaranteedThreshold(inner, subject_to="precision >= 0.9", random_state=0).fit(X, y)
        >>> model.decision_.guarantee.promise
        'precision >= 0.9'
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        maximize: Any = "recall",
        subject_to: Any = "precision >= 0.9",
        confidence: float = 0.95,
        cv: Any = 5,
        calibration_fraction: float = 0.5,
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.maximize = maximize
        self.subject_to = subject_to
        self.confidence = confidence
        self.cv = cv
        self.calibration_fraction = calibration_fraction
        self.pos_label = pos_label
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None, cluster: Any = None, **params: Any) -> GuaranteedThreshold:
        """Fits on a part of the rows and decides on the others.

        Raises:
            ValueError: Fewer than 20 rows to decide on, one class only, scores that are not finite, or ``params`` for
                an estimator that is fitted already.

        Args:
            X: Rows, as the estimator takes them.
            y: ``(n,)`` labels of two classes.
            groups: Labels ``(n,)`` by the name that constraints use: a dict, or a data frame.
            cluster: Ids ``(n,)`` of rows that belong together: they stay in one part, the promise is for new ones.
            params: For the estimator's own `fit`, such as ``sample_weight``, by metadata routing where that is
                enabled. The promise counts rows, whatever their weights.
        """
        problem = self._problem()
        X, y = indexable(X, y)
        if _num_samples(X) == 0:
            raise ValueError("0 sample(s) in X; a threshold needs rows of 2 classes.")
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]!r}); a threshold needs rows of 2 classes.")
        if len(self.classes_) > 2:
            kind = type_of_target(y, input_name="y")
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if self.pos_label is not None and self.pos_label not in self.classes_:
            raise ValueError(f"pos_label={self.pos_label!r} is not among the labels {self.classes_.tolist()}.")
        self._positive = 1 if self.pos_label is None else int(np.flatnonzero(self.classes_ == self.pos_label)[0])
        target = y == self.classes_[self._positive]
        codes = _codes(groups, problem.attributes, len(y))
        ids = None if cluster is None else np.unique(np.asarray(cluster), return_inverse=True)[1]
        if self.cv == "prefit":
            if params:
                raise ValueError(f"cv='prefit' fits nothing, so {sorted(params)} would be ignored: leave them out.")
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            self._copy_facts()
            scores = self._scores(X)
            self.decision_ = problem.decide(scores, target, groups=codes, guarantee=self.confidence, cluster=ids)
        else:
            routing = params and get_config()["enable_metadata_routing"]
            routed = process_routing(self, "fit", **params).estimator.fit if routing else params
            self.decision_ = self._fit_and_decide(problem, X, y, target, codes, routed, ids)
        self.threshold_ = self.decision_.threshold
        return self

    def _fit_and_decide(
        self, problem: Problem, X: Any, y: Array, target: Any, codes: dict[str, Any], routed: dict[str, Any], ids: Any
    ) -> Decision:
        from sklearn.model_selection import cross_val_predict
        from sklearn.utils import _safe_indexing

        rng = check_random_state(self.random_state)
        units = np.arange(len(y)) if ids is None else ids  # whole clusters are kept aside
        order = rng.permutation(int(units.max()) + 1)
        aside = np.isin(units, order[: round(self.calibration_fraction * len(order))])
        held, rest = np.flatnonzero(aside), np.flatnonzero(~aside)
        inner, y_inner = _safe_indexing(X, rest), y[rest]
        if len(np.unique(y_inner)) < 2:
            raise ValueError(f"The {len(rest)} rows left for fitting are of one class only; give more rows.")
        given = {key: _safe_indexing(value, rest) for key, value in routed.items()}
        self.estimator_ = clone(self.estimator).fit(inner, y_inner, **given)
        self._copy_facts()
        by_cluster = ids is not None and isinstance(self.cv, int)
        folds = StratifiedGroupKFold(self.cv) if by_cluster else check_cv(self.cv, y_inner, classifier=True)
        smallest = int(np.unique(y_inner, return_counts=True)[1].min())
        if isinstance(self.cv, int) and smallest < self.cv:
            order_scores = self._scores(inner)  # too few rows for folds: the order may be poor, the promise holds
        else:
            order_scores = _positive_column(
                cross_val_predict(
                    clone(self.estimator),
                    inner,
                    y_inner,
                    groups=None if ids is None else ids[rest],
                    cv=folds,
                    method=self._method(),
                    params=given or None,
                ),
                self._positive,
            )
        here, there = (None, None) if ids is None else (ids[held], ids[rest])
        others = (order_scores, target[rest], {key: value[rest] for key, value in codes.items()}, there)
        scores = self._scores(_safe_indexing(X, held))
        own = {key: value[held] for key, value in codes.items()}
        return problem.decide(scores, target[held], groups=own, guarantee=self.confidence, learn=others, cluster=here)

    def _copy_facts(self) -> None:
        for fact in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, fact):
                setattr(self, fact, getattr(self.estimator_, fact))

    def _problem(self) -> Problem:
        objective = parse_objective(self.maximize) if isinstance(self.maximize, str) else self.maximize
        given = [self.subject_to] if isinstance(self.subject_to, str) else self.subject_to
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        constraints = [parse_constraint(bound) if isinstance(bound, str) else bound for bound in given]
        return Problem("maximize", objective, constraints)

    def _method(self) -> str:
        for method in ("predict_proba", "decision_function"):
            if hasattr(self.estimator_, method):
                return method
        raise TypeError(f"{self.estimator!r} has neither predict_proba nor decision_function.")

    def _scores(self, X: Any) -> Array:
        return _positive_column(getattr(self.estimator_, self._method())(X), self._positive)

    def predict(self, X: Any) -> Array:
        """The positive class where the score is above the guaranteed threshold."""
        check_is_fitted(self, "decision_")
        if self.threshold_ is None:
            raise NotFittedError(str(self.decision_.guarantee))
        above = self._scores(X) > self.threshold_
        return np.asarray(self.classes_[np.where(above, self._positive, 1 - self._positive)])

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        check_is_fitted(self, "decision_")
        return np.asarray(self.estimator_.predict_proba(X))

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        check_is_fitted(self, "decision_")
        return np.asarray(self.estimator_.decision_function(X))

    def get_metadata_routing(self) -> MetadataRouter:
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))


def _positive_column(scores: Any, positive: int) -> Array:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 2:
        return np.ascontiguousarray(scores[:, positive])
    return np.ascontiguousarray(scores if positive == 1 else -scores)


def _codes(groups: Any, names: tuple[str, ...], n: int) -> dict[str, Any]:
    """Group labels as numbers; words are numbered in alphabetical order."""
    codes = {}
    for name in names:
        if groups is None or name not in groups:
            raise ValueError(f"A constraint names the group {name!r}: pass groups={{{name!r}: labels}} to fit.")
        column = np.asarray(groups[name])
        if column.shape != (n,):
            raise ValueError(f"groups[{name!r}] has shape {column.shape}, expected ({n},).")
        numeric = column.dtype.kind in "biuf"
        codes[name] = column.astype(np.float64) if numeric else np.unique(column, return_inverse=True)[1]
    return codes
