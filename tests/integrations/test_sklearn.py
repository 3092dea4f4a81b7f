"""MetricClassifier obeys scikit-learn's own rules and keeps its promises."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, fbeta_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import aimfor
from aimfor.errors import InputError
from aimfor.integrations import network_estimator
from aimfor.integrations.sklearn import MetricClassifier
from aimfor.learners.networks import one_network
from aimfor.targets import folds
from aimfor.targets.calibrate import class_scaling, platt
from undrawn import draw_less

SMALL: dict[str, Any] = {"model": "mlp", "epochs": 4, "hidden": 8, "random_state": 0}
ENSEMBLE = MetricClassifier("f1", members=("linear",), random_state=0)


@pytest.fixture
def few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three for a small table, and few draws for the weights; more would only take longer."""
    monkeypatch.setattr(folds, "SMALL_FOLDS", 3)
    draw_less(monkeypatch)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One penalty for the refit of the last layer, and as many steps on all rows at once as epochs were asked for,
    not 60 at least: the tests are not about how good a fit is."""
    monkeypatch.setattr(one_network, "HeadFitter", partial(one_network.HeadFitter, ridges=(0.1,), iterations=4))
    monkeypatch.setattr(network_estimator, "_LEAST_STEPS", 1)


def of_the_ensemble() -> list[Any]:
    """All checks but one: an ensemble's folds are drawn by rows, so a repeated row and a weight lead to other folds."""
    checks = estimator_checks_generator(ENSEMBLE)
    kept = [check for _, check in checks if "sample_weight_equivalence_on_dense" not in str(check)]
    assert len(kept) > 40
    return kept


@pytest.mark.usefixtures("few_steps")
@parametrize_with_checks(
    [MetricClassifier("f1", **{**SMALL, "model": "linear"}), MetricClassifier("auroc_ovr", **SMALL)]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::aimfor.errors.CopiesWarning")  # some checks repeat four rows
@pytest.mark.parametrize("check", of_the_ensemble(), ids=lambda check: getattr(check, "func", check).__name__)
def test_scikit_learns_own_checks_of_the_ensemble(check: Any, request: pytest.FixtureRequest) -> None:
    """In three folds, but for the checks that ask that a decision be the likelier class, which a threshold for F1 need
    not be: the one of the default's ten folds is on their data, the one of three is not."""
    if "check_classifiers_train" not in str(check):
        request.getfixturevalue("few_folds")
    check(clone(ENSEMBLE))


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    return make_classification(1500, 10, n_informative=5, weights=[0.9], class_sep=0.8, random_state=1)


def test_threshold_probabilities_and_ranking_are_worth_having(data: tuple[Any, Any]) -> None:
    X, y = data
    model = MetricClassifier("f1", model="mlp", random_state=0).fit(X[:1000], y[:1000])
    plain = LogisticRegression().fit(X[:1000], y[:1000])
    assert f1_score(y[1000:], model.predict(X[1000:])) > f1_score(y[1000:], plain.predict(X[1000:]))
    assert roc_auc_score(y[1000:], model.decision_function(X[1000:])) > 0.85
    probabilities = model.predict_proba(X[1000:])[:, 1]
    assert log_loss(y[1000:], probabilities) < log_loss(y[1000:], np.full(500, y[:1000].mean()))
    seen, stated = calibration_curve(y[1000:], probabilities, n_bins=3, strategy="quantile")
    assert np.abs(seen - stated).max() < 0.1


@pytest.mark.usefixtures("few_steps")
def test_pipelines_and_grid_search(data: tuple[Any, Any]) -> None:
    X, y = data
    pipeline = make_pipeline(StandardScaler(), MetricClassifier("ap", **SMALL))
    search = GridSearchCV(pipeline, {"metricclassifier__hidden": [4, 8]}, scoring="average_precision", cv=2)
    search.fit(X[:400], y[:400])
    assert search.best_score_ > y.mean()
    assert len(cross_val_score(MetricClassifier(**SMALL), X[:300], y[:300], cv=2, scoring="roc_auc")) == 2


@pytest.mark.usefixtures("few_steps")
def test_weights_mean_repetition(data: tuple[Any, Any]) -> None:
    X, y = data[0][:120], data[1][:120]
    weights = np.random.default_rng(0).integers(0, 3, 120)
    weighted = MetricClassifier("f1", **SMALL).fit(X, y, sample_weight=weights)
    repeated = MetricClassifier("f1", **SMALL).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6, atol=1e-8)


def test_several_classes_with_a_multi_class_metric() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = MetricClassifier("auroc_ovr", members=("linear",), random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    with pytest.raises(ValueError, match="Only binary"):
        MetricClassifier("auroc").fit(X, y)


@pytest.mark.usefixtures("few_folds", "few_steps")
@pytest.mark.parametrize("settings", [{"members": ("linear",), "random_state": 0}, SMALL])
def test_a_floor_that_nothing_tests_is_not_called_guaranteed(data: tuple[Any, Any], settings: dict[str, Any]) -> None:
    X, y = data[0][:300], data[1][:300]
    model = MetricClassifier("recall@precision=0.5", **settings).fit(X, y)
    assert model.guarantee_ is False
    assert model.set_params(metric="f1").fit(X, y).guarantee_ is None


def frame(rows: int = 160) -> tuple[Any, Any]:
    """Numbers with gaps, and text; the label depends on both."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    age, city = rng.normal(size=rows), rng.choice(["Bern", "Rome"], rows)
    y = np.where(age + (city == "Rome") + 0.4 * rng.normal(size=rows) > 0.6, "yes", "no")
    X = pandas.DataFrame({"age": np.where(rng.random(rows) < 0.1, np.nan, age), "city": city})
    return X, y


@pytest.mark.usefixtures("few_folds")
def test_data_frames_with_text_and_gaps_and_the_score_is_the_metric() -> None:
    X, y = frame()
    model = MetricClassifier("f1", members=("linear", "trees"), random_state=0).fit(X, y)
    assert list(model.feature_names_in_) == ["age", "city"]
    assert model.score(X, y) == pytest.approx(f1_score(y, model.predict(X), pos_label="yes"))
    assert model.predict_proba(X).shape == (160, 2)
    assert roc_auc_score(y == "yes", model.predict_proba(X)[:, 1]) > 0.85
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), again.decision_function(X))


@pytest.mark.usefixtures("few_folds")
def test_a_ensemble_survives_joblib_and_is_searched(tmp_path: Any) -> None:
    import joblib

    X, y = frame(100)
    search = GridSearchCV(MetricClassifier("ap", random_state=0), {"members": [("linear",), ("trees",)]}, cv=2).fit(
        X, y
    )
    assert 0.5 < search.best_score_ <= 1.0
    model = MetricClassifier("ap", random_state=0).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(model.decision_function(X), again.decision_function(X))


def test_metric_objects_and_the_positive_class() -> None:
    X, y = frame()
    other = MetricClassifier(aimfor.FBeta(2.0), members=("linear",), pos_label="no", random_state=0).fit(X, y)
    decided = other.predict(X)
    assert other.score(X, y) == pytest.approx(fbeta_score(y, decided, beta=2.0, pos_label="no"))
    np.testing.assert_array_equal(decided == "no", other.decision_function(X) > 0)
    assert np.corrcoef(other.predict_proba(X)[:, 0], other.decision_function(X))[0, 1] > 0.5
    with pytest.raises(InputError, match="pos_label: got 'maybe'"):
        MetricClassifier("f1", members=("linear",), pos_label="maybe").fit(X, y)
    with pytest.raises(InputError, match="epochs: got 5"):
        MetricClassifier("f1", epochs=5).fit(X, y)


def test_unknown_metric_is_named_and_unfitted_is_refused() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(InputError, match="aurok"):
        MetricClassifier("aurok").fit(X, y)
    with pytest.raises(NotFittedError):
        MetricClassifier().predict(X)


@pytest.mark.usefixtures("few_steps")
def test_global_generator_is_left_alone(data: tuple[Any, Any]) -> None:
    import torch

    state = torch.get_rng_state()
    MetricClassifier(**SMALL).fit(data[0][:100], data[1][:100])
    assert torch.equal(torch.get_rng_state(), state)


def test_platt_is_the_maximum_likelihood_of_a_direct_search() -> None:
    import torch
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    s, y = rng.normal(3, 2, 300), rng.random(300) < 0.3
    s += 2 * y
    p, q = y.sum(), (~y).sum()
    wanted = np.where(y, (p + 1) / (p + 2), 1 / (q + 2))

    def cost(v: Any) -> float:
        z = v[0] * s + v[1]
        return float((np.logaddexp(0, z) - wanted * z).sum())

    found = platt(torch.from_numpy(s), torch.from_numpy(y.astype(int)))
    assert found == pytest.approx(minimize(cost, [0.0, 0.0], tol=1e-12).x, rel=1e-4)
    flat = platt(-torch.from_numpy(s), torch.from_numpy(y.astype(int)))
    assert flat[0] == 0.0  # scores that point the wrong way are not turned round


def test_class_scaling_of_scores_worse_than_chance_gives_the_shares_of_the_classes() -> None:
    import torch

    targets = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    scores = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    slope, offsets = class_scaling(scores - 3 * torch.nn.functional.one_hot(targets, 3), targets)
    assert slope == 0.0
    assert torch.tensor(offsets).softmax(0).tolist() == pytest.approx([0.6, 0.3, 0.1], abs=0.02)


def test_class_scaling_undoes_a_known_scale_and_shift() -> None:
    import torch

    logits = torch.randn(20000, 3, dtype=torch.float64)
    targets = torch.distributions.Categorical(logits=logits).sample()
    slope, offsets = class_scaling(5 * logits + torch.tensor([0.0, 10.0, -5.0]), targets)
    assert slope == pytest.approx(0.2, rel=0.05)
    assert offsets[1] - offsets[0] == pytest.approx(-2.0, abs=0.1)
    assert offsets[2] - offsets[0] == pytest.approx(1.0, abs=0.1)


def test_members_may_be_one_text_as_on_the_command_line() -> None:
    X, y = make_classification(120, 4, random_state=0)
    found = MetricClassifier("ap", members="linear", random_state=0).fit(X, y)
    wanted = MetricClassifier("ap", members=("linear",), random_state=0).fit(X, y)
    assert (found.predict_proba(X) == wanted.predict_proba(X)).all()
