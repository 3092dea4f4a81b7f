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
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

PROXIES = ("sigmoid", "logistic", "hinge")
#: Decisions at a time: scores × operating points.
BLOCK = 1 << 17


def proxy(kind: str, scores: Tensor) -> tuple[Tensor, Tensor]:
    """φ and its derivative at each (already tempered) score."""
    if kind == "sigmoid":
        value = torch.sigmoid(scores)
        return value, value * (1.0 - value)
    if kind == "logistic":
        return torch.nn.functional.softplus(scores) / math.log(2.0), torch.sigmoid(scores) / math.log(2.0)
    value = (1.0 + scores).clamp_min(0.0)
    return value, (value > 0).to(scores.dtype)


def blocks(items: int, points: int) -> Iterator[slice]:
    """Some items at a time, with as many decisions as stay in the cache."""
    length = max(1, BLOCK // points)
    return (slice(start, start + length) for start in range(0, items, length))


class PricedDecisions(torch.autograd.Function):
    """The proxy-Lagrangian ``Σ upᵢ φ(sᵢ/T) + downᵢ φ(−sᵢ/T)``, or its mean over k operating points.

    Takes scores and prices ``(n,)``, and for points ``(3, k)``: thresholds, which are taken off the scores, and what
    ``up`` and ``down`` are multiplied by. Returns it with the derivative by each threshold, ``(k,)`` (empty without
    points). The gradient is found in the forward pass, backward only scales it.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, up: Tensor, down: Tensor, kind: str, temperature: float, points: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if points is None:
            total, gradient = _priced(scores, up, down, kind, temperature)
            own = gradient.new_empty(0)
        else:
            thresholds, rise, fall = points[..., None].unbind(0)
            totals, slopes, inequalities = [], [], []
            for some in blocks(len(scores), len(thresholds)):
                above = scores[some] - thresholds
                total, each = _priced(above, rise * up[some], fall * down[some], kind, temperature)
                totals.append(total)
                slopes.append(each.sum(1))
                inequalities.append(each.mean(0))
            own, total = -_sum(slopes), _sum(totals) / len(thresholds)
            gradient = inequalities[0] if len(inequalities) == 1 else torch.cat(inequalities)
        ctx.mark_non_differentiable(own)
        ctx.save_for_backward(gradient)
        return total, own

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None, None, None, None, None


def _sum(inequalities: list[Tensor]) -> Tensor:
    return inequalities[0] if len(inequalities) == 1 else torch.stack(inequalities).sum(0)


def _priced(above: Tensor, up: Tensor, down: Tensor, kind: str, temperature: float) -> tuple[Tensor, Tensor]:
    """The sum of all prices, and its derivative by each score."""
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
    return total, gradient if temperature == 1.0 else gradient / temperature
