"""Smooth stand-ins for a decision, so that the primal step has a gradient.

The Lagrangian is linear in the decisions ``hᵢ = 1[sᵢ > 0]``: example i has a price ``upᵢ`` for being predicted
positive and a price ``downᵢ`` for being predicted negative. The proxy φ stands in for ``1[s > 0]``:

=============  =============================  ==============================================
proxy          φ(s)                           property
=============  =============================  ==============================================
``sigmoid``    1/(1 + exp(−s/T))              bounded, follows the count; not convex
``logistic``   log(1 + exp(s/T)) / log 2      convex, bounds the count from above
``hinge``      max(0, 1 + s/T)                convex, bounds the count from above
=============  =============================  ==============================================
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

PROXIES = ("sigmoid", "logistic", "hinge")


def proxy(kind: str, scores: Tensor) -> tuple[Tensor, Tensor]:
    """φ and its derivative at each (already tempered) score."""
    if kind == "sigmoid":
        value = torch.sigmoid(scores)
        return value, value * (1.0 - value)
    if kind == "logistic":
        return torch.nn.functional.softplus(scores) / math.log(2.0), torch.sigmoid(scores) / math.log(2.0)
    value = (1.0 + scores).clamp_min(0.0)
    return value, (value > 0).to(scores.dtype)


class PricedDecisions(torch.autograd.Function):
    """``Σ upᵢ φ(sᵢ/T) + downᵢ φ(−sᵢ/T)``; the gradient is found in the forward pass, backward only scales it."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, up: Tensor, down: Tensor, kind: str, temperature: float) -> Tensor:
        tempered = scores / temperature if temperature != 1.0 else scores
        if kind == "sigmoid":  # φ(−s) = 1 − φ(s): one pass for both prices
            high, slope = proxy(kind, tempered)
            net = up - down
            total, gradient = torch.dot(net, high) + down.sum(), net * slope
        else:
            (high, rise), (low, fall) = proxy(kind, tempered), proxy(kind, -tempered)
            total, gradient = torch.dot(up, high) + torch.dot(down, low), up * rise - down * fall
        ctx.save_for_backward(gradient / temperature if temperature != 1.0 else gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad, None, None, None, None
