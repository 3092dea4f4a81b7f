"""Metrics of decisions: any function of the weighted counts (tp, fp, fn, tn), decided at ``score > threshold``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from .. import checks
from ..direct import (
    ArgmaxForm,
    ClassForm,
    CountForm,
    CountRule,
    DirectEngine,
    HasArgmax,
    class_rows,
    mean_shares,
    rows_of,
)
from ..engine import Batch, Engine
from ..errors import InputError
from ..lagrangian import ConstraintForm, HasConstraints, two_group_form
from .base import Metric
from .programs import Coefficients, RatioOfCounts


class Counts(NamedTuple):
    """Weighted counts of the four kinds of decision, float64, of any common shape."""

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor


def binary_counts(batch: Batch, threshold: float) -> Counts:
    """Counts along the last dimension: a scalar each for ``(n,)``, one per image for ``(b, l)``."""
    decided, positive = batch.scores.detach() > threshold, batch.targets
    weights = batch.effective_weights()
    mass = torch.ones_like(decided, dtype=torch.float64) if weights is None else weights.double()
    return Counts(
        (mass * (decided & positive)).sum(-1),
        (mass * (decided & ~positive)).sum(-1),
        (mass * (~decided & positive)).sum(-1),
        (mass * ~(decided | positive)).sum(-1),
    )


def class_counts(batch: Batch) -> Counts:
    """Counts of each class against the rest when the highest score decides: ``(c,)``, or ``(b, c)`` for ``(b, l, c)``.

    One pass over the entries fills a table (image, true class, decided class), whatever the number of classes.
    """
    classes, images = batch.scores.shape[-1], batch.targets.shape[:-1]
    truth = batch.targets.reshape(-1)
    decided = batch.scores.detach().argmax(-1).reshape(-1)
    number = images.numel()
    image = torch.arange(number, device=truth.device).repeat_interleave(truth.numel() // max(number, 1))
    weights = batch.effective_weights()
    mass = torch.ones_like(truth, dtype=torch.float64) if weights is None else weights.double().reshape(-1)
    cells = (image * classes + truth) * classes + decided
    table = mass.new_zeros(number * classes * classes).index_add_(0, cells, mass).reshape(*images, classes, classes)
    tp = table.diagonal(dim1=-2, dim2=-1)
    fp, fn = table.sum(-2) - tp, table.sum(-1) - tp
    return Counts(tp, fp, fn, table.sum((-2, -1)).unsqueeze(-1) - tp - fp - fn)


class CountMetric(Metric, HasArgmax):
    """A metric that is a function of (tp, fp, fn, tn); `of_counts` is that function and nothing else.

    `of_counts` broadcasts, so that an engine may evaluate it on a whole table of counts at once.
    """

    threshold: float

    layout: ClassVar[str] = "binary"
    #: Monotone in tp and fp, convex in fp and concave in tp: facts that make direct inference O(n log n).
    curved: ClassVar[bool] = False
    #: Largest minus smallest value, where it is known.
    span: ClassVar[float | None] = None

    @abstractmethod
    def of_counts(self, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
        """The metric of float64 counts that broadcast together; NaN where it is 0/0."""

    def exact(self, batch: Batch) -> Tensor:
        return self.of_counts(*binary_counts(batch, self.threshold))

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        loss = 1.0 - self.exact(batch)
        return CountForm(rows_of(batch, threshold=self.threshold), loss.new_ones(1), loss, self._rule())

    def default_engine(self) -> Engine:
        return DirectEngine()

    def _rule(self) -> CountRule:
        return CountRule(self.of_counts, self.curved, self.curved, self.span)

    def __post_init__(self) -> None:
        checks.number("threshold", self.threshold)


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
class Accuracy(RatioOfCounts, CountMetric):
    """Weighted fraction of right decisions: at ``score > threshold``, or by the highest of ``(n, c)`` scores.

    With several classes the first of equal highest scores decides.

    Args:
        threshold: Scores above it are decided positive (binary scores only).

    Example:
        >>> import torch, aimfor
        >>> float(aimfor.Accuracy().value(torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 1, 0, 0])))
        0.5
        >>> float(aimfor.Accuracy().value(torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]), torch.tensor([0, 1])))
        0.5
    """

    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        tensors = isinstance(scores, Tensor) and isinstance(targets, Tensor)
        columns = scores.shape[1] if tensors and scores.ndim >= 2 else 1
        by_class = columns > 1 and scores.numel() == columns * targets.numel()
        return (checks.multiclass if by_class else checks.binary)(scores, targets, **rest)

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return (1.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0, 1.0)

    def exact(self, batch: Batch) -> Tensor:
        if batch.scores.ndim == 1:
            return super().exact(batch)
        tp, fp, _, _ = class_counts(batch)
        right, wrong = tp.sum(), fp.sum()
        return right / (right + wrong)

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        if batch.scores.ndim == 1:
            return super().argmax_form(batch)
        weights = batch.effective_weights()
        mass = batch.scores.new_ones(batch.targets.shape) if weights is None else weights
        share = mass / mass.sum().clamp_min(torch.finfo(mass.dtype).tiny)
        return ClassForm(batch.scores, batch.targets, share, 1.0 - self.exact(batch))


@dataclass(frozen=True)
class IoU(RatioOfCounts, CountMetric):
    """Intersection over union (Jaccard): ``tp / (tp + fp + fn)``, of one mask, of a class, or meaned over classes.

    Which of the many IoUs it is stands in the two options. An image or class with an empty union (nothing there,
    nothing decided) is undefined and left out of means; the value is NaN if nothing is left.

    Args:
        average: ``"dataset"``: counts are summed over all pixels first. ``"image"``: one IoU per image (the first
            dimension), then the mean over images, so that large objects do not drown small ones.
        classes: ``"binary"``: one score per pixel, decided at ``score > threshold``. ``"mean"``: scores
            ``(b, c, h, w)``, targets ``(b, h, w)`` class ids, the highest score decides, mean over the classes.
            A whole number: as "mean", but the IoU of that class alone.
        threshold: Scores above it are decided positive (``classes="binary"`` only).

    Example:
        >>> import torch, aimfor
        >>> scores = torch.tensor([[[1.0, 2.0], [-1.0, -1.0]], [[3.0, -1.0], [-1.0, -1.0]]])
        >>> masks = torch.tensor([[[1, 0], [1, 1]], [[1, 0], [0, 0]]])
        >>> float(aimfor.IoU().value(scores, masks)), float(aimfor.IoU(average="image").value(scores, masks))
        (0.4, 0.625)
    """

    average: str = "dataset"
    classes: str | int = "binary"
    threshold: float = 0.0

    curved: ClassVar[bool] = True
    span: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("average", self.average, ("dataset", "image"))
        if isinstance(self.classes, str):
            checks.one_of("classes", self.classes, ("binary", "mean"))
        else:
            checks.integer("classes", self.classes, at_least=0)

    @property
    def layout(self) -> str:  # type: ignore[override]
        if self.average == "image":
            return "masks"
        return "binary" if self.classes == "binary" else "multiclass"

    def check(self, scores: Any, targets: Any, **rest: Any) -> Batch:
        by_class = self.classes != "binary"
        if self.layout == "masks":
            batch = checks.masks(scores, targets, by_class=by_class, **rest)
        else:
            batch = super().check(scores, targets, **rest)
        if isinstance(self.classes, int) and self.classes >= batch.scores.shape[-1]:
            raise InputError("classes", repr(self.classes), f"a column of scores, 0 to {batch.scores.shape[-1] - 1}")
        return batch

    def lines(self) -> tuple[Coefficients, Coefficients]:
        return (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 0.0)

    def no_program(self) -> str | None:
        one_mask = self.average == "dataset" and self.classes == "binary"
        return None if one_mask else 'its program needs average="dataset" and classes="binary"'

    def exact(self, batch: Batch) -> Tensor:
        table = self._table(batch)
        if isinstance(self.classes, int):
            table = table[:, self.classes, None]
        # The inner mean over classes leaves NaN for images without any defined class; the outer one skips those.
        return table.nanmean(1).nanmean()

    def table(
        self, scores: Tensor, targets: Tensor, *, weights: Tensor | None = None, where: Tensor | None = None
    ) -> Tensor:
        """Every IoU behind the mean: ``(images, classes)``, NaN where undefined.

        One row with ``average="dataset"``, one column with ``classes="binary"``.
        """
        with torch.no_grad():
            return self._table(self.check(scores, targets, weights=weights, where=where))

    def _table(self, batch: Batch) -> Tensor:
        if self.classes == "binary":
            return self.of_counts(*binary_counts(batch, self.threshold)).reshape(-1, 1)
        table = self.of_counts(*class_counts(batch))
        return table if table.ndim == 2 else table[None]

    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        defined = ~self._table(batch).isnan()
        if isinstance(self.classes, int):
            defined = defined & (torch.arange(defined.shape[1], device=defined.device) == self.classes)
        binary = self.classes == "binary"
        rows = rows_of(batch, threshold=self.threshold) if binary else class_rows(batch)
        return CountForm(rows, mean_shares(defined).reshape(-1), 1.0 - self.exact(batch), self._rule())
