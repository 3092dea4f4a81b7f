"""One label per example out of several: loss-augmented inference is an argmax over the classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .form import LinearForm


class ClassForm(LinearForm):
    """0-1 loss, or any table of costs, of the highest-scoring class: ``F(y) = Σ_i share_i φ_{i, y_i}``.

    The examples are independent, so ``y_direct`` adds ``sign · ε · cost[target, ·]`` to each row of scores and
    takes the argmax. Among equal scores the first class is predicted.

    Args:
        scores: ``(n, c)``, attached to the graph.
        targets: ``(n,)`` class ids.
        share: ``(n,)`` weight of each example, summing to 1; 0 where masked.
        loss: The exact value of the loss.
        cost: ``(c, c)``, row = truth, column = decision, 0 on the diagonal; None for the 0-1 loss.
    """

    def __init__(
        self, scores: Tensor, targets: Tensor, share: Tensor, loss: Tensor, cost: Tensor | None = None
    ) -> None:
        super().__init__(scores, loss)
        self._targets = targets
        self._share = share
        classes = scores.shape[1]
        self._cost = 1.0 - torch.eye(classes, device=scores.device) if cost is None else cost

    def predict(self) -> Tensor:
        return self._coefficients(self.scores.detach().argmax(1))

    def truth(self) -> Tensor:
        return self._coefficients(self._targets)

    def augment(self, epsilon: float, sign: int) -> Tensor:
        cost = self._cost.to(self.scores.dtype)[self._targets]
        return self._coefficients((self.scores.detach() + sign * epsilon * cost).argmax(1))

    def spread(self) -> float:
        """Root mean square of the scores about each example's mean."""
        scores = self.scores.detach().double()
        centred = scores - scores.mean(1, keepdim=True)
        return float((self._share.double()[:, None] * centred.square()).sum().div(scores.shape[1]).sqrt())

    def _coefficients(self, classes: Tensor) -> Tensor:
        return functional.one_hot(classes, self.scores.shape[1]) * self._share.to(self.scores.dtype)[:, None]
