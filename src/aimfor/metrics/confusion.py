"""Metrics of decisions: any function of the weighted counts (tp, fp, fn, tn), decided at ``score > threshold``.

The counts, what all metrics made of them share (`CountMetric`), and `Confusion`, whose function is the user's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from .. import checks
from ..direct import ArgmaxForm, ClassForm, CountForm, CountRule, HasArgmax, rows_of
from ..engine import Batch, Engine
from ..errors import InputError
from ..smooth import (
    QUICK,
    ClassDecisions,
    Correlation,
    Decisions,
    HasSmooth,
    MeanOfRatios,
    Ratio,
    SmoothEngine,
    SmoothForm,
)
from .base import Metric
from .curve import BestThreshold, best_on_curve
from .programs import Coefficients, RatioOfCounts


class ConfusionCounts(NamedTuple):
    """Weighted counts of the four kinds of decision, float64, of any common shape."""

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor


def binary_counts(batch: Batch, threshold: float) -> ConfusionCounts:
    """Counts along the last dimension: a scalar each for ``(n,)``, one per image for ``(b, l)``."""
    decided, positive = batch.scores.detach() > threshold, batch.targets
    weights = batch.effective_weights()
    mass = torch.ones_like(decided, dtype=torch.float64) if weights is None else weights.double()
    return ConfusionCounts(
        (mass * (decided & positive)).sum(-1),
        (mass * (decided & ~positive)).sum(-1),
        (mass * (~decided & positive)).sum(-1),
        (mass * ~(decided | positive)).sum(-1),
    )


def class_counts(batch: Batch) -> ConfusionCounts:
    """Counts of each class against the rest when the highest score decides: ``(c,)``, or ``(b, c)`` for ``(b, l, c)``.

    One pass over the entries fills a table (image, true class, decided class), whatever the number of classes.
    """
    classes, images = batch.scores.shape[-1], batch.targets.shape[:-1]
    truth = batch.targets.reshape(-1)
    decided = batch.scores.detach().contiguous().argmax(-1).reshape(-1)
    number = images.numel()
    image = torch.arange(number, device=truth.device).repeat_interleave(truth.numel() // max(number, 1))
    weights = batch.effective_weights()
    mass = torch.ones_like(truth, dtype=torch.float64) if weights is None else weights.double().reshape(-1)
    cells = (image * classes + truth) * classes + decided
    table = mass.new_zeros(number * classes * classes).index_add_(0, cells, mass).reshape(*images, classes, classes)
    tp = table.diagonal(dim1=-2, dim2=-1)
    fp, fn = table.sum(-2) - tp, table.sum(-1) - tp
    return ConfusionCounts(tp, fp, fn, table.sum((-2, -1)).unsqueeze(-1) - tp - fp - fn)


def something_to_find(values: Tensor, counts: tuple[Tensor, ...]) -> Tensor:
    """Values of soft counts, NaN for those that are 0 for want of a positive (F_β, IoU): nothing is learned from them.

    The exact metric is 0/0 there, and left out of means, if nothing is decided. Soft decisions are never nothing.
    """
    return torch.where((counts[0] + counts[2] > 0) | (values != 0), values, torch.nan)


def check_by_shape(scores: Any, targets: Any, **rest: Any) -> Batch:
    """The gate of a metric of two classes or of several: ``(n, c)`` scores for n targets are several."""
    tensors = isinstance(scores, Tensor) and isinstance(targets, Tensor)
    columns = scores.shape[1] if tensors and scores.ndim >= 2 else 1
    by_class = columns > 1 and scores.numel() == columns * targets.numel()
    return (checks.multiclass if by_class else checks.binary)(scores, targets, **rest)


class CountMetric(Metric, HasArgmax, HasSmooth):
    """A metric that is a function of (tp, fp, fn, tn); `of_counts` is that function and nothing else.

    `of_counts` broadcasts, so that an engine may evaluate it on a whole table of counts at once.
    """

    threshold: float

    layout: ClassVar[str] = "binary"
    remembers: ClassVar[str] = "counts"
    #: Monotone in tp and fp, convex in fp and concave in tp: facts that make direct inference O(n log n).
    curved: ClassVar[bool] = False
    #: Largest minus smallest value, where it is known.
    span: ClassVar[float | None] = None

    @abstractmethod
    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """The metric of float64 counts that broadcast together; NaN where it is 0/0."""

    def exact(self, batch: Batch) -> Tensor:
        return self.of_counts(*binary_counts(batch, self.threshold))

    def decided_at(self, batch: Batch) -> float | None:
        return self.threshold if batch.targets.dtype == torch.bool else None  # class ids: the highest score decides

    def best_threshold(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> BestThreshold:
        with torch.no_grad():
            batch = self.check(scores, targets, weights=weights, where=where)
            if batch.scores.ndim != 1 or batch.targets.dtype != torch.bool:
                raise InputError(
                    "scores",
                    f"shape {tuple(scores.shape)} for {self!r}",
                    "one score per example, decided at one threshold for all",
                    "Of classes the highest score decides; f1_macro has thresholds by class.",
                )
            return self.best_of(batch)

    def best_of(self, batch: Batch) -> BestThreshold:
        """The same for checked scores ``(n,)``; the metric's own threshold where it is undefined."""
        own = torch.full_like(batch.scores[:1].sum(), self.threshold)
        return best_on_curve(self.of_counts, batch) or BestThreshold(own, self.exact(batch))

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        loss = 1.0 - self.of_counts(*binary_counts(batch, self.threshold))
        return CountForm(rows_of(batch, threshold=self.threshold), loss.new_ones(1), loss, self._rule())

    def smooth_form(self, batch: Batch) -> SmoothForm:
        rows = batch.scores - self.threshold if self.threshold else batch.scores
        return Decisions(batch.scores, rows, batch.targets, batch.effective_weights(), self.of_counts, self.as_ratio())

    def as_ratio(self) -> Ratio | MeanOfRatios | Correlation | None:
        """The metric as ratios of lines in the counts, whose slopes are in closed form; None where it is none."""
        return Ratio(*self.lines()) if isinstance(self, RatioOfCounts) else None

    def default_engine(self) -> Engine:
        # Pictures and several classes learn as fast at 1, and classes of pictures better without a bank.
        cold = QUICK if self.layout == "binary" else 1.0
        bank = 2048 if self.layout == "binary" else 0
        return SmoothEngine(cold, anchor=0.5, anchor_temperature=cold, bank=bank)

    def _rule(self) -> CountRule:
        return CountRule(self.of_counts, self.curved, self.curved, self.span)

    def __post_init__(self) -> None:
        checks.number("threshold", self.threshold)


class DecidedByClass(CountMetric):
    """A metric of counts, whose value for ``(n, c)`` scores is a mean of right decisions over shares of examples."""

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    @staticmethod
    @abstractmethod
    def of_class_counts(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """The metric of the counts of each class against the rest, ``(c,)``."""

    @abstractmethod
    def rivals(self, mass: Tensor, batch: Batch) -> Tensor:
        """What an example's mass is divided by to be its share of the metric."""

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        return check_by_shape(scores, targets, **rest)

    def exact(self, batch: Batch) -> Tensor:
        return super().exact(batch) if batch.scores.ndim == 1 else self.of_class_counts(*class_counts(batch))

    def smooth_form(self, batch: Batch) -> SmoothForm:
        if batch.scores.ndim == 1:
            return super().smooth_form(batch)
        weights = batch.effective_weights()
        mass = None if weights is None else weights[None]
        return ClassDecisions(batch.scores, batch.scores[None], batch.targets[None], mass, self.of_class_counts)

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        """Of several classes: the 0-1 loss with each example's share."""
        if batch.scores.ndim == 1:
            return super().argmax_form(batch)
        weights = batch.effective_weights()
        mass = batch.scores.new_ones(batch.targets.shape) if weights is None else weights
        share = mass / self.rivals(mass, batch).clamp_min(torch.finfo(mass.dtype).tiny)
        return ClassForm(batch.scores, batch.targets, share, 1.0 - self.exact(batch))


@dataclass(frozen=True)
class Confusion(CountMetric):
    """Any function of the weighted counts of decisions at ``score > threshold``.

    Args:
        fn: Maps four float64 tensors (tp, fp, fn, tn) to a tensor of their shape. Write it with tensor operators
            only, so that it broadcasts; 0/0 is NaN by itself and means undefined.
        name: How the metric prints.
        threshold: Scores above it are decided positive.

    Example:
        >>> import torch, aimfor
        >>> specificity = aimfor.Confusion(lambda tp, fp, fn, tn: tn / (tn + fp), name="specificity")
        >>> float(specificity.value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 0, 0, 0])))
        0.6666666666666666
        >>> specificity
        Confusion(name='specificity', threshold=0.0)
    """

    fn: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    name: str = "confusion"
    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.fn):
            raise InputError("fn", f"a {type(self.fn).__name__}", "a function of (tp, fp, fn, tn)")
        if not isinstance(self.name, str):
            raise InputError("name", f"a {type(self.name).__name__}", "a string")

    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        result = self.fn(tp, fp, fn, tn)
        shape = torch.broadcast_shapes(tp.shape, fp.shape, fn.shape, tn.shape)
        if not isinstance(result, Tensor) or result.shape != shape:
            came = f"shape {tuple(result.shape)}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise InputError(
                "fn",
                f"{came} for counts of shape {tuple(shape)}",
                "a tensor of the counts' shape",
                "Use tensor operators only, and no Python if on the counts.",
            )
        return result.to(tp.dtype)

    def __repr__(self) -> str:
        return f"Confusion(name={self.name!r}, threshold={self.threshold})"


@dataclass(frozen=True)
class CountRatio(RatioOfCounts, CountMetric):
    """Any ratio of linear functions of the counts: precision, specificity, Tversky's index, balanced costs, …

    Args:
        numerator: Coefficients of (tp, fp, fn, tn).
        denominator: The same, below the line.
        name: How the metric prints.
        threshold: Scores above it are decided positive.

    Example:
        >>> import torch, aimfor
        >>> tversky = aimfor.CountRatio((1, 0, 0, 0), (1, 0.3, 0.7, 0), name="tversky")
        >>> round(float(tversky.value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0]))), 6)
        0.5
    """

    numerator: Coefficients
    denominator: Coefficients
    name: str = "ratio"
    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for line in ("numerator", "denominator"):
            given = getattr(self, line)
            if not isinstance(given, (tuple, list)) or len(given) != 4:
                raise InputError(line, repr(given), "four numbers, for (tp, fp, fn, tn)")
            object.__setattr__(self, line, tuple(checks.number(line, float(k)) for k in given))

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return self.numerator, self.denominator
