"""Boosted trees by LightGBM: the text of its model is its state."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ....errors import InputError
from ....targets.objective import Objective
from ...networks.loop import end_if
from .base import Fitted, Job, Member, Rows

#: Rounds between checkpoints, and at most.
STEP, ROUNDS = 25, 400
#: Checkpoints without a lower cross-entropy on the held-out rows before a fold stops growing.
PATIENCE = 4
#: Each round sees a part of the rows and columns. Chosen by out-of-fold cross-entropy on rows of nine small tables.
SETTINGS = {
    "num_leaves": 31,
    "min_data_in_leaf": 10,
    "min_sum_hessian_in_leaf": 0.5,
    "lambda_l2": 1.0,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "learning_rate": 0.05,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
}


def has_lightgbm() -> bool:
    return importlib.util.find_spec("lightgbm") is not None


def need_lightgbm(argument: str) -> None:
    """Raises `InputError` under the argument's name where LightGBM is not installed."""
    if not has_lightgbm():
        raise InputError(argument, "trees without the package lightgbm", "lightgbm", "pip install lightgbm.")


class FittedTrees(Fitted):
    """A LightGBM model that speaks after every `STEP` rounds, or after all it was cut to."""

    def __init__(self, text: str, rounds: list[int], outputs: int) -> None:
        from lightgbm import Booster

        self.text, self.rounds, self.outputs = text, rounds, outputs
        self.booster = Booster(model_str=text)

    @property
    def checkpoints(self) -> int:
        return len(self.rounds)

    @property
    def ticks(self) -> list[int]:
        return self.rounds

    def scores(self, x: Tensor, checkpoint: int = -1) -> Tensor:
        raw = self.booster.predict(
            x.numpy().astype(np.float64), raw_score=True, num_iteration=self.rounds[checkpoint], num_threads=1
        )
        scores = torch.from_numpy(np.asarray(raw, dtype=np.float64))
        return torch.stack((-scores / 2, scores / 2), 1) if self.outputs == 2 and scores.ndim == 1 else scores

    def at(self, checkpoint: int) -> Self:
        rounds = self.rounds[checkpoint]
        return type(self)(self.booster.model_to_string(num_iteration=rounds), [rounds], self.outputs)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        text = torch.frombuffer(bytearray(self.text.encode()), dtype=torch.uint8)
        return {"lightgbm": text}, {"rounds": self.rounds, "outputs": self.outputs}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        return cls(tensors["lightgbm"].numpy().tobytes().decode(), list(facts["rounds"]), int(facts["outputs"]))


class Trees(Member):
    """Gradient-boosted trees by cross-entropy."""

    name = "trees"
    title = "boosted trees"
    unit = "rounds"
    fitted: type[FittedTrees] = FittedTrees

    def __init__(self, rounds: int = ROUNDS, **settings: Any) -> None:
        self.rounds, self.settings = rounds, {**SETTINGS, **settings}

    def why_not(self, objective: Objective, rows: Rows, outputs: int) -> str | None:
        return None if has_lightgbm() else "the package lightgbm is not installed (pip install lightgbm)"

    def fit(self, job: Job) -> FittedTrees:
        need_lightgbm("members")
        return grow(job, self.all_settings(job.outputs, job.seed), self.rounds, fitted=self.fitted)

    def all_settings(self, outputs: int, seed: int) -> dict[str, Any]:
        """With those that follow from the task."""
        binary = outputs <= 2
        return {
            **self.settings,
            "objective": "binary" if binary else "multiclass",
            "metric": "binary_logloss" if binary else "multi_logloss",
            "seed": seed,
            **({} if binary else {"num_class": outputs}),
        }


class ExtraTrees(Trees):
    """The same with random splits: each tree is weaker and unlike the others, which helps where rows are few."""

    name = "extra_trees"
    title = "boosted trees with random splits"

    def __init__(self, rounds: int = ROUNDS) -> None:
        super().__init__(
            rounds, extra_trees=True, num_leaves=31, min_data_in_leaf=3, min_sum_hessian_in_leaf=0.2, lambda_l2=1.0
        )


def grow(
    job: Job, settings: dict[str, Any], rounds: int, feval: Any = None, fitted: type[FittedTrees] = FittedTrees
) -> FittedTrees:
    """Rounds until the held-out rows show nothing better for a while, judged after every `STEP` rounds."""
    text, watch = boosted(settings, _dataset(job.train), _dataset(job.held), rounds, job.stop, feval)
    checkpoints = list(range(STEP, watch.seen + 1, STEP)) or [watch.seen]
    return fitted(text(checkpoints[-1]), checkpoints, job.outputs)


def boosted(
    settings: dict[str, Any], train: Any, held: Any, rounds: int, stop: Callable[[], bool], feval: Any = None
) -> tuple[Callable[[int], str], Watch]:
    """From LightGBM's own data sets: the model's text after so many rounds, and its values on the held-out rows."""
    import lightgbm

    watch = Watch(stop)
    booster = lightgbm.train(settings, train, rounds, valid_sets=[held], callbacks=[watch], feval=feval)
    return lambda last: str(booster.model_to_string(num_iteration=last)), watch


class Watch:
    """Ends the rounds when the user asks, and when the held-out rows show nothing better for a while."""

    order, before_iteration = 30, False

    def __init__(self, stop: Callable[[], bool]) -> None:
        self.stop, self.seen, self.best, self.best_at = stop, 0, float("inf"), 0

    def __call__(self, state: Any) -> None:
        from lightgbm.callback import EarlyStopException

        end_if(self.stop())
        self.seen = state.iteration + 1
        _, _, value, higher_is_better = state.evaluation_result_list[0][:4]
        value = -value if higher_is_better else value
        if value < self.best:
            self.best, self.best_at = value, self.seen
        if self.seen % STEP == 0 and self.seen - self.best_at >= PATIENCE * STEP:
            raise EarlyStopException(self.seen - 1, state.evaluation_result_list)


def _dataset(rows: Rows) -> Any:
    import lightgbm

    sizes = None
    if rows.lists is not None:  # lists must stand together
        sizes = rows.lists.unique(return_counts=True)[1].numpy()
        rows = rows.take(rows.lists.argsort(stable=True))
    weights = None if rows.weights is None else rows.weights.double().numpy()
    # LightGBM bins float64; a constant column is left out by itself.
    return lightgbm.Dataset(
        rows.x.numpy(), rows.y.numpy(), weight=weights, group=sizes, free_raw_data=True, params={"verbose": -1}
    )


#: Places beyond k that pairs are still formed with: an item just below must be able to rise.
BEYOND = 5
#: Places that pairs are formed with under a metric of the whole list.
WHOLE = 50


class LambdaTrees(Trees):
    """LambdaMART: each pair of a list is weighed by what NDCG would gain if the two changed places.

    References:
        Burges, From RankNet to LambdaRank to LambdaMART: an overview, 2010.
    """

    name = "lambda_trees"
    title = "boosted trees, lambdarank"
    chosen_by_metric = True

    def fit(self, job: Job) -> FittedTrees:
        need_lightgbm("members")
        metric = job.objective.metric
        k, gains = getattr(metric, "k", None), getattr(metric, "gains", None)
        highest = int(max(job.train.y.max(), job.held.y.max()))
        grades = torch.arange(highest + 1)
        settings = {
            **self.settings,
            "objective": "lambdarank",
            "metric": "ndcg" if job.objective.graded else "map",
            "eval_at": [k or WHOLE],
            "label_gain": (grades.double() if gains is None else gains(grades)).tolist(),
            "lambdarank_truncation_level": WHOLE if k is None else k + BEYOND,
            "seed": job.seed,
        }
        return grow(job, settings, self.rounds)


class GradeTrees(Trees):
    """Each row's grade by squared error: blind to lists, and unlike lambdarank in its mistakes."""

    name = "grade_trees"
    title = "boosted trees on grades"
    chosen_by_metric = True

    def fit(self, job: Job) -> FittedTrees:
        need_lightgbm("members")
        settings: dict[str, Any] = {**self.settings, "objective": "regression", "metric": "l2", "seed": job.seed}
        return grow(job, settings, self.rounds)
