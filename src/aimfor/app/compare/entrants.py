"""Who is compared beside the recipes of one network: the committee, and what people use on tables.

They are named like recipes so that a plan can list them, but they are no recipes: `run_entrant` knows how each learns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...fitting.backbones import is_backbone
from ...fitting.committee import Committee
from ...fitting.committee.decide import threshold_of
from ...fitting.config import Recipe, Stage
from ...fitting.fit import Fit
from ...fitting.models import scores_of
from ..run.convening import committee_facts, convene
from ..run.folder import Prepared
from .rankers import RANKERS, run_ranker

_NONE = (Stage(loss="ce"),)
COMMITTEE = Recipe(name="committee", title="committee (what train makes)", stages=_NONE)
LIGHTGBM = Recipe(name="lightgbm", title="LightGBM", stages=_NONE, rival=True)
HISTGB = Recipe(name="gradient_boosting", title="gradient boosting (scikit-learn)", stages=_NONE, rival=True)
LOGISTIC = Recipe(name="logistic_regression", title="logistic regression", stages=_NONE, rival=True)
#: For tables only, in the order they are shown.
FOR_TABLES = {one.name: one for one in (COMMITTEE, LIGHTGBM, HISTGB, LOGISTIC)}
#: Networks that the committee is compared with when no recipe is named.
NETWORKS = ("cross_entropy", "balanced_cross_entropy")


@dataclass
class Outcome:
    """What an entrant says about the test rows, and what its own held-out rows say about it."""

    scores: Tensor
    validation: float
    threshold: float
    note: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def run_entrant(recipe: Recipe, ready: Prepared) -> Outcome:
    """Learns and scores the test rows. For the committee ``ready`` has no validation rows of its own."""
    x, _ = ready.test
    if recipe.name == COMMITTEE.name:
        committee = convene(ready.settings.model_copy(update={"workers": 1}), ready)
        facts: dict[str, Any] = {"committee": committee_facts(committee), "notes": committee.notes}
        for member, value in zip(facts["committee"]["members"], _alone(committee, ready), strict=True):
            member |= {"test": value, "curves": None}  # a comparison has no place for curves
        return Outcome(committee.scores(x), committee.promised, committee.threshold.value, "", facts)
    if recipe.name in RANKERS:
        return Outcome(*run_ranker(recipe.name, ready), threshold=0.0)
    if recipe.name in FOR_TABLES:
        return _refitted(_makers(ready.settings.seed)[recipe.name], ready)
    on_features = is_backbone(ready.settings.model)  # a small network on them, as on a table
    settings = ready.settings.model_copy(update={"model": "auto"}) if on_features else ready.settings
    fit = Fit(ready.task, settings, recipe).run()
    best = fit.state.best
    return Outcome(scores_of(fit.model, x, ready.labels.outputs), best["value"], best["threshold"], best["loss"])


def _alone(committee: Committee, ready: Prepared) -> list[float]:
    """The metric of each member by itself on test rows, at a threshold from its own out-of-fold rows."""
    (x, y), record, found = ready.test, committee.out_of_fold, []
    lists = None if ready.lists is None else ready.lists[torch.from_numpy(ready.parts.test)]
    assert record is not None
    for seat, said in zip(committee.seats, record.members, strict=True):
        cut = threshold_of(committee.objective, said, record.y, record.weights).value
        found.append(committee.objective.value(seat.scores(x), y, cut, lists=lists))
    return found


def _makers(seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    def lightgbm() -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)

    return {
        LIGHTGBM.name: lightgbm,
        HISTGB.name: lambda: HistGradientBoostingClassifier(random_state=seed),
        LOGISTIC.name: lambda: LogisticRegression(max_iter=1000),
    }


def _refitted(make: Callable[[], Any], ready: Prepared) -> Outcome:
    """Threshold and value from validation rows; then it learns anew from training and validation rows together."""
    task, (x, _) = ready.task, ready.test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged, feature names: the packages' own matters
        first = make().fit(_plain(task.x), task.y.numpy())
        validation = _log_odds(first, task.x_validation, task.outputs)
        both = torch.cat((task.x, task.x_validation)), torch.cat((task.y, task.y_validation))
        final = _log_odds(make().fit(_plain(both[0]), both[1].numpy()), x, task.outputs)
    threshold, value = ready.objective.tuned(validation, task.y_validation)
    return Outcome(final, value, threshold)


def _plain(x: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.asarray(x.clamp(-10, 10).numpy())  # one stray value must not ruin the linear one


def _log_odds(model: Any, x: Tensor, outputs: int) -> Tensor:
    chance = torch.from_numpy(np.clip(model.predict_proba(_plain(x)).astype(np.float64), 1e-15, 1 - 1e-15))
    return chance[:, 1].logit() if outputs == 1 else chance.log()
