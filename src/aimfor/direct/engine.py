"""Engine "direct": the gradient of the true metric from two argmaxes (Song 2016), and the forms it takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import checks
from ..engine import Batch, Engine, EngineOutput, undefined, unit_of
from ..errors import InputError
from ..twice import once
from .interleave import SIGNS


class ArgmaxForm(ABC):
    """A score F over outputs y, whose argmax is what the model predicts, and a task loss Δ(y).

    An output may be anything (a ranking, a labelling, a tree); only the form looks inside it.
    """

    #: The tensor the user passed, for degenerate batches.
    scores: Tensor
    #: What the engine does when the user names no sign: +1, −1 or "both".
    sign: int | str = "both"

    @abstractmethod
    def loss(self) -> Tensor:
        """Δ of the prediction: a scalar, NaN where the metric is undefined. Needs no gradient."""

    @abstractmethod
    def score(self, output: Any) -> Tensor:
        """F(output): a scalar attached to the graph."""

    def difference(self, first: Any, second: Any) -> Tensor:
        """F(first) − F(second): a scalar attached to the graph."""
        return self.score(first) - self.score(second)

    @abstractmethod
    def predict(self) -> Any:
        """``argmax F``."""

    @abstractmethod
    def truth(self) -> Any:
        """The output with Δ = 0."""

    @abstractmethod
    def augment(self, epsilon: float, sign: int) -> Any:
        """``argmax F + sign · ε · Δ``, exactly."""

    def same(self, first: Any, second: Any) -> bool:
        """Whether two outputs are known to be one, which makes the gradient exactly 0."""
        return first is second

    def auto_epsilon(self) -> float:
        """The ε that ``"auto"`` takes; 0 when all scores are equal and any ε would do.

        1 unless a form knows better: decisions at a threshold then ask for a margin of a size that scores outgrow, so
        that training settles. (An ε that follows the scale of the scores is never outgrown.) Metrics of the order alone
        must follow the scale, because nothing else gives it.
        """
        return 1.0


class LinearForm(ArgmaxForm):
    """F is linear in the scores: an output is the tensor of its coefficients, ``F(y) = Σ y · scores``."""

    def __init__(self, scores: Tensor, loss: Tensor) -> None:
        self.scores = scores
        self._loss = loss

    def loss(self) -> Tensor:
        return self._loss

    def score(self, output: Tensor) -> Tensor:
        return (output * self.scores).sum()

    def difference(self, first: Tensor, second: Tensor) -> Tensor:
        return self.score(first - second)

    def same(self, first: Tensor, second: Tensor) -> bool:
        return torch.equal(first, second)


class HasArgmax(ABC):
    """Capability: the metric is the loss of an argmax, with exact loss-augmented inference."""

    @abstractmethod
    def argmax_form(self, batch: Batch) -> ArgmaxForm:
        """The batch as score, argmax and loss-augmented argmax."""


NO_SECOND = "the direct gradient is a difference of two outputs, which are constants to it. SmoothEngine() has one."


class DirectEngine(Engine):
    """The true metric loss forwards, and backwards the gradient that tends to its expectation's as ε → 0.

    With F the score of an output, ``y_w = argmax F``, ``y_direct = argmax F + s ε Δ`` and y* the ground truth:

    ==============  ==============================================  ======================================
    mode            gradient                                        what it is
    ==============  ==============================================  ======================================
    ``direct``      ``s/ε · (∇F(y_direct) − ∇F(y_w))``              Song's theorem 1
    ``hinge``       ``1/ε · (∇F(y_direct) − ∇F(y*))``, s = +1       structured hinge, an upper bound of Δ
    ``perceptron``  ``∇F(y_w) − ∇F(y*)``                            ignores Δ and ε
    ==============  ==============================================  ======================================

    The forward value is Δ(y_w) = 1 − metric in every mode. s = +1 moves away from a worse output: only what is right,
    but barely, has a gradient. s = −1 moves towards a better one: only what is wrong, but nearly right. Both at once,
    ``1/2ε · (∇F(y_+) − ∇F(y_−))``, is the central difference: its bias is O(ε²), theirs O(ε).

    Args:
        epsilon: > 0; or ``"auto"``: 1 for metrics of decisions; for metrics of the order alone it follows the scale of
            the scores (what moves relevant items by two standard deviations for NDCG; for average precision the root of
            the deviation, times how deep the positives stand, so that scores can outgrow it); or a schedule, a
            function of the number of training steps so far (`Decay` is one), saved with the module.
        sign: +1, −1 or ``"both"``; None takes the form's own: both, except for average precision of long lists, where
            −1 costs O((1 − AUC) · p · q), and +1 is taken as in the paper. ``hinge`` and ``perceptron`` know only +1.
        mode: One of the above.

    Raises:
        InputError: For ε ≤ 0, an unknown sign or mode, or sign −1 in a mode without signs.

    Stats:
        ``epsilon``: the ε of this step. ``zero_gradient`` (where a gradient is asked for): the two outputs are the same
        although the loss is not 0, so that this batch teaches nothing.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.direct import DirectEngine
        >>> DirectEngine(epsilon=0.1, sign=-1)
        DirectEngine(epsilon=0.1, sign=-1, mode='direct')

    References:
        Song, Schwing, Zemel, Urtasun, Training deep neural networks via direct loss minimization, 2016.
        McAllester, Hazan, Keshet, Direct loss minimization for structured prediction, 2010.
    """

    name: ClassVar[str] = "direct"
    capability: ClassVar[type] = HasArgmax
    cost: ClassVar[str] = "one sort + inference"
    whole_weights_only: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("the two outputs",)

    step: Tensor

    def __init__(
        self,
        epsilon: float | str | Callable[[int], float] = "auto",
        sign: int | str | None = None,
        mode: str = "direct",
    ) -> None:
        super().__init__()
        if isinstance(epsilon, str):
            if epsilon != "auto":
                raise InputError("epsilon", repr(epsilon), "a number > 0, 'auto' or a function of the step")
        elif not callable(epsilon):
            checks.number("epsilon", epsilon, above=0)
        self.epsilon = epsilon
        self.sign = sign if sign is None else checks.one_of("sign", sign, (*SIGNS, "both"))
        self.mode = checks.one_of("mode", mode, ("direct", "hinge", "perceptron"))
        if mode != "direct" and sign not in (None, 1):
            raise InputError("sign", repr(sign), f"+1: mode {mode!r} has no negative version")
        self.register_buffer("step", torch.zeros((), dtype=torch.int64), persistent=callable(epsilon))

    @property
    def stateless(self) -> bool:  # type: ignore[override]
        return not callable(self.epsilon)

    def formulate(self, metric: HasArgmax, batch: Batch) -> ArgmaxForm:
        return metric.argmax_form(batch)

    def solve(self, form: ArgmaxForm) -> EngineOutput:
        value = form.loss()
        number = float(value)
        if not math.isfinite(number):
            return undefined(form.scores)
        epsilon = self._epsilon(form)
        stats: dict[str, Any] = {"epsilon": epsilon}
        if not torch.is_grad_enabled() or not form.scores.requires_grad:
            return EngineOutput(value.detach().to(form.scores.dtype), stats=stats)
        with torch.no_grad():
            upper, lower, factor = self._outputs(form, epsilon)
            stats["zero_gradient"] = number > 0 and form.same(upper, lower)
        slope = factor * form.difference(upper, lower)
        # The value of the metric with the gradient of the difference of scores.
        loss = value.detach().to(slope.dtype) + (slope - slope.detach())
        if callable(self.epsilon) and self.training:
            self.step += 1
        return EngineOutput(once(loss, NO_SECOND, form.scores), stats=stats)

    def _outputs(self, form: ArgmaxForm, epsilon: float) -> tuple[object, object, float]:
        """Two outputs and a factor: the gradient is factor · (∇F(first) − ∇F(second))."""
        if self.mode == "perceptron":
            return form.predict(), form.truth(), 1.0
        if self.mode == "hinge":
            return form.augment(epsilon, 1), form.truth(), 1.0 / epsilon
        sign = form.sign if self.sign is None else self.sign
        if sign == "both":
            return form.augment(epsilon, 1), form.augment(epsilon, -1), 0.5 / epsilon
        return form.augment(epsilon, int(sign)), form.predict(), int(sign) / epsilon

    def _epsilon(self, form: ArgmaxForm) -> float:
        if isinstance(self.epsilon, str):
            return unit_of(form.auto_epsilon())  # all tied: any ε finds the same outputs
        if callable(self.epsilon):
            return checks.number("epsilon(step)", self.epsilon(int(self.step)), above=0)
        return float(self.epsilon)

    def extra_repr(self) -> str:
        return f"epsilon={self.epsilon!r}, sign={self.sign}, mode={self.mode!r}"
