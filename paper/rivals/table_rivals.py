"""What people use on tables: boosted trees, logistic regression, a network; refitted on all training rows.

Each rival is judged on a fifth of the training rows held out, for each metric; that chooses the rival. Then it learns
from all training rows. Its threshold comes from the held-out rows, or from scikit-learn's cross-validated search.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aimfor.targets.objective import Objective

Array = NDArray[Any]


@dataclass
class Judged:
    """One rival on one metric: its value on held-out rows, and on test rows with either threshold."""

    validation: float
    test: float
    test_cv: float | None = None


def make_rivals(seed: int) -> dict[str, Callable[[], Any]]:
    """Scikit-learn classifiers by name; defaults, as people take them, and all on one core."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    return {
        "LightGBM": lambda: LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1),
        "HistGB": lambda: HistGradientBoostingClassifier(random_state=seed),
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
        "network": lambda: MLPClassifier(
            (64, 64), early_stopping=True, n_iter_no_change=15, max_iter=150, random_state=seed
        ),
    }


def scores_of(model: Any, x: Array) -> Tensor:
    """Log-odds: a monotone map of the probability, in float64."""
    chance = np.clip(model.predict_proba(x)[:, 1].astype(np.float64), 1e-15, 1 - 1e-15)
    return torch.from_numpy(np.log(chance) - np.log1p(-chance))


def judge_rivals(
    x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, objectives: dict[str, Objective], seed: int
) -> dict[str, dict[str, Judged]]:
    """By rival and metric. ``x`` is standardised by the training rows."""
    from sklearn.model_selection import train_test_split

    a, b = x.clamp(-10, 10).numpy(), x_test.clamp(-10, 10).numpy()
    labels = y.numpy()
    fit, held = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=seed)
    found: dict[str, dict[str, Judged]] = {}
    for name, make in make_rivals(seed).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged, feature names: their own matters
            held_scores = scores_of(make().fit(a[fit], labels[fit]), a[held])
            test_scores = scores_of(make().fit(a, labels), b)
            cut = None if name == "network" else _cross_validated(make, a, labels, seed)
        found[name] = {}
        for metric, objective in objectives.items():
            threshold, value = objective.tuned(held_scores, y[held])
            judged = Judged(value, objective.value(test_scores, y_test, threshold))
            if objective.needs_threshold and cut is not None:
                judged.test_cv = objective.value(test_scores, y_test, cut)
            found[name][metric] = judged
    return found


def _cross_validated(make: Callable[[], Any], x: Array, y: Array, seed: int) -> float:
    """The log-odds of the threshold that `TunedThresholdClassifierCV` finds for F1."""
    from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV

    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    tuned = TunedThresholdClassifierCV(make(), scoring="f1", cv=folds, response_method="predict_proba").fit(x, y)
    chance = float(np.clip(tuned.best_threshold_, 1e-15, 1 - 1e-15))
    return float(np.log(chance) - np.log1p(-chance))
