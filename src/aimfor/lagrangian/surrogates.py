"""What a negative costs, as a function of its score g and of ε: perspective functions, so that the bound holds.

At unit margin a negative costs φ(1 + g) or so, an upper bound of "it is called positive". The program is scaled by
the variable ε (Charnes–Cooper), and the scaled cost is ``ε·φ(g/ε)``: convex in (g, ε) together, and with V the
program's value ``(1 + β²)/(1 + V)`` stays a lower bound on F_β. For the hinge that is Ravi's ``max(0, ε + g)``.
The curved ones divide by ε. Every feasible point has n·ε ≥ 1 (the mean of n·τ is 1 and τ ≤ ε), so they are taken at
``max(n·ε, 1)`` and nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

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
