"""PairwiseFBeta: F_β between every two of p groups, each group with a score of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine
from ..lagrangian import ConstraintForm, ConstraintProblem, HasConstraints, kept_rows
from ..smooth import Decisions, HasSmooth, Ratio, SmoothEngine, SmoothForm
from .base import Metric
from .confusion import something_to_find
from .curve import nan_like
from .fbeta import FBeta


@dataclass(frozen=True)
class PairwiseFBeta(Metric, HasConstraints, HasSmooth):
    """Mean over ordered pairs (j, k) of groups of F_β of "score j > 0" for group j against group k.

    The generalisation of Ravi §7.1 to ``|S| = p > 2``: scores are ``(n, p)``, one column (one head) per group, and pair
    (j, k) looks at the examples of these two groups only. A pair without examples of group j is left out.

    Args:
        beta: > 0.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[2.0, -1.0, -1.0], [-1.0, 1.0, -2.0], [0.5, -1.0, 1.0]])
        >>> metric = aimfor.metrics.PairwiseFBeta(1.0)
        >>> round(float(metric.value(scores, torch.tensor([0, 1, 2]))), 4)
        0.9444

    References:
        Ravi et al., 2020, §7.1.
    """

    beta: float = 1.0

    layout: ClassVar[str] = "multiclass"
    group_count: ClassVar[int | None] = None
    remembers: ClassVar[str] = "counts"

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, above=0)

    def exact(self, batch: Batch) -> Tensor:
        p, one = batch.scores.shape[1], FBeta(self.beta)
        weights = batch.effective_weights()
        values = [nan_like(batch)]
        for j in range(p):
            member = batch.targets == j
            if not bool((member if weights is None else weights[member] > 0).any()):
                continue
            for k in range(p):
                if k != j:
                    rows = ((batch.targets == j) | (batch.targets == k)).nonzero().squeeze(1)
                    part = None if weights is None else weights[rows]
                    values.append(one.exact(Batch(batch.scores[rows, j], batch.targets[rows] == j, part)))
        return torch.stack(values).nanmean()

    def decided_at(self, batch: Batch) -> float | None:
        return 0.0

    def smooth_form(self, batch: Batch) -> SmoothForm:
        p, one, weights = batch.scores.shape[1], FBeta(self.beta), batch.effective_weights()
        first, second = (ids[:, None] for ids in _ordered_pairs(p, batch.targets.device))
        positive = batch.targets == first
        mass = (positive | (batch.targets == second)).to(batch.scores.dtype)
        mass = mass if weights is None else mass * weights

        def measure(*counts: Tensor) -> Tensor:
            return something_to_find(one.of_counts(*counts), counts).nanmean()

        rows = batch.scores.t().index_select(0, first[:, 0])
        return Decisions(batch.scores, rows, positive, mass, measure, Ratio(*one.lines()))

    def constraint_form(self, batch: Batch) -> ConstraintForm:
        scores, groups, index = kept_rows(batch)
        p = scores.shape[1]
        problems = []
        for j in range(p):
            for k in range(p):
                if k != j:
                    rows = ((groups == j) | (groups == k)).nonzero().squeeze(1)
                    place = None if index is None else index[rows]
                    problems.append(ConstraintProblem(scores[rows, j], groups[rows] == j, place, (j, k)))
        return ConstraintForm(batch.scores, groups, index, tuple(problems), float(self.beta))

    def default_engine(self) -> Engine:
        # Needs no labels of the data set, which the lagrangian engine is made with.
        return SmoothEngine(anchor=1.0, bank=2048)


@lru_cache(maxsize=8)
def _ordered_pairs(p: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Every (j, k) with j ≠ k below p, ``(p(p − 1),)`` each."""
    j, k = torch.cartesian_prod(*(torch.arange(p, device=device),) * 2).unbind(1)
    return j[j != k], k[j != k]
