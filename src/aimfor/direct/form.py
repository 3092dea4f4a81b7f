"""ArgmaxForm: a metric as the loss of the best-scoring output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from ..engine import Batch


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
