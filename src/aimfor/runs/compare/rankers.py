"""What people use to put the rows of a query in order: the ensemble's rivals on ranked lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...learners.ensemble.members import Rows
from ...targets.objective import Objective
from ..prepared import Prepared

LAMBDARANK = "lambdarank"
#: Name and title.
RANKERS = {
    LAMBDARANK: "LightGBM, lambdarank",
    "pointwise_trees": "LightGBM on grades",
    "pointwise_linear": "ridge regression on grades",
}
#: Rounds that the validation queries choose from: an untuned lambdarank overfits small data long before its default.
ROUNDS = (25, 50, 100, 200)
Array = NDArray[Any]


def run_ranker(name: str, ready: Prepared) -> tuple[Tensor, float]:
    """Scores of the test rows, and the value on the validation queries, of one rival."""
    train, validation = ready.part("train"), ready.part("validation")
    return rank_by(name, ready.objective, train, validation, ready.test[0], ready.settings.seed)


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
            score = _learned(name, objective, train, rounds, seed)
            tried.append((objective.value(score(validation.x), validation.y, lists=validation.lists), -rounds))
        best, rounds = max(tried)
        return _learned(name, objective, both, -rounds, seed)(x), best


def _lists(rows: Rows) -> Tensor:
    assert rows.lists is not None
    return rows.lists


def _learned(name: str, objective: Objective, rows: Rows, rounds: int, seed: int) -> Callable[[Tensor], Tensor]:
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
    return lambda part: torch.from_numpy(np.asarray(model.predict(_plain(part)), dtype=np.float64))


def _plain(x: Tensor) -> Array:
    return np.asarray(x.clamp(-10, 10).numpy())
