"""Boosted trees for ranked lists: LightGBM's lambdarank, and the grades themselves by squared error."""

from __future__ import annotations

from typing import Any

import torch

from .base import Job
from .trees import FittedTrees, Trees, grow, need_lightgbm

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
