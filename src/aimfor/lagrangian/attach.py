"""Joins a Lagrangian whose gradients are known in closed form to the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .duals import Duals, Terms


class _Attach(torch.autograd.Function):
    """A loss whose gradients were found on the way; backward only scales them."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, count: int, *inputs_and_gradients: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs_and_gradients[count:])
        return loss.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [gradient * grad.to(gradient.dtype) for gradient in ctx.saved_tensors]
        return None, None, *scaled, *(None for _ in scaled)


def with_gradients(scores: Tensor, terms: Terms) -> Tensor:
    """The Lagrangian, attached to the scores alone."""
    return _Attach.apply(terms.loss, 1, scores, terms.by_score)  # type: ignore[no-any-return]


def with_gradients_of_all(scores: Tensor, duals: Duals, terms: Terms) -> Tensor:
    """As `with_gradients`, with gradients for τ and ε in the metric de² + mean dt²: one learning rate suits both."""
    by_tau = torch.zeros_like(duals.tau)
    by_tau[terms.slots] = (duals.positives * terms.by_tau).to(by_tau.dtype)
    by_epsilon = terms.by_epsilon.to(duals.epsilon.dtype)
    inputs = (scores, duals.epsilon, duals.tau)
    return _Attach.apply(terms.loss, 3, *inputs, terms.by_score, by_epsilon, by_tau)  # type: ignore[no-any-return]
