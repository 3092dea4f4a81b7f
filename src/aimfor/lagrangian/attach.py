"""Joins a Lagrangian whose gradients are known in closed form to the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..twice import once
from .duals import Duals, Terms


class _Attach(torch.autograd.Function):
    """A loss whose gradients were found on the way; backward only scales them."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, count: int, *inputs_and_gradients: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs_and_gradients[count:])
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [gradient * grad.to(gradient.dtype) for gradient in ctx.saved_tensors]
        return None, None, *scaled, *(None for _ in scaled)


REASON = "the lagrangian engine's duals follow the scores."


def with_gradients(scores: Tensor, terms: Terms) -> Tensor:
    """The Lagrangian, attached to the scores alone.

    A product with the gradient has that gradient, in a fifth of the time of an autograd.Function in Python; its value
    is then overwritten with the Lagrangian's, which the product does not keep for its backward pass.
    """
    loss = torch.dot(scores, terms.by_score)
    loss.detach().fill_(terms.loss)
    return once(loss, REASON, scores)


def with_gradients_of_all(scores: Tensor, duals: Duals, terms: Terms) -> Tensor:
    """As `with_gradients`, with gradients for τ and ε in the metric de² + mean dt²: one learning rate suits both."""
    by_tau = torch.zeros_like(duals.tau)
    by_tau[terms.slots] = (duals.positives * terms.share * terms.by_tau).to(by_tau.dtype)
    loss = torch.as_tensor(terms.loss, dtype=scores.dtype, device=scores.device)
    by_epsilon = torch.as_tensor(terms.by_epsilon, dtype=duals.epsilon.dtype, device=scores.device)
    inputs = (scores, duals.epsilon, duals.tau)
    return once(_Attach.apply(loss, 3, *inputs, terms.by_score, by_epsilon, by_tau), REASON, *inputs)
