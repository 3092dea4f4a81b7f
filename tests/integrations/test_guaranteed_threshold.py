"""GuaranteedThreshold: the promise holds for any classifier, and scikit-learn's own checks pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from aimfor.integrations.guaranteed_threshold import EXPECTED_FAILED_CHECKS
from aimfor.integrations.sklearn import GuaranteedThreshold
from aimfor.rates import precision, recall

CLASSIFIERS = [LogisticRegression(), LinearSVC(), GaussianNB()]


def sample(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return rng.normal(size=(n, 3)) + y[:, None] * [1.5, 1.0, 0.0], np.where(y, "yes", "no")


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), LinearSVC(), GaussianNB()], ids=lambda one: type(one).__name__
)
def test_a_floor_holds_on_new_rows(estimator: Any) -> None:
    X, y = sample(4000, 0)
    model = GuaranteedThreshold(estimator, subject_to="precision >= 0.8", random_state=0).fit(X, y)
    fresh, truth = sample(20_000, 1)
    found = model.predict(fresh) == "yes"
    assert (truth[found] == "yes").mean() >= 0.795
    assert found.mean() > 0.15


def test_the_promise_is_kept_over_draws() -> None:
    broken = given = 0
    fresh, truth = sample(50_000, 999)
    for seed in range(40):
        model = GuaranteedThreshold(GaussianNB(), subject_to=precision >= 0.8, random_state=seed)
        model.fit(*sample(2400, seed))
        if model.threshold_ is not None:
            found = model.predict(fresh) == "yes"
            given, broken = given + 1, broken + ((truth[found] == "yes").mean() < 0.8)
    assert given >= 30
    assert broken <= stats.binom.ppf(0.999, 40, 0.05)


def test_prefit_groups_and_expressions() -> None:
    X, y = sample(3000, 0)
    fitted = LogisticRegression().fit(*sample(2000, 5))
    site = np.where(np.arange(3000) % 2, "a", "b")
    model = GuaranteedThreshold(
        fitted, maximize=recall, subject_to=["worst(precision, site) >= 0.7", "positive_rate <= 50%"], cv="prefit"
    ).fit(X, y, groups={"site": site})
    assert model.estimator_ is fitted
    assert model.decision_.guarantee.rows == 2100
    assert set(model.predict(X)) == {"yes", "no"}
    with pytest.raises(ValueError, match="site"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="shape"):
        model.fit(X, y, groups={"site": site[:10]})


def test_the_positive_class_is_a_choice() -> None:
    X, y = sample(4000, 0)
    model = GuaranteedThreshold(LinearSVC(), subject_to="precision >= 0.9", pos_label="no", random_state=0).fit(X, y)
    found = model.predict(X) == "no"
    assert (y[found] == "no").mean() >= 0.9
    with pytest.raises(ValueError, match="pos_label"):
        clone(model).set_params(pos_label="maybe").fit(X, y)


def test_without_a_guarantee_prediction_is_refused_with_the_reason() -> None:
    model = GuaranteedThreshold(GaussianNB(), subject_to="precision >= 0.97", random_state=0).fit(*sample(150, 0))
    assert model.threshold_ is None
    with pytest.raises(NotFittedError, match=r"No threshold: precision >= 0\.97"):
        model.predict(sample(5, 1)[0])


def test_groups_and_weights_are_routed() -> None:
    X, y = sample(1500, 0)
    site, weights = np.arange(1500) % 2, np.ones(1500)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = GuaranteedThreshold(inner, subject_to="worst(precision, site) >= 0.6", random_state=0)
        model.set_fit_request(groups=True).fit(X, y, groups={"site": site}, sample_weight=weights)
    assert model.threshold_ is not None


def test_weights_reach_the_estimator_without_routing() -> None:
    X, y = sample(1500, 0)
    weights = np.where(y == "yes", 3.0, 1.0)
    given = GuaranteedThreshold(LogisticRegression(), random_state=0).fit(X, y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        routed = GuaranteedThreshold(inner, random_state=0).fit(X, y, sample_weight=weights)
    plain = GuaranteedThreshold(LogisticRegression(), random_state=0).fit(X, y)
    assert given.threshold_ == routed.threshold_
    assert given.estimator_.intercept_ == routed.estimator_.intercept_ > plain.estimator_.intercept_ + 0.5
    fitted = GuaranteedThreshold(plain.estimator_, cv="prefit")
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.fit(X, y, sample_weight=weights)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_fail_where_declared_and_nowhere_else() -> None:
    results = check_estimator(GuaranteedThreshold(LogisticRegression(), random_state=0), on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == set(EXPECTED_FAILED_CHECKS)
    for result in (one for one in results if one["status"] == "failed"):
        reason = EXPECTED_FAILED_CHECKS[result["check_name"]]
        found = _whole(result["exception"])
        assert ("expected at least 20" in found, "No threshold" in found) == ("20" in reason, "promise at" in reason)
    assert sum(result["status"] == "passed" for result in results) >= 25


MODEL = GuaranteedThreshold(LogisticRegression(), subject_to="positive_rate <= 1", random_state=0)
#: One half again; and calibration rows of one class.
FAIL_STILL = ("check_classifiers_train", "check_fit2d_1feature")
GENERATED = [check for _, check in estimator_checks_generator(MODEL, mark=None)]
CHECKS = [check for check in GENERATED if check.func.__name__ not in FAIL_STILL]
NAMES = [f"{place}-{check.func.__name__}" for place, check in enumerate(CHECKS)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_without_the_limit_on_rows_the_checks_pass(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aimfor.decisions.task.FEWEST_ROWS", 1)
    check(clone(MODEL))


def _whole(error: BaseException | None) -> str:
    """The message with those of its causes."""
    return "" if error is None else f"{error} {_whole(error.__cause__)} {_whole(error.__context__)}"
