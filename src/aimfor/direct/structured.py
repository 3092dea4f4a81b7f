"""Your own structured output: give a score, two argmaxes and a loss, get a loss to train with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..engine import EngineOutput
from ..errors import InputError
from ..watch import BatchCounts
from .engine import ArgmaxForm, DirectEngine


class StructuredForm(ArgmaxForm):
    """One batch of a `StructuredLoss`: outputs are whatever the user's functions return."""

    def __init__(self, problem: StructuredLoss, x: Tensor, y: Any) -> None:
        self.scores = x
        self._problem, self._y = problem, y
        with torch.no_grad():
            self._predicted = problem.argmax(x)

    def loss(self) -> Tensor:
        return _mean("loss", self._problem.loss(self._y, self._predicted)).double()

    def score(self, output: Any) -> Tensor:
        return _mean("score", self._problem.score(self.scores, output))

    def predict(self) -> Any:
        return self._predicted

    def truth(self) -> Any:
        return self._y

    def augment(self, epsilon: float, sign: int) -> Any:
        return self._problem.loss_augmented_argmax(self.scores.detach(), self._y, sign * epsilon)

    def auto_epsilon(self) -> float:
        return float(self.scores.detach().double().std(correction=0)) if self.scores.numel() else 0.0


class StructuredLoss(nn.Module):
    """The true loss of a structured prediction, with the direct gradient (Song's theorem 1).

    The score may be any differentiable function of x, linear or not; it is differentiated by autograd at the two
    outputs. The argmaxes run without gradients and may be written in anything.

    Args:
        score: ``score(x, y)`` → ``(b,)`` or scalar, differentiable in x.
        argmax: ``argmax(x)`` → the y with the largest score.
        loss_augmented_argmax: ``f(x, y_true, epsilon)`` → the y with the largest ``score(x, y) + epsilon · loss``;
            ``epsilon`` comes with its sign.
        loss: ``loss(y_true, y)`` → ``(b,)`` or scalar, 0 for the truth.
        engine: A `DirectEngine`; its ε, sign and mode apply.

    Attributes:
        counts: How many training batches there were, and how many had a gradient of exactly 0 (`BatchCounts`).

    Raises:
        InputError: For arguments that are not functions, or results that are not tensors.

    Example:
        >>> import torch
        >>> from aimfor.direct import DirectEngine, StructuredLoss
        >>> one = torch.nn.functional.one_hot
        >>> loss_fn = StructuredLoss(
        ...     score=lambda x, y: x.gather(1, y[:, None]).squeeze(1),
        ...     argmax=lambda x: x.argmax(1),
        ...     loss_augmented_argmax=lambda x, y, e: (x + e * (1 - one(y, x.shape[1]))).argmax(1),
        ...     loss=lambda y, z: (y != z).float(),
        ...     engine=DirectEngine(epsilon=1.0, sign=+1),
        ... )
        >>> x = torch.tensor([[1.0, 0.5], [0.0, 3.0]], requires_grad=True)
        >>> loss = loss_fn(x, torch.tensor([0, 1]))
        >>> loss.backward()
        >>> x.grad
        tensor([[-0.5000,  0.5000],
                [ 0.0000,  0.0000]])
    """

    def __init__(
        self,
        score: Callable[[Tensor, Any], Tensor],
        argmax: Callable[[Tensor], Any],
        loss_augmented_argmax: Callable[[Tensor, Any, float], Any],
        loss: Callable[[Any, Any], Tensor],
        engine: DirectEngine | None = None,
    ) -> None:
        super().__init__()
        given = {"score": score, "argmax": argmax, "loss_augmented_argmax": loss_augmented_argmax, "loss": loss}
        for name, function in given.items():
            if not callable(function):
                raise InputError(name, f"a {type(function).__name__}", "a function")
        if engine is not None and not isinstance(engine, DirectEngine):
            raise InputError("engine", f"a {type(engine).__name__}", "a DirectEngine")
        self.score, self.argmax, self.loss_augmented_argmax, self.loss = score, argmax, loss_augmented_argmax, loss
        self.engine = DirectEngine() if engine is None else engine
        self.counts = BatchCounts()

    def forward(self, x: Tensor, y: Any) -> Tensor:
        """The mean loss of the predictions, attached to the graph of x."""
        return self.detailed(x, y).loss

    def detailed(self, x: Tensor, y: Any) -> EngineOutput:
        """As `forward`, with the status and the ε of this step."""
        output = self.engine.solve(StructuredForm(self, x, y))
        if self.training and torch.is_grad_enabled():
            self.counts.add(output)
        return output.with_stats(self.counts.stats())


def _mean(name: str, result: Any) -> Tensor:
    if not isinstance(result, Tensor):
        raise InputError(name, f"a {type(result).__name__} returned", "a tensor of shape (b,) or a scalar")
    return result.float().mean() if not result.is_floating_point() else result.mean()
