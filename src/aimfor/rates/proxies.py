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
    """The proxy-Lagrangian: mean over k operating points of ``Σ upᵢ φ((sᵢ − t)/T) + downᵢ φ((t − sᵢ)/T)``.

    Takes scores ``(n,)``, thresholds ``(k,)`` (None: one point, at 0) and prices ``(k, n)`` (``(n,)`` for one point).
    Returns it with the derivative by each threshold, ``(k,)`` (empty for None). The gradient is found in the forward
    pass, backward only scales it.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, thresholds: Tensor | None, up: Tensor, down: Tensor, kind: str, temperature: float
    ) -> tuple[Tensor, Tensor]:
        above = scores if thresholds is None else scores - thresholds[:, None]
        above = above if temperature == 1.0 else above / temperature
        if kind == "sigmoid":  # φ(−s) = 1 − φ(s): one pass for both prices
            high, slope = proxy(kind, above)
            net = up - down
            total, gradient = (net * high).sum() + down.sum(), net * slope
        elif kind == "logistic":  # softplus(−s) = softplus(s) − s
            both, unit = up + down, 1.0 / math.log(2.0)
            total = (both * torch.nn.functional.softplus(above) - down * above).sum() * unit
            gradient = torch.addcmul(-down, both, torch.sigmoid(above)).mul_(unit)
        else:
            (high, rise), (low, fall) = proxy(kind, above), proxy(kind, -above)
            total, gradient = (up * high).sum() + (down * low).sum(), up * rise - down * fall
        gradient = gradient if temperature == 1.0 else gradient / temperature
        if thresholds is None:
            own = gradient.new_empty(0)
        else:
            own, gradient, total = -gradient.sum(1), gradient.mean(0), total / len(thresholds)
        ctx.mark_non_differentiable(own)
        ctx.save_for_backward(gradient)
        return total, own

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None, None, None, None, None
