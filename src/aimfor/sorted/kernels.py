"""Sums of a surrogate over all positive-negative pairs, value and gradient together, without forming the pairs.

With ``a`` the positives' weights and ``b`` the negatives' (zero elsewhere), every kernel returns

    total = Σ_i Σ_j a_i b_j ℓ(x_i − x_j)        and        ∂ total / ∂ x.

For the truncated polynomials write ``k_i = x_i`` for positives and ``k_j = x_j + margin`` for negatives: the pair's
term is ``max(0, k_j − k_i)^p``, so one sort of ``k`` and prefix sums of ``a`` and ``a·k`` give every negative its
gradient, and suffix sums of ``b`` and ``b·k`` every positive. The total is homogeneous of degree p in ``k``, hence
``total = (1/p) Σ k ∂total/∂k`` by Euler, and the value costs one dot product.

Everything is float64 on centred scores: prefix sums in float32 lose the small differences they are made of.

All arguments are ``(m,)``, or ``(g, m)`` for g problems side by side; totals are then ``(g,)``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ..ordering import first_places, last_places, of_first, of_last, ordered

Kernel = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]

#: Entries of one block of the logistic kernel: 8 MB in float64.
BLOCK = 1 << 20


def squared(x: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """ℓ(d) = (margin − d)²: moments suffice, no sort."""
    k = _shifted(x, a, margin)
    slope_negative = a.sum(-1, keepdim=True) * k - _dot(a, k).unsqueeze(-1)
    slope_positive = b.sum(-1, keepdim=True) * k - _dot(b, k).unsqueeze(-1)
    gradient = 2.0 * (b * slope_negative + a * slope_positive)
    return 0.5 * _dot(gradient, k), gradient


def squared_hinge(x: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """ℓ(d) = max(0, margin − d)²."""
    k, order = ordered(_shifted(x, a, margin))
    a, b = a.gather(-1, order), b.gather(-1, order)
    below, above, below_keys, above_keys = torch.stack((a, b, a * k, b * k)).cumsum(-1).unbind(0)
    slope_negative = below * k - below_keys
    slope_positive = (above[..., -1:] - above) * k - (above_keys[..., -1:] - above_keys)
    half = b * slope_negative + a * slope_positive
    return _dot(half, k), torch.empty_like(k).scatter_(-1, order, half).mul_(2.0)


def hinge(x: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """ℓ(d) = max(0, margin − d); a pair exactly at the margin has gradient 0, whatever the order of the input."""
    k, order = ordered(_shifted(x, a, margin))
    a, b = a.gather(-1, order), b.gather(-1, order)
    below, above = _strictly_below(k, a), _strictly_above(k, b)
    sorted_gradient = b * below - a * above
    gradient = torch.empty_like(k).scatter_(-1, order, sorted_gradient)
    return _dot(sorted_gradient, k), gradient


def ramp(x: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """ℓ(d) = min(1, max(0, margin − d) / margin): a difference of two hinges (Meng's loss read from z)."""
    outer, outer_gradient = hinge(x, a, b, margin)
    inner, inner_gradient = hinge(x, a, b, 0.0)
    return (outer - inner) / margin, (outer_gradient - inner_gradient) / margin


def logistic(x: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """ℓ(d) = log(1 + exp(−d)): exact, in blocks of bounded size; O(|P||N|) time, O(n) memory."""
    if x.ndim == 2:
        rows = [logistic(*row, margin) for row in zip(x, a, b, strict=True)]
        return torch.stack([total for total, _ in rows]), torch.stack([gradient for _, gradient in rows])
    positives, negatives = a.nonzero().squeeze(1), b.nonzero().squeeze(1)
    xp, ap, xn, bn = x[positives], a[positives], x[negatives], b[negatives]
    gradient_p, gradient_n = torch.zeros_like(xp), torch.zeros_like(xn)
    total = x.new_zeros(())
    height = max(1, BLOCK // max(1, xn.numel()))
    columns = BLOCK // height
    for start in range(0, xp.numel(), height):
        row = slice(start, start + height)
        for left in range(0, xn.numel(), columns):
            column = slice(left, left + columns)
            gap = xn[None, column] - xp[row, None]
            total = total + ap[row] @ functional.softplus(gap) @ bn[column]
            slope = gap.sigmoid() if gap.requires_grad else gap.sigmoid_()
            gradient_p[row] -= ap[row] * (slope @ bn[column])
            gradient_n[column] += bn[column] * (ap[row] @ slope)
    gradient = torch.zeros_like(x)
    gradient[positives] = gradient_p
    gradient[negatives] = gradient_n
    return total, gradient


KERNELS: dict[str, Kernel] = {
    "squared_hinge": squared_hinge,
    "hinge": hinge,
    "squared": squared,
    "ramp": ramp,
    "logistic": logistic,
}


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return torch.dot(x, y) if x.ndim == 1 else (x * y).sum(-1)


def _shifted(x: Tensor, a: Tensor, margin: float) -> Tensor:
    """The keys k: margin added to everything but the positives (entries of no weight may stand anywhere)."""
    return x.add(a.eq(0), alpha=margin)


def _strictly_below(k: Tensor, mass: Tensor) -> Tensor:
    """For each entry of sorted ``k``: the mass at strictly smaller keys."""
    return of_first(k, mass.cumsum(-1) - mass)


def _strictly_above(k: Tensor, mass: Tensor) -> Tensor:
    """For each entry of sorted ``k``: the mass at strictly larger keys."""
    through = mass.cumsum(-1)
    return through[..., -1:] - of_last(k, through)


def top_fraction(x: Tensor, b: Tensor, fraction: float) -> Tensor:
    """The part of the mass ``b`` that lies in its highest-scoring ``fraction``; ties at the border share alike."""
    descending, order = ordered(x, descending=True)
    mass = b[order]
    through = mass.cumsum(0)
    budget = fraction * through[-1]
    first, last = first_places(descending), last_places(descending)
    start = through[first] - mass[first]
    group = through[last] - start
    share = ((budget - start) / group.clamp_min(torch.finfo(x.dtype).tiny)).clamp(0.0, 1.0)
    return torch.empty_like(b).scatter_(0, order, mass * share)
