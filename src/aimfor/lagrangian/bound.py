"""Lower bounds on F_β: what a negative costs in the program, and what fixed scores certify.

A surrogate is a function of the negative's score g and of ε, a perspective function, so that the bound holds.
At unit margin a negative costs φ(1 + g) or so, an upper bound of "it is called positive". The program is scaled by
the variable ε (Charnes–Cooper), and the scaled cost is ``ε·φ(g/ε)``: convex in (g, ε) together, and with V the
program's value ``(1 + β²)/(1 + V)`` stays a lower bound on F_β. For the hinge that is Ravi's ``max(0, ε + g)``.
The curved ones divide by ε. Every feasible point has n·ε ≥ 1 (the mean of n·τ is 1 and τ ≤ ε), so they are taken at
``max(n·ε, 1)`` and nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .. import checks
from ..engine import internal_dtype

#: (scores, n·ε) → (cost, ∂/∂score, ∂/∂(n·ε)), element-wise.
Surrogate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def hinge(g: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """max(0, ε + g)."""
    cost = (g + epsilon).relu_()
    slope = cost.sign()  # 0 or 1, and a number at once
    return cost, slope, slope


def squared_hinge(g: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """max(0, ε + g)² / ε."""
    return _parabola((g + epsilon.clamp_min(1.0)).clamp_min(0.0), epsilon)


def squared(g: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(ε + g)² / ε: also pulls back negatives that are far below."""
    return _parabola(g + epsilon.clamp_min(1.0), epsilon)


def _parabola(z: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    ratio = z / epsilon.clamp_min(1.0)
    return z * ratio, 2.0 * ratio, (2.0 * ratio - ratio * ratio) * (epsilon > 1.0)


def logistic(g: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ε·log₂(1 + exp(g/ε)): cross-entropy of the negative, in bits."""
    scale = epsilon.clamp_min(1.0)
    x = g / scale
    soft, slope = functional.softplus(x) / math.log(2.0), torch.sigmoid(x) / math.log(2.0)
    return scale * soft, slope, (soft - x * slope) * (epsilon > 1.0)


SURROGATES: dict[str, Surrogate] = {
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "squared": squared,
    "logistic": logistic,
}


class Bound(NamedTuple):
    """``value`` is V (infinite where no scale is feasible), ``bound`` is (1 + β²)/(1 + V) ≤ F_β, both attached.

    Example:
        >>> import torch
        >>> bound_from_scores(torch.tensor([1.0, -1.0]), torch.tensor([True, False]))
        Bound(value=tensor(1.), bound=tensor(1.))
    """

    value: Tensor
    bound: Tensor


def bound_from_scores(scores: Tensor, positive: Tensor, beta: float = 1.0) -> Bound:
    """The best hinge bound on F_β at threshold 0 over all scales of the scores, exactly, in O(n log n).

    ``V = min over u > 0 of (β² p u + Σ_neg max(0, u + f_j)) / Σ_pos min(u, f_i)``, and ``F_β ≥ (1 + β²)/(1 + V)``.
    Between the breakpoints u = f_i, u = −f_j the quotient is linear over linear, hence monotone, so the minimum is at
    one of them: a sort and prefix sums find it. The gradient is exact almost everywhere: the best u is itself a
    score, and moves with it.

    Args:
        scores: ``(n,)`` real scores.
        positive: ``(n,)`` bool.
        beta: > 0.

    Returns:
        V and the bound, scalars of the scores' dtype. Without a positive score above 0 in S⁺, V is infinite and the
        bound 0, with gradient 0.

    Example:
        >>> import torch
        >>> value, bound = bound_from_scores(torch.tensor([2.0, 1.0, -1.0, -3.0]), torch.tensor([1, 1, 0, 0]).bool())
        >>> float(value), float(bound)
        (1.0, 1.0)

    References:
        Eban et al., 2017, equation 13; Ravi et al., 2020, problem 2.
    """
    square = checks.number("beta", beta, above=0) ** 2
    f, g = scores[positive], scores[~positive]
    scales = torch.cat((f, -g))
    best = _best_scale(scales.detach(), f.numel(), square)
    if best is None:
        zero = scores.sum() * 0.0
        return Bound(zero + float("inf"), zero)
    u = scales[best]
    value = (square * f.numel() * u + (g + u).clamp_min(0.0).sum()) / torch.minimum(f, u).sum()
    return Bound(value, (1.0 + square) / (1.0 + value))


def _best_scale(scales: Tensor, p: int, square: float) -> Tensor | None:
    """Position of the minimising u > 0 among the f_i (the first p) and the −f_j; None if Σ min(u, f) ≤ 0 for all."""
    ordered, order = scales.sort()
    u = ordered.to(internal_dtype(scales))
    up = (order < p).to(u.dtype)
    below, total = up.cumsum(0), u.cumsum(0)
    sum_up = (up * u).cumsum(0)
    # A score equal to u counts as u on either side of the cut, so ties need no care.
    hits = sum_up + u * (p - below)
    under = torch.arange(1, u.numel() + 1, dtype=u.dtype, device=u.device) - below
    costs = u * (square * p + under) - (total - sum_up)
    usable = (u > 0) & (hits > 0)
    return order[torch.where(usable, costs / hits, torch.inf).argmin()] if bool(usable.any()) else None


def f_beta(scores: Tensor, positive: Tensor, beta: float) -> float:
    """The true F_β at threshold 0, for the diagnostics (engines cannot import metrics); 0 where it is 0/0."""
    decided = scores > 0
    hits = float((decided & positive).sum())
    square = beta * beta
    whole = square * float(positive.sum()) + float(decided.sum())
    return (1.0 + square) * hits / whole if whole else 0.0
