"""Other people's libraries around `MetricClassifier` and `MetricLoss`; tests are left out where one is missing."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score

import aimfor
from aimfor.errors import CopiesWarning, InputError
from aimfor.integrations.sklearn import MetricClassifier
from undrawn import draw_less


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_less(monkeypatch)


def linear(metric: str = "f1") -> MetricClassifier:
    return MetricClassifier(metric, members=("linear",), random_state=0)


def test_polars_categories_are_texts_and_a_lazy_frame_is_refused() -> None:
    polars = pytest.importorskip("polars")
    draw = np.random.default_rng(0)
    city, number = draw.choice(["Bern", "Rome", "Oslo"], 120), draw.normal(size=120)
    y = (number + (city == "Bern") > 0.5).astype(int)
    plain = polars.DataFrame({"number": number, "city": [None, *city[1:]]})
    wanted = linear().fit(plain, y).decision_function(plain)
    for kind in (polars.Categorical, polars.Enum(["Bern", "Rome", "Oslo"])):
        frame = plain.with_columns(polars.col("city").cast(kind))
        assert np.array_equal(linear().fit(frame, y).decision_function(frame), wanted)
    for model in (linear(), MetricClassifier("f1", model="mlp")):
        with pytest.raises(InputError, match=r"X: got a LazyFrame, .* Pass X.collect\(\)"):
            model.fit(plain.lazy(), y)


def oversampled(rows: Any, labels: Any) -> tuple[Any, Any]:
    """What imbalanced-learn's RandomOverSampler makes of it: as many of the rarer class as of the other."""
    rare = np.flatnonzero(labels == 1)
    more = np.random.default_rng(0).choice(rare, (labels == 0).sum() - len(rare))
    return np.concatenate([rows, rows[more]]), np.concatenate([labels, labels[more]])


def test_copies_of_an_oversampler_stay_in_one_fold_and_are_named() -> None:
    X, y = make_classification(900, 6, n_informative=4, weights=[0.9], flip_y=0.1, random_state=2)
    rows, labels = oversampled(X[:600], y[:600])
    model = MetricClassifier("f1", members=("trees",), random_state=0)
    with pytest.warns(
        CopiesWarning, match=rf"{len(rows) - 600} of {len(rows)} rows are copies of other rows"
    ) as caught:
        model.fit(rows, labels)
    assert caught[0].filename == __file__
    # the estimate is of the balance that was given; copies on both sides of a fold made it .99
    fresh = oversampled(X[600:], y[600:])
    assert model.metric_ < f1_score(fresh[1], model.predict(fresh[0])) + 0.05


def test_equal_rows_of_a_table_of_few_values_are_no_copies() -> None:
    draw = np.random.default_rng(0)
    X = draw.integers(0, 4, (400, 3)).astype(float)
    linear().fit(X, draw.random(400) < 1 / (1 + np.exp(4.5 - X.sum(1))))  # a warning would be an error


def test_copies_of_one_row_of_a_class_cannot_be_kept_together() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    rows, labels = np.concatenate([X, np.repeat(X[:1], 30, axis=0)]), np.repeat([0, 1], [60, 30])
    labels[0] = 1
    with pytest.warns(CopiesWarning, match="30 of 90 rows are copies of other rows: metric_ is too high"):
        linear().fit(rows, labels)


def test_an_oversampler_behind_the_split_brings_no_copies_to_an_estimate() -> None:
    sampling, pipeline = pytest.importorskip("imblearn.over_sampling"), pytest.importorskip("imblearn.pipeline")
    X, y = make_classification(300, 5, weights=[0.8], random_state=0)
    whole = pipeline.make_pipeline(sampling.RandomOverSampler(random_state=0), linear())
    with pytest.warns(CopiesWarning):
        whole.fit(X, y)
    assert whole.predict(X).shape == (300,)


def test_joblib_and_pickle_keep_a_model_and_skops_refuses_it() -> None:
    X, y = make_classification(200, 4, random_state=0)
    model = linear().fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))
    files = pytest.importorskip("skops.io")
    with pytest.raises(RuntimeError, match="TensorBase"):  # skops writes no tensors; docs/integrations.md says so
        files.dumps(model)


def test_skorch_gives_scores_until_it_is_told_their_softmax() -> None:
    skorch = pytest.importorskip("skorch")
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(90, 3)).astype(np.float32), draw.integers(0, 3, 90)
    net = partial(
        skorch.NeuralNetClassifier,
        torch.nn.Linear(3, 3),
        criterion=aimfor.MetricLoss,
        criterion__metric="auroc_ovr",
        max_epochs=2,
        train_split=None,
        verbose=0,
    )
    plain, told = net().fit(X, y), net(predict_nonlinearity=partial(torch.softmax, dim=-1)).fit(X, y)
    assert not np.allclose(plain.predict_proba(X).sum(1), 1.0)
    assert np.allclose(told.predict_proba(X).sum(1), 1.0)


def test_ignite_takes_a_loss() -> None:
    engine = pytest.importorskip("ignite.engine")
    model, loss = torch.nn.Linear(3, 1), aimfor.MetricLoss("ap")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(_: Any, batch: Any) -> float:
        optimizer.zero_grad()
        value = loss(model(batch[0]).squeeze(1), batch[1])
        value.backward()
        optimizer.step()
        return float(value.detach())

    batches = [(torch.randn(16, 3), torch.arange(16) % 2)] * 2
    assert engine.Engine(step).run(batches, max_epochs=2).iteration == 4
    assert loss.counts.batches == 4
