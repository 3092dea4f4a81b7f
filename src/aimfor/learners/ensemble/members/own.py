"""Members that a user brings: any scikit-learn classifier, on the encoded columns. They live in memory alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ....errors import InputError
from ....targets.objective import Objective
from .base import Fitted, Job, Member, Rows


class FittedOwn(Fitted):
    """A fitted classifier. Its state is the object itself: a store in memory keeps it, no file does.

    Args:
        model: Has ``predict_proba`` or ``decision_function``.
        outputs: 1 for one score per row, else the number of classes.
        rows: So many rows it has learned from: no stated chance counts for more than they can tell.
    """

    def __init__(self, model: Any, outputs: int, rows: int) -> None:
        self.model, self.outputs, self.rows = model, outputs, rows

    @property
    def checkpoints(self) -> int:
        return 1

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        if not hasattr(self.model, "predict_proba"):
            scores = torch.from_numpy(np.asarray(self.model.decision_function(x.numpy()), dtype=np.float64))
            return torch.stack((-scores / 2, scores / 2), 1) if self.outputs == 2 else scores
        chances = torch.full((len(x), max(2, self.outputs)), 0.0, dtype=torch.float64)
        chances[:, torch.from_numpy(np.asarray(self.model.classes_, dtype=np.int64))] = torch.from_numpy(
            np.asarray(self.model.predict_proba(x.numpy()), dtype=np.float64)
        )
        chances = (self.rows * chances + 0.5) / (self.rows + 1)  # keeps the order, and a forest's 0 and 1 finite
        return chances[:, 1].logit() if self.outputs == 1 else chances.log()

    def at(self, checkpoint: int) -> Self:
        return self

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"model": self.model, "outputs": self.outputs, "rows": self.rows}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        return cls(facts["model"], facts["outputs"], facts["rows"])


class Own(Member):
    """A scikit-learn classifier, copied for each fold; where it has a ``random_state`` of None it gets the fold's seed.

    Args:
        estimator: The classifier, not fitted.
        name: Of the member, unlike that of all others.
    """

    fitted = FittedOwn

    def __init__(self, estimator: Any, name: str) -> None:
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise InputError("members", repr(estimator), "kinds such as 'linear', or scikit-learn classifiers")
        if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
            came = f"a {type(estimator).__name__}, which has neither predict_proba nor decision_function"
            raise InputError("members", came, "scikit-learn classifiers")
        self.estimator, self.name, self.title = estimator, name, name

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        from sklearn.utils.validation import has_fit_parameter

        if rows.lists is not None:
            return "it puts no lists in order"
        if rows.weights is not None and not has_fit_parameter(self.estimator, "sample_weight"):
            return "it takes no sample_weight"
        return None

    def fit(self, job: Job) -> FittedOwn:
        from sklearn.base import clone

        model = clone(self.estimator)
        unset = {name: job.seed for name, value in model.get_params().items() if value is None and _seeds(name)}
        model.set_params(**unset)
        weights = {} if job.train.weights is None else {"sample_weight": job.train.weights.double().numpy()}
        model.fit(job.train.x.numpy(), job.train.y.numpy(), **weights)
        return FittedOwn(model, job.outputs, len(job.train.y))


def _seeds(parameter: str) -> bool:
    return parameter.split("__")[-1] == "random_state"
