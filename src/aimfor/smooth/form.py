"""SmoothForm: a metric as a function of decisions or ranks, which the engine makes soft."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..engine import Batch, Number, number
from ..errors import InputError
from ..twice import again
from .ledger import refuse_other_rows

#: A metric of float64 counts (tp, fp, fn, tn), each ``(r,)``: a scalar, NaN where undefined.
Measure = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Later:
    """A value that is found when somebody reads it, as nothing is learned from it and it costs more than the loss.

    Args:
        scores: It is of these, which must not have changed until then: detached, as is everything in ``find``, since a
            log that keeps the value must not keep the graph.
        find: The value.
        defined: Where the scores are on a device, whether the metric is; elsewhere it is known to be.
    """

    def __init__(self, scores: Tensor, find: Callable[[], Tensor], defined: Tensor | None = None) -> None:
        self.scores, self.find, self.defined = scores, find, defined
        self.version = None if scores.is_inference() else scores._version

    def __call__(self) -> float:
        if self.version is not None and self.scores._version != self.version:
            raise InputError(
                "scores",
                "a tensor that was changed in place after its loss was found",
                "the scores whose value is read",
                'Read stats["value"] first, or pass a copy.',
            )
        return float(self.find())


#: The metric to show beside a loss, NaN where it is undefined: a number, on a device a scalar, or `Later`.
LazyValue = Number | Later


def undefined_number(value: LazyValue) -> bool:
    """Whether the metric is known to be undefined; on a device nobody waits to know (`defined_flag`)."""
    return isinstance(value, float) and value != value


def equals(number: Number, other: float) -> bool:
    """Whether a plain number is that; a scalar on a device is not looked at."""
    return not isinstance(number, Tensor) and number == other


def defined_flag(value: LazyValue) -> Tensor | None:
    """On a device, whether the metric is defined; None for plain numbers."""
    return ~value.isnan() if isinstance(value, Tensor) else value.defined if isinstance(value, Later) else None


@dataclass(frozen=True)
class Softness:
    """How soft, and what is added.

    Attributes:
        temperature: The indicator of ``x > 0`` becomes ``sigmoid(x / temperature)``, in the unit of the scores. At 0
            (rankings only) it stays what it is, and nothing is learned from it. A scalar where it is relative to
            scores on a device.
        relative: Temperature over the spread of the scores, if it was given so; None leaves it to be found.
        anchor: Share in [0, 1] of the convex companion loss in the result.
        past: Counts of recent batches that are added to this batch's, as `Decisions` returns them, or None.
        indicator: "sigmoid", or the logistic bound of the metric: "lower" or "upper" (see `bounds`).
        anchor_temperature: The companion loss is of the scores over this; > 0.
    """

    temperature: Number
    relative: float | None = None
    anchor: float = 0.0
    past: Tensor | None = None
    indicator: str = "sigmoid"
    anchor_temperature: float = 1.0

    def constants(self) -> tuple[str, ...]:
        """What the gradient takes as constant whatever the form (`Engine.holds`)."""
        return ("the scores' spread",) * (self.relative is not None) + ("the bank's share",) * (self.past is not None)

    def refuse_bounds(self, what: str) -> None:
        """Raises `InputError` for bounds of what has none."""
        if self.indicator != "sigmoid":
            raise InputError(
                "indicator",
                f"{self.indicator!r} with {what}",
                '"sigmoid": bounds are for decisions at a threshold and for whole rankings',
            )


class SmoothForm(ABC):
    """A metric on one batch that can be evaluated with soft indicators."""

    #: The tensor the user passed, for degenerate batches.
    scores: Tensor

    @abstractmethod
    def spread(self) -> Number:
        """The scale of the scores: their standard deviation, about the threshold where there is one; 0 if all equal."""

    @abstractmethod
    def loss(self, softness: Softness) -> tuple[Tensor, LazyValue, Tensor | None]:
        """(loss attached to the graph, the smooth metric's value, this batch's soft counts ``(4, r)`` if it has any).

        A value of NaN means that the metric is undefined on this batch.
        """

    def holds(self, softness: Softness) -> tuple[str, ...]:
        """What the gradient takes as constant although the loss depends on it (`Engine.holds`)."""
        return softness.constants()

    def lazy_value(self, softness: Softness) -> LazyValue:
        """The value alone, sharp: nothing is learned from it."""
        return self.loss(replace(softness, anchor=0.0, temperature=0.0))[1]


@dataclass(frozen=True)
class SmoothSum(SmoothForm):
    """``Σ scale · (1 − metric)`` over parts, on the scale of those that are defined.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.smooth import SmoothSum
        >>> metric = aimfor.FBeta(1.0)
        >>> form = metric.smooth_form(metric.check(torch.tensor([1.0, -2.0]), torch.tensor([1, 0])))
        >>> round(SmoothSum(form.scores, ((0.5, form), (0.5, form))).spread(), 4)
        1.5811
    """

    scores: Tensor
    parts: tuple[tuple[float, SmoothForm], ...]

    def spread(self) -> Number:
        spreads = [form.spread() for _, form in self.parts]
        return sum(spreads) / len(spreads) if spreads else 0.0

    def holds(self, softness: Softness) -> tuple[str, ...]:
        return tuple({name: None for _, form in self.parts for name in form.holds(softness)})

    def loss(self, softness: Softness) -> tuple[Tensor, float, Tensor | None]:
        results = [(scale, form.loss(softness)) for scale, form in self.parts]
        outcomes = [(scale, loss, float(read_value(value))) for scale, (loss, value, _) in results]
        defined = [(scale, loss, value) for scale, loss, value in outcomes if value == value]
        if not defined:
            return self.scores.sum() * 0.0, float("nan"), None
        whole, there = sum(scale for scale, *_ in outcomes), sum(scale for scale, *_ in defined)
        loss = torch.stack([scale * loss for scale, loss, _ in defined]).sum() * (whole / there)
        return loss, sum(scale * value for scale, _, value in defined) * whole / there, None


class HasSmooth(ABC):
    """Capability: the metric's definition can be evaluated with soft decisions or soft ranks."""

    #: What a bank of recent batches keeps: ``"counts"``, ``"scores"``, or ``"nothing"`` where batches do not add up.
    remembers: ClassVar[str] = "nothing"
    #: Soft ranks see two copies of an example as a tie, so an example of weight 2 is not two examples.
    copies_tie: ClassVar[bool] = False

    @abstractmethod
    def smooth_form(self, batch: Batch) -> SmoothForm:
        """The batch as decisions or ranks, with the metric's own formula."""


def value_and_slopes(measure: Callable[..., Tensor], *at: Tensor) -> tuple[Any, ...]:
    """A scalar function's value and its gradient by each argument; entries on which it is undefined have gradient 0."""
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in at]
        value = measure(*leaves)
        if not value.requires_grad:
            return number(value), *map(torch.zeros_like, at)
        slopes = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return number(value.detach()), *(slope.nan_to_num(0.0, 0.0, 0.0) for slope in slopes)


#: A loss of the scores in operations that autograd can differentiate again, or why there is none.
Plain = Callable[[Tensor], Tensor] | str


def held_constant(names: tuple[str, ...]) -> str:
    """Why a loss has no second derivative."""
    held = " and ".join(names)
    return f"the gradient takes {held} as constant. SmoothEngine() has one for most metrics."


#: Scores from which on a copy of a table's gradient costs more than writing it by columns.
COLUMNS = 1 << 14


class WithGradient(torch.autograd.Function):
    """A loss whose gradient was found with it: backward only scales."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, loss: Number, gradient: Tensor, plain: Plain) -> Tensor:
        ctx.save_for_backward(scores, gradient)
        ctx.plain = plain
        large = scores.ndim == 2 and scores.numel() >= COLUMNS
        ctx.columns = large and not scores.is_contiguous() and scores.mT.is_contiguous()
        return scalar(scores, loss)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        scores, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            return again(gradient, scores, ctx.plain) * grad, None, None, None
        if ctx.columns:  # of a table, which takes the gradient as it lies in memory and copies any other
            return torch.mul(gradient, grad, out=gradient.new_empty(gradient.mT.shape).mT), None, None, None
        return gradient * grad, None, None, None


def with_gradient(scores: Tensor, loss: Number, gradient: Tensor, plain: Plain) -> Tensor:
    """``loss`` as a scalar of scores' dtype whose gradient with respect to ``scores`` is ``gradient``.

    ``plain`` is what a second derivative is found from.
    """
    return WithGradient.apply(scores, loss, gradient, plain)  # type: ignore[no-any-return]


def scalar(like: Tensor, loss: Number) -> Tensor:
    """The number as a tensor of that dtype and device."""
    return (
        loss.to(like.dtype) if isinstance(loss, Tensor) else like.new_full((), loss)
    )  # a third of `new_tensor`'s time


def read_value(lazy: LazyValue) -> Number:
    """The value itself."""
    return lazy() if isinstance(lazy, Later) else lazy


def with_past(counts: Tensor, past: Tensor | None) -> tuple[Tensor, Number]:
    """Counts joined with those of the past, and how many times more there are of them."""
    if past is None:
        return counts, 1.0
    refuse_other_rows(counts[0].numel(), past)
    joined, own = counts + past, counts.sum()
    return joined, number(torch.where(own > 0, joined.sum() / own, 1.0))


def wants_gradient(scores: Tensor) -> bool:
    return torch.is_grad_enabled() and scores.requires_grad
