"""Quadratic weighted kappa: agreement on ordered classes, where a miss costs the square of its distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..engine import Batch, Engine, Number, number
from ..smooth import ByClasses, HasSmooth, SmoothEngine, SmoothForm
from ..smooth.decisions import root_mean_square
from ..smooth.form import Softness, equals
from .base import Metric


@dataclass(frozen=True)
class QuadraticKappa(Metric, HasSmooth):
    """Cohen's kappa with quadratic weights, of ``(n, c)`` scores whose classes are in order; the highest one decides.

    ``1 − Σ (i − j)² O_ij / Σ (i − j)² E_ij``, O the table of true and decided classes and E what it would be by chance,
    with the same margins. From −1 to 1; a constant decision has 0. Undefined (NaN) if one class is all that is there
    and all that is decided. Soft, a decision is a softmax; as a loss it is undefined where all targets are one class.

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 0.5, 3.0]])
        >>> round(float(aimfor.metrics.QuadraticKappa().value(scores, torch.tensor([0, 1, 2]))), 4)
        0.8

    References:
        Cohen, Weighted kappa, 1968. de la Torre, Puig, Valls, Weighted kappa loss function for multi-class
        classification of ordinal data in deep learning, 2018.
    """

    layout: ClassVar[str] = "multiclass"
    order_only: ClassVar[bool] = True
    lowest: ClassVar[float] = -1.0

    def exact(self, batch: Batch) -> Tensor:
        classes = batch.scores.shape[1]
        decided = torch.nn.functional.one_hot(batch.scores.argmax(1), classes).double()
        return _kappa(decided, batch.targets, _mass(batch))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        return ByClasses(
            batch.scores, KappaForm(batch.scores, batch.targets, _mass(batch)), batch.targets, batch.effective_weights()
        )

    def default_engine(self) -> Engine:
        """Half softmax cross-entropy: alone, a soft kappa is flat where it is surely wrong."""
        return SmoothEngine(anchor=0.5)


@dataclass(frozen=True)
class KappaForm(SmoothForm):
    """Quadratic kappa of soft decisions, in operations that autograd differentiates as often as it likes.

    Attributes:
        scores: ``(n, c)``, attached to the graph.
        targets: ``(n,)`` class ids.
        mass: ``(n,)`` float64.
    """

    scores: Tensor
    targets: Tensor
    mass: Tensor

    def spread(self) -> Number:
        x = self.scores.detach()
        return root_mean_square(x - x.mean(-1, keepdim=True), self.mass[:, None].expand_as(x))

    def loss(self, softness: Softness) -> tuple[Tensor, Number, Tensor | None]:
        softness.refuse_bounds("decisions for the highest of several scores")
        if not self.mass.numel():
            return self.scores.sum(), float("nan"), None
        counted, classes = self.mass > 0, self.scores.shape[1]
        lowest = torch.where(counted, self.targets, classes).amin()
        several = torch.where(counted, self.targets, -1).amax() > lowest
        if several.is_cpu and not several:
            return self.scores.sum() * 0.0, float("nan"), None
        if equals(softness.temperature, 0.0):
            soft = torch.nn.functional.one_hot(self.scores.argmax(-1), classes)
        else:
            soft = torch.softmax(self.scores / softness.temperature, -1)
        value = _kappa(soft.double(), self.targets, torch.where(several, self.mass, 1.0))
        loss = (1.0 - value).to(self.scores)
        return loss, number(torch.where(several, value.detach(), torch.nan)), None


def _mass(batch: Batch) -> Tensor:
    weights = batch.effective_weights()
    return torch.ones_like(batch.targets, dtype=torch.float64) if weights is None else weights.double()


def _kappa(decided: Tensor, targets: Tensor, mass: Tensor) -> Tensor:
    """From decisions ``(n, c)``, soft or not; 0/0 is NaN."""
    classes = torch.arange(decided.shape[1], dtype=torch.float64, device=decided.device)
    distances = (classes[:, None] - classes).square()
    there = torch.zeros_like(classes).index_add_(0, targets, mass)
    weighted = mass[:, None] * decided
    observed = (weighted * distances[targets]).sum()
    return 1.0 - observed * mass.sum() / there.dot(distances @ weighted.sum(0))
