"""ClassFBeta: F_β of several classes, averaged over the classes or of all decisions together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine
from ..errors import InputError
from ..smooth import ClassDecisions, HasSmooth, Ratio, SmoothEngine, SmoothForm
from .base import Metric
from .confusion import class_counts, something_to_find
from .curve import BestThreshold
from .fbeta import FBeta


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
            counts = tuple(one.sum(-1, keepdim=True) for one in counts)
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
            batch, one = self.check(scores, targets, weights=weights, where=where), FBeta(self.beta)
            mass = batch.effective_weights()
            own = [Batch(column, batch.targets == k, mass) for k, column in enumerate(batch.scores.unbind(1))]
            thresholds, values = zip(*(one.best_of(class_k) for class_k in own), strict=True)
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
