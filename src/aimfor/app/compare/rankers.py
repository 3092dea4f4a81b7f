"""What people use to put the rows of a query in order: the committee's rivals on ranked lists."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...fitting.config import Recipe, Stage
from ..run.folder import Prepared

LAMBDARANK = "lambdarank"
_NONE = (Stage(loss="ce"),)
RANKERS = {
    one.name: one
    for one in (
        Recipe(name=LAMBDARANK, title="LightGBM, lambdarank", stages=_NONE, rival=True),
        Recipe(name="pointwise_trees", title="LightGBM on grades", stages=_NONE, rival=True),
        Recipe(name="pointwise_linear", title="ridge regression on grades", stages=_NONE, rival=True),
    )
}
#: Rounds that the validation queries choose from: an untuned lambdarank overfits small data long before its default.
ROUNDS = (25, 50, 100, 200)
Array = NDArray[Any]


def run_ranker(name: str, ready: Prepared) -> tuple[Tensor, float]:
    """Scores of the test rows after learning anew from training and validation queries, and the validation value.

    The validation queries choose the rounds of trees, as a careful user would.
    """
    train, validation = (torch.from_numpy(rows) for rows in (ready.parts.train, ready.parts.validation))
    assert ready.lists is not None
    lists, y = ready.lists, ready.ids
    both, (x, _) = torch.cat((train, validation)), ready.test
    settings: tuple[int, ...] = ROUNDS if name != "pointwise_linear" else (0,)
    tried = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # feature names: the packages' own matters
        for rounds in settings:
            score = _learned(name, ready, train, rounds)
            found = ready.objective.value(score(ready.x[validation]), y[validation], lists=lists[validation])
            tried.append((found, -rounds))
        best, rounds = max(tried)
        return _learned(name, ready, both, -rounds)(x), best


def _learned(name: str, ready: Prepared, rows: Tensor, rounds: int) -> Callable[[Tensor], Tensor]:
    assert ready.lists is not None
    rows = rows[ready.lists[rows].argsort(stable=True)]  # lists must stand together
    x, y = _plain(ready.x[rows]), ready.ids[rows].numpy()
    seed = ready.settings.seed
    model: Any
    if name == "pointwise_linear":
        from sklearn.linear_model import Ridge

        model = Ridge().fit(x, y)
    else:
        from lightgbm import LGBMRanker, LGBMRegressor

        common: dict[str, Any] = {"n_estimators": rounds, "random_state": seed, "n_jobs": 1, "verbose": -1}
        if name == LAMBDARANK:
            sizes = ready.lists[rows].unique(return_counts=True)[1].numpy()
            gains = getattr(ready.objective.metric, "gains", lambda grades: grades.double())
            worth = gains(torch.arange(int(ready.ids.max()) + 1)).tolist()
            model = LGBMRanker(label_gain=worth, **common).fit(x, y, group=sizes)
        else:
            model = LGBMRegressor(**common).fit(x, y)
    return lambda part: torch.from_numpy(np.asarray(model.predict(_plain(part)), dtype=np.float64))


def _plain(x: Tensor) -> Array:
    return np.asarray(x.clamp(-10, 10).numpy())
