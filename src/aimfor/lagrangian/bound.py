"""The lower bound on F_β that fixed scores certify: Ravi's problem with only the scale left to choose."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .. import checks
from ..engine import internal_dtype


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
