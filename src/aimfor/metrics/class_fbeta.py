"""ClassFBeta: F_β of several classes, averaged over the classes or of all decisions together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .. import checks
from ..engine import Batch, Engine
from ..smooth import ClassDecisions, HasSmooth, Ratio, SmoothEngine, SmoothForm
from .base import Metric
from .confusion import class_counts, something_to_find
from .fbeta import FBeta


@dataclass(frozen=True)
class ClassFBeta(Metric, HasSmooth):
    """F_β of ``(n, c)`` scores, where the highest score decides (the first of equals).

    ``"macro"``: the F_β of each class against the rest, then the plain mean, so that a rare class counts as much as a
    frequent one. A class that is neither there nor decided is undefined and left out of the mean; the value is NaN if
    nothing is left. ``"micro"``: of the counts summed over all classes. With one label a row every wrong decision is
    one false positive and one false negative, so this is the accuracy, whatever β.

    Args:
        beta: > 0; recall counts β times as much as precision.
        average: ``"macro"`` or ``"micro"``.

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
        checks.one_of("average", self.average, ("macro", "micro"))

    def exact(self, batch: Batch) -> Tensor:
        return FBeta(self.beta).of_counts(*self._averaged(class_counts(batch))).nanmean()

    def _averaged(self, counts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return counts if self.average == "macro" else tuple(one.sum(-1, keepdim=True) for one in counts)

    def smooth_form(self, batch: Batch) -> SmoothForm:
        weights = batch.effective_weights()
        mass = None if weights is None else weights[None]
        one = FBeta(self.beta)
        ratio = Ratio(*one.lines(), summed=self.average == "micro")

        def measure(*counts: Tensor) -> Tensor:
            counts = self._averaged(counts)
            return something_to_find(one.of_counts(*counts), counts).nanmean()

        return ClassDecisions(batch.scores, batch.scores[None], batch.targets[None], mass, measure, ratio)

    def default_engine(self) -> Engine:
        """Macro: half cross-entropy at the metric's prices; micro is the accuracy, so its default is accuracy's."""
        return SmoothEngine(anchor=0.5, bank=2048) if self.average == "macro" else SmoothEngine(anchor=1.0)
