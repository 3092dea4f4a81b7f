"""F_β: the weighted harmonic mean of precision and recall, of two classes, of several, and between every two groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine
from ..errors import InputError
from ..lagrangian import ConstraintForm, ConstraintProblem, HasConstraints, kept_rows, two_group_form
from ..smooth import ClassDecisions, Decisions, HasSmooth, Ratio, SmoothEngine, SmoothForm
from .base import Metric
from .confusion import CountMetric, class_counts, something_to_find
from .curve import BestThreshold, nan_like
from .programs import Coefficients, RatioOfCounts


@dataclass(frozen=True)
class FBeta(RatioOfCounts, CountMetric, HasConstraints):
    """F_β: ``(1 + β²) tp / ((1 + β²) tp + β² fn + fp)``, the weighted harmonic mean of precision and recall.

    Undefined (NaN) when there is no positive and none is decided.

    Args:
        beta: > 0; recall counts β times as much as precision.
        threshold: Scores above it are decided positive.

    Example:
        >>> import torch, aimfor
        >>> float(aimfor.FBeta(1.0).value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0])))
        0.5

    References:
        van Rijsbergen, Information Retrieval, 1979.
    """

    beta: float
    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0
    group_count: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("beta", self.beta, above=0)

    def lines(self) -> tuple[Coefficients, Coefficients]:
        square = float(self.beta) ** 2
        return (1 + square, 0.0, 0.0, 0.0), (1 + square, 1.0, square, 0.0)

    def constraint_form(self, batch: Batch) -> ConstraintForm:
        return two_group_form(batch, self.threshold, float(self.beta))


@dataclass(frozen=True)
class ClassFBeta(Metric, HasSmooth):
    """F_β of ``(n, c)`` scores, where the highest score decides (the first of equals).

    ``"macro"``: the F_β of each class against the rest, then the plain mean, so that a rare class counts as much as a
    frequent one. A class that is neither there nor decided is undefined and left out of the mean; the value is NaN if
    nothing is left. ``"weighted"``: the mean weighted by how many examples a class has. ``"micro"``: of the counts
    summed over all classes. With one label a row every wrong decision is one false positive and one false negative, so
    this is the accuracy, whatever β.

    Args:
        beta: > 0; recall counts β times as much as precision.
        average: ``"macro"``, ``"weighted"`` or ``"micro"``.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
        >>> targets = torch.tensor([0, 1, 1, 2])
        >>> macro, micro = (aimfor.metrics.ClassFBeta(average=one) for one in ("macro", "micro"))
        >>> round(float(macro.value(scores, targets)), 4), float(micro.value(scores, targets))
        (0.7778, 0.75)
    """

    beta: float = 1.0
    average: str = "macro"

    layout: ClassVar[str] = "multiclass"
    order_only: ClassVar[bool] = True
    remembers: ClassVar[str] = "counts"

    def __post_init__(self) -> None:
        checks.number("beta", self.beta, above=0)
        checks.one_of("average", self.average, ("macro", "weighted", "micro"))

    def exact(self, batch: Batch) -> Tensor:
        return self._mean(class_counts(batch))

    def _mean(self, counts: tuple[Tensor, ...], soft: bool = False) -> Tensor:
        if self.average == "micro":
            counts = tuple(kind.sum(-1, keepdim=True) for kind in counts)
        values = FBeta(self.beta).of_counts(*counts)
        if self.average == "weighted":
            there = counts[0] + counts[2]
            return (values.nan_to_num(0.0) * there).sum() / there.sum()
        return (something_to_find(values, counts) if soft else values).nanmean()

    def best_threshold(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> BestThreshold:
        """One threshold for each class, for "is it class k?" by column k: a row may then have several classes, or none.

        They are the best for F_β of each class, so their mean is too. A class without an example is left out.
        """
        if self.average == "micro":
            raise InputError("metric", repr(self), 'average="macro" or "weighted": each class by itself')
        with torch.no_grad():
            batch, fbeta = self.check(scores, targets, weights=weights, where=where), FBeta(self.beta)
            mass = batch.effective_weights()
            own = [Batch(column, batch.targets == k, mass) for k, column in enumerate(batch.scores.unbind(1))]
            thresholds, values = zip(*(fbeta.best_of(class_k) for class_k in own), strict=True)
            size = torch.ones_like(batch.targets, dtype=torch.float64) if mass is None else mass.double()
            there = torch.stack([(size * class_k.targets).sum() for class_k in own])
            share = there if self.average == "weighted" else (there > 0).double()
            value = (share * torch.stack(values).nan_to_num(0.0)).sum() / share.sum()
        return BestThreshold(torch.stack(thresholds), value)

    def smooth_form(self, batch: Batch) -> SmoothForm:
        weights = batch.effective_weights()
        mass = None if weights is None else weights[None]
        lines, rows = FBeta(self.beta).lines(), batch.scores[None]
        ratio = Ratio(*lines, summed=self.average == "micro", weighted=self.average == "weighted")
        return ClassDecisions(
            batch.scores, rows, batch.targets[None], mass, lambda *counts: self._mean(counts, soft=True), ratio
        )

    def default_engine(self) -> Engine:
        """Half cross-entropy at the metric's prices; micro is the accuracy, so its default is accuracy's."""
        return SmoothEngine(anchor=1.0) if self.average == "micro" else SmoothEngine(anchor=0.5, bank=2048)


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
        p, fbeta = batch.scores.shape[1], FBeta(self.beta)
        weights = batch.effective_weights()
        values = [nan_like(batch)]
        for j in range(p):
            member = batch.targets == j
            if not bool((member if weights is None else weights[member] > 0).any()):
                continue
            for k in range(p):
                if k != j:
                    rows = ((batch.targets == j) | (batch.targets == k)).nonzero().squeeze(1)
                    mass = None if weights is None else weights[rows]
                    values.append(fbeta.exact(Batch(batch.scores[rows, j], batch.targets[rows] == j, mass)))
        return torch.stack(values).nanmean()

    def decided_at(self, batch: Batch) -> float | None:
        return 0.0

    def smooth_form(self, batch: Batch) -> SmoothForm:
        p, fbeta, weights = batch.scores.shape[1], FBeta(self.beta), batch.effective_weights()
        first, second = (ids[:, None] for ids in _ordered_pairs(p, batch.targets.device))
        positive = batch.targets == first
        mass = (positive | (batch.targets == second)).to(batch.scores.dtype)
        mass = mass if weights is None else mass * weights

        def measure(*counts: Tensor) -> Tensor:
            return something_to_find(fbeta.of_counts(*counts), counts).nanmean()

        rows = batch.scores.t().index_select(0, first[:, 0])
        return Decisions(batch.scores, rows, positive, mass, measure, Ratio(*fbeta.lines()))

    def constraint_form(self, batch: Batch) -> ConstraintForm:
        scores, groups, index = kept_rows(batch)
        p = scores.shape[1]
        problems = []
        for j in range(p):
            for k in range(p):
                if k != j:
                    rows = ((groups == j) | (groups == k)).nonzero().squeeze(1)
                    own_index = None if index is None else index[rows]
                    problems.append(ConstraintProblem(scores[rows, j], groups[rows] == j, own_index, (j, k)))
        return ConstraintForm(batch.scores, groups, index, tuple(problems), float(self.beta))

    def default_engine(self) -> Engine:
        # Needs no labels of the data set, which the lagrangian engine is made with.
        return SmoothEngine(anchor=1.0, bank=2048)


@lru_cache(maxsize=8)
def _ordered_pairs(p: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Every (j, k) with j ≠ k below p, ``(p(p − 1),)`` each."""
    j, k = torch.cartesian_prod(*(torch.arange(p, device=device),) * 2).unbind(1)
    return j[j != k], k[j != k]
