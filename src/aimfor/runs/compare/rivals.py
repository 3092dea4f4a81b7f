"""What people use, prepared as its own users prepare it: on tables with thresholds out of fold, and on ranked lists."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.columns import TableEncoder
from ...data.columns.coders import Category
from ...learners.ensemble.members import Rows
from ...targets.folds import make_folds
from ...targets.objective import Objective
from ..prepared import Prepared

Array = NDArray[Any]
#: Levels above which scikit-learn's histogram boosting takes no column of categories.
MOST_NATIVE = 255


@dataclass(frozen=True)
class RawTable:
    """Numbers with NaN where they are missing, and categories as level numbers with -1 where missing or unknown.

    Attributes:
        numbers: ``(n, d)`` float64; dates and counts of words are numbers too.
        levels: ``(n, k)`` int64.
        sizes: How many levels each of the k columns has.
    """

    numbers: Array
    levels: Array
    sizes: tuple[int, ...]

    def take(self, rows: Array) -> RawTable:
        return RawTable(self.numbers[rows], self.levels[rows], self.sizes)

    @property
    def native(self) -> Array:
        """``(n, k + d)``: level numbers first, NaN where missing, for learners that know categories."""
        codes = self.levels.astype(np.float64)
        return np.concatenate([np.where(codes < 0, np.nan, codes), self.numbers], 1)

    @property
    def words(self) -> Array:
        """``(n, k + d)`` objects: level numbers as text, for CatBoost."""
        return np.concatenate([self.levels.astype(str).astype(object), self.numbers.astype(object)], 1)


def raw_table(prepared: Prepared, training: Array) -> RawTable:
    """The columns of a table, whose levels are those of the rows that may be learned from.

    Without a table, or where no column holds categories, they are the encoded numbers.
    """
    x = prepared.x.clamp(-10, 10).double().numpy()  # one stray value must not ruin the linear one
    if not isinstance(prepared.encoder, TableEncoder):
        return RawTable(x.reshape(len(x), -1), np.zeros((len(x), 0), dtype=np.int64), ())
    numbers, levels, at = [], [], 0
    for coder in prepared.encoder.columns:
        width = len(coder.parts)
        encoded, at = x[:, at : at + width], at + width
        column = prepared.source.columns[coder.name]
        if isinstance(coder, Category):
            levels.append(_codes(column, training))
        elif coder.parts[-1] == "missing":
            numbers.append(np.where(encoded[:, -1:] > 0, np.nan, encoded[:, :-1]))
        else:
            numbers.append(encoded)
    empty = np.zeros((len(x), 0))
    codes = np.stack([code for code, _ in levels], 1) if levels else empty.astype(np.int64)
    return RawTable(np.concatenate([*numbers, empty], 1), codes, tuple(size for _, size in levels))


def _codes(column: Any, training: Array) -> tuple[Array, int]:
    """Level numbers by the rows that may be learned from, and how many levels there are."""
    codes, texts = column.distinct()
    levels = np.unique(codes[training])
    levels = levels[levels >= 0]
    number = np.full(len(texts) + 1, -1, dtype=np.int64)  # the last is for missing, whose code is -1
    number[levels] = np.arange(len(levels))
    return number[codes], len(levels)


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


def run_rival(name: str, prepared: Prepared) -> tuple[Tensor, float, float]:
    """Scores of the test rows, and from out-of-fold rows the value and the threshold.

    Training and validation rows are one set here: five folds of it give the threshold, all of it the model.
    """
    training = np.sort(np.concatenate([prepared.parts.train, prepared.parts.validation]))
    table, ids, seed = raw_table(prepared, training), prepared.ids.numpy(), prepared.settings.seed
    folds = make_folds(prepared.ids[torch.from_numpy(training)], seed, prepared.clusters(training), FOLDS)
    outputs = prepared.labels.outputs
    scores = torch.zeros(len(training), *(() if outputs == 1 else (outputs,)), dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged, unknown levels: the packages' own matters
        for fold, held in enumerate(folds.held):
            rows = training[folds.train(fold).numpy()]
            model = LEARN[name](table.take(rows), ids[rows], seed)
            scores[held] = _log_odds(model(table.take(training[held.numpy()])), outputs)
        model = LEARN[name](table.take(training), ids[training], seed)
        final = _log_odds(model(table.take(prepared.parts.test)), outputs)
    covered = folds.covered
    threshold, value = prepared.objective.tuned(scores[covered], prepared.ids[torch.from_numpy(training)][covered])
    return final, value, threshold


def _log_odds(chances: Array, outputs: int) -> Tensor:
    chance = torch.from_numpy(np.clip(chances.astype(np.float64), 1e-15, 1 - 1e-15))
    return chance[:, 1].logit() if outputs == 1 else chance.log()


def _lightgbm(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)
    model.fit(table.native, y, categorical_feature=list(range(len(table.sizes))))
    return lambda rows: np.asarray(model.predict_proba(rows.native))


def _catboost(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    catboost = importlib.import_module("catboost")  # an extra: without it nobody asks

    model = catboost.CatBoostClassifier(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)
    model.fit(table.words, y, cat_features=list(range(len(table.sizes))))
    return lambda rows: np.asarray(model.predict_proba(rows.words))


def _histogram(table: RawTable, y: Array, seed: int) -> Callable[[RawTable], Array]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    named = [column for column, size in enumerate(table.sizes) if size <= MOST_NATIVE]  # the others: level numbers
    model = HistGradientBoostingClassifier(random_state=seed, categorical_features=named or None)
    model.fit(table.native, y)
    return lambda rows: np.asarray(model.predict_proba(rows.native))


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
    return lambda rows: np.asarray(model.predict_proba(rows.native))


LEARN: dict[str, Learn] = {
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "gradient_boosting": _histogram,
    "logistic_regression": _logistic,
}


LAMBDARANK = "lambdarank"
#: Name and title.
RANKERS = {
    LAMBDARANK: "LightGBM, lambdarank",
    "pointwise_trees": "LightGBM on grades",
    "pointwise_linear": "ridge regression on grades",
}
#: Rounds that the validation queries choose from: an untuned lambdarank overfits small data long before its default.
ROUNDS = (25, 50, 100, 200)


def run_ranker(name: str, prepared: Prepared) -> tuple[Tensor, float]:
    """Scores of the test rows, and the value on the validation queries, of one rival."""
    train, validation = prepared.rows(prepared.parts.train), prepared.rows(prepared.parts.validation)
    return rank_by(name, prepared.objective, train, validation, prepared.test[0], prepared.settings.seed)


def rank_by(
    name: str, objective: Objective, train: Rows, validation: Rows, x: Tensor, seed: int = 0
) -> tuple[Tensor, float]:
    """Scores of ``x`` after learning anew from training and validation queries, and the value on the latter.

    The validation queries choose the rounds of trees, as a careful user would.
    """
    settings: tuple[int, ...] = ROUNDS if name != "pointwise_linear" else (0,)
    x_of_both, y_of_both = torch.cat((train.x, validation.x)), torch.cat((train.y, validation.y))
    both = Rows(x_of_both, y_of_both, lists=torch.cat((_lists(train), _lists(validation))))
    tried = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # feature names: the packages' own matters
        for rounds in settings:
            score = _fit_ranker(name, objective, train, rounds, seed)
            tried.append((objective.value(score(validation.x), validation.y, lists=validation.lists), -rounds))
        best, rounds = max(tried)
        return _fit_ranker(name, objective, both, -rounds, seed)(x), best


def _lists(rows: Rows) -> Tensor:
    assert rows.lists is not None
    return rows.lists


def _fit_ranker(name: str, objective: Objective, rows: Rows, rounds: int, seed: int) -> Callable[[Tensor], Tensor]:
    rows = rows.take(_lists(rows).argsort(stable=True))  # lists must stand together
    x, y = _plain(rows.x), rows.y.numpy()
    model: Any
    if name == "pointwise_linear":
        from sklearn.linear_model import Ridge

        model = Ridge().fit(x, y)
    else:
        from lightgbm import LGBMRanker, LGBMRegressor

        common: dict[str, Any] = {"n_estimators": rounds, "random_state": seed, "n_jobs": 1, "verbose": -1}
        if name == LAMBDARANK:
            sizes = _lists(rows).unique(return_counts=True)[1].numpy()
            gains = getattr(objective.metric, "gains", lambda grades: grades.double())
            worth = gains(torch.arange(int(rows.y.max()) + 1)).tolist()
            model = LGBMRanker(label_gain=worth, **common).fit(x, y, group=sizes)
        else:
            model = LGBMRegressor(**common).fit(x, y)
    return lambda rows: torch.from_numpy(np.asarray(model.predict(_plain(rows)), dtype=np.float64))


def _plain(x: Tensor) -> Array:
    return np.asarray(x.clamp(-10, 10).numpy())
