"""Members that a user brings: copied for each fold, weighed by the metric, refused where they cannot be kept."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from torch import Tensor

import aimfor
from aimfor.errors import InputError
from aimfor.integrations.sklearn import MetricClassifier
from aimfor.learners.ensemble import Ensemble, fit_ensemble
from aimfor.learners.ensemble.members import members
from aimfor.targets.objective import Objective


def ring(n: int = 240) -> tuple[Tensor, Tensor]:
    """Rows that no weighted sum of columns tells apart, and nearest neighbours do."""
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0))
    return x, (x.norm(dim=1) > 1.2).long()


def fitted(*kinds: Any, metric: str = "auroc", **how: Any) -> Ensemble:
    return fit_ensemble(*ring(), Objective.of(metric), kinds=kinds, folds=3, **how)


def test_a_fold_of_a_member_is_a_copy_that_learned_from_the_other_rows() -> None:
    x, y = ring()
    forest = RandomForestClassifier(20, random_state=3)
    found = fitted(forest, seed=1)
    assert not hasattr(forest, "estimators_")
    record, member = found.out_of_fold, found.weighted_members[0]
    assert record is not None
    rest = record.folds != 1
    alone = RandomForestClassifier(20, random_state=3).fit(x[rest].numpy(), y[rest].numpy())
    chance = alone.predict_proba(x[~rest].numpy())[:, 1]
    rows = int(rest.sum())
    stated = np.log((rows * chance + 0.5) / (rows * (1 - chance) + 0.5))
    assert record.members[0][~rest].tolist() == pytest.approx(member.scale(torch.from_numpy(stated)).tolist())
    assert (member.name, member.title) == ("RandomForestClassifier", "RandomForestClassifier")


def test_the_metric_gives_the_weight_to_the_member_that_knows() -> None:
    found = fitted(LogisticRegression(), SVC(), SVC(kernel="linear"))
    shares = {weighted.name: weighted.share for weighted in found.weighted_members}
    assert list(shares) == ["LogisticRegression", "SVC", "SVC 2"]
    assert shares["SVC"] > 0.5
    assert found.cross_validated > 0.95


class Failing(LogisticRegression):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise RuntimeError("no  such\nluck")


class Undefined(LogisticRegression):  # type: ignore[misc]
    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), 2), np.nan)


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (Failing(), "Failing left out: it failed in fold 1: RuntimeError: no such luck"),
        (Undefined(), "Undefined left out: it says of rows of fold 1 what is no finite number"),
        (DummyClassifier(), "DummyClassifier left out: it says the same of every row"),
    ],
)
def test_a_member_that_fails_says_no_number_or_always_the_same_is_left_out_and_named(
    estimator: Any, reason: str
) -> None:
    found = fitted("linear", estimator)
    assert [weighted.name for weighted in found.weighted_members] == ["linear"]
    assert reason in found.notes


def test_a_member_without_sample_weights_is_left_out_where_rows_have_some() -> None:
    found = fitted("linear", KNeighborsClassifier(), weights=torch.rand(240) + 0.5)
    assert "KNeighborsClassifier left out: it takes no sample_weight" in found.notes


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (RandomForestClassifier, "members: got <class 'sklearn.ensemble._forest.RandomForestClassifier'>"),
        (3, "members: got 3"),
        (Ridge(), "members: got a Ridge, which has neither predict_proba nor decision_function"),
    ],
)
def test_what_is_no_classifier_is_refused(kind: Any, line: str) -> None:
    with pytest.raises(InputError, match=line):
        members(("linear", kind))


def test_the_estimator_is_the_same_twice_by_processes_and_after_pickle() -> None:
    x, y = load_iris(return_X_y=True)

    def model(jobs: int) -> Any:
        own = MetricClassifier("auroc_ovr", members=["linear", RandomForestClassifier(10)], random_state=0, n_jobs=jobs)
        return own.fit(x, y)

    first, again = model(1), model(2)
    assert [weighted.name for weighted in first.ensemble_.weighted_members] == ["linear", "RandomForestClassifier"]
    assert np.array_equal(first.predict_proba(x), again.predict_proba(x))
    assert np.array_equal(first.predict_proba(x), pickle.loads(pickle.dumps(first)).predict_proba(x))


def test_a_run_folder_takes_none_and_says_what_does(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a SVC, which a run folder cannot hold as data.*MetricClassifier"):
        aimfor.train("iris", metric="accuracy", members=["linear", SVC()], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_onnx_file_takes_none() -> None:
    pytest.importorskip("onnx")
    from aimfor.onnx.graph import Graph
    from aimfor.onnx.members import weighted_scores

    with pytest.raises(InputError, match="a member of type FittedOwn"):
        weighted_scores(Graph(), "x", fitted(SVC()).weighted_members[0])
