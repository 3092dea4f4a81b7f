"""What people use on tables, prepared as its own users prepare it; thresholds out of fold, refitted on all rows."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...targets.folds import make_folds
from ..prepared import Prepared
from .raw import MOST_NATIVE, RawTable, raw_table

Array = NDArray[Any]
#: Folds for thresholds and for the choice among rivals.
FOLDS = 5
#: Name and title.
RIVALS = {
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "gradient_boosting": "gradient boosting (scikit-learn)",
    "logistic_regression": "logistic regression",
}
#: The package each needs.
PACKAGES = {"lightgbm": "lightgbm", "catboost": "catboost"}
#: From rows and their classes to a function that gives probabilities ``(n, c)``.
Learn = Callable[[RawTable, Array, int], Callable[[RawTable], Array]]


def installed(name: str) -> bool:
    return name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None


def run_rival(name: str, ready: Prepared) -> tuple[Tensor, float, float]:
    """Scores of the test rows, and from out-of-fold rows the value and the threshold.

    Training and validation rows are one set here: five folds of it give the threshold, all of it the model.
    """
    learned = np.sort(np.concatenate([ready.parts.train, ready.parts.validation]))
    table, ids, seed = raw_table(ready, learned), ready.ids.numpy(), ready.settings.seed
    folds = make_folds(ready.ids[torch.from_numpy(learned)], seed, ready.clusters(learned), FOLDS)
    outputs = ready.labels.outputs
    scores = torch.zeros(len(learned), *(() if outputs == 1 else (outputs,)), dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged, unknown levels: the packages' own matters
        for fold, held in enumerate(folds.held):
            rows = learned[folds.train(fold).numpy()]
            model = LEARN[name](table.take(rows), ids[rows], seed)
            scores[held] = _log_odds(model(table.take(learned[held.numpy()])), outputs)
        model = LEARN[name](table.take(learned), ids[learned], seed)
        final = _log_odds(model(table.take(ready.parts.test)), outputs)
    covered = folds.covered
    threshold, value = ready.objective.tuned(scores[covered], ready.ids[torch.from_numpy(learned)][covered])
    return final, value, threshold


def _log_odds(chances: Array, outputs: int) -> Tensor:
    chance = torch.from_numpy(np.clip(chances.astype(np.float64), 1e-15, 1 - 1e-15))
    return chance[:, 1].logit() if outputs == 1 else chance.log()


def _lightgbm(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)
    model.fit(table.native, y, categorical_feature=list(range(len(table.sizes))))
    return lambda part: np.asarray(model.predict_proba(part.native))


def _catboost(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    catboost = importlib.import_module("catboost")  # an extra: without it nobody asks

    model = catboost.CatBoostClassifier(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)
    model.fit(table.words, y, cat_features=list(range(len(table.sizes))))
    return lambda part: np.asarray(model.predict_proba(part.words))


def _histogram(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    named = [place for place, size in enumerate(table.sizes) if size <= MOST_NATIVE]  # the others: level numbers
    model = HistGradientBoostingClassifier(random_state=seed, categorical_features=named or None)
    model.fit(table.native, y)
    return lambda part: np.asarray(model.predict_proba(part.native))


def _logistic(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    named = len(table.sizes)
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    steps = [("numbers", numbers, slice(named, None))] if table.numbers.shape[1] else []
    if named:
        steps.append(("levels", OneHotEncoder(handle_unknown="ignore"), slice(0, named)))
    model = make_pipeline(ColumnTransformer(steps), LogisticRegression(max_iter=1000)).fit(table.native, y)
    return lambda part: np.asarray(model.predict_proba(part.native))


LEARN: dict[str, Learn] = {
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "gradient_boosting": _histogram,
    "logistic_regression": _logistic,
}
