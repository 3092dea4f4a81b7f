"""The lower bound on F_β that fixed scores certify: Ravi's problem with only the scale left to choose."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .. import checks
from ..engine import internal_dtype


class Bound(NamedTuple):
    """``value`` is V (infinite where no scale is feasible), ``bound`` is (1 + β²)/(1 + V) ≤ F_β, both attached."""

    value: Tensor
    bound: Tensor


def bound_from_scores(scores: Tensor, positive: Tensor, beta: float = 1.0) -> Bound:
    """The best hinge bound on F_β at threshold 0 over all scales of the scores, exactly, in O(n log n).

    ``V = min over u > 0 of (β² p u + Σ_neg max(0, u + f_j)) / Σ_pos min(u, f_i)``, and ``F_β ≥ (1 + β²)/(1 + V)``.
    Between the breakpoints u = f_i, u = −f_j the quotient is linear over linear, hence monotone, so the minimum is at
    one of them: two sorts and prefix sums find it. The gradient is exact almost everywhere: the best u is itself a
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
    scales = torch.cat((f[f > 0], -g[g < 0]))
    best = _best_scale(scales.detach(), f.detach(), g.detach(), square)
    if best is None:
        zero = scores.sum() * 0.0
        return Bound(zero + float("inf"), zero)
    u = scales[best]
    value = (square * f.numel() * u + (g + u).clamp_min(0.0).sum()) / torch.minimum(f, u).sum()
    return Bound(value, (1.0 + square) / (1.0 + value))


def _best_scale(u: Tensor, f: Tensor, g: Tensor, square: float) -> Tensor | None:
    """Position of the minimising u, or None if Σ min(u, f) ≤ 0 for every u."""
    u, f, g = (x.to(internal_dtype(x)) for x in (u, f, g))
    up, down = f.sort().values, (-g).sort().values
    below, under = torch.searchsorted(up, u), torch.searchsorted(down, u)
    hits = _prefix(up)[below] + u * (f.numel() - below)
    costs = square * f.numel() * u + u * under - _prefix(down)[under]
    usable = hits > 0
    return torch.where(usable, costs / hits, torch.inf).argmin() if bool(usable.any()) else None


def _prefix(x: Tensor) -> Tensor:
    return torch.cat((x.new_zeros(1), x.cumsum(0)))


def f_beta(scores: Tensor, positive: Tensor, beta: float) -> float:
    """The true F_β at threshold 0, for the diagnostics (engines cannot import metrics); 0 where it is 0/0."""
    decided = scores > 0
    hits = float((decided & positive).sum())
    square = beta * beta
    whole = square * float(positive.sum()) + float(decided.sum())
    return (1.0 + square) * hits / whole if whole else 0.0
