"""The Lagrangian of a rate problem as prices of decisions, and smooth stand-ins for these, which have a gradient.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..constraints.counts import Array, Counts
from ..constraints.expressions import Expression, LinearSum, Sum, Terms
from ..constraints.inequalities import Inequality, objective_members, sum_sensitivity

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
            totals, slopes, gradients = [], [], []
            for some in blocks(len(scores), len(thresholds)):
                above = scores[some] - thresholds
                total, each = _priced(above, rise * up[some], fall * down[some], kind, temperature)
                totals.append(total)
                slopes.append(each.sum(1))
                gradients.append(each.mean(0))
            own, total = -_sum(slopes), _sum(totals) / len(thresholds)
            gradient = gradients[0] if len(gradients) == 1 else torch.cat(gradients)
        ctx.mark_non_differentiable(own)
        ctx.save_for_backward(gradient)
        return total, own

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None, None, None, None, None


def _sum(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors).sum(0)


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


@dataclass(frozen=True)
class Prices:
    """``L ≈ constant + mean over examples of up·φ(s) + down·φ(−s)``.

    Attributes:
        up: ``(combinations · 2,)``, price of predicting positive; index ``2 · combination + class``.
        down: Price of predicting negative.
        constant: What does not depend on the scores.
    """

    up: Array
    down: Array
    constant: float


def objective_terms(objective: Expression, counts: Counts, shares: Mapping[str, float]) -> Terms:
    """The objective as a sum of rates: a worst group is a convex combination of the groups."""
    if isinstance(objective, Sum):
        return objective.terms
    return tuple((shares.get(repr(rate), 0.0), rate) for rate in objective_members(objective, counts.levels))


def prices(
    sign: float, terms: Terms, inequalities: Sequence[Inequality], multipliers: Mapping[str, float], counts: Counts
) -> Prices:
    """Prices of ``−sign·objective − Σ λ·slack`` at these counts.

    Each term keeps its own side: what wants more positives is bounded through φ(−s), what wants fewer through φ(s),
    so that with a convex φ the whole is convex and never below the true Lagrangian.
    """
    masses = counts.class_masses()
    total = max(counts.total, 1.0)
    up, down, constant = np.zeros_like(masses), np.zeros_like(masses), 0.0
    pieces = []
    if terms:
        scale = total if any(rate.is_count for _, rate in terms) else 1.0
        start = float(LinearSum(terms).value(nobody(counts))) / scale
        start = start if math.isfinite(start) else 0.0
        pieces.append((-sign * sum_sensitivity(terms, counts) / scale, 1.0 - start if sign > 0 else start))
    for inequality in inequalities:
        weight = multipliers.get(inequality.name, 0.0)
        base = float(inequality.slack(nobody(counts)))
        if weight > 0.0 and math.isfinite(base):
            pieces.append((-weight * inequality.sensitivity(counts), -weight * base))
    for slope, base in pieces:
        up += np.maximum(slope, 0.0)
        down += np.maximum(-slope, 0.0)
        constant += base + float((np.minimum(slope, 0.0) * masses).sum())
    return Prices((up * total).reshape(-1), (down * total).reshape(-1), constant)


def nobody(counts: Counts) -> Counts:
    """The same examples with nobody predicted positive."""
    return counts.decided(0.0, 0.0)


def proxy_slack(inequality: Inequality, counts: Counts, risen: Array, fallen: Array) -> float:
    """The slack with proxies for decisions: Σφ(s) and Σφ(−s) by combination and class, ``(*sizes, 2)``."""
    slope = inequality.sensitivity(counts)
    masses = counts.class_masses()
    gain = (np.maximum(slope, 0.0) * (masses - fallen)).sum() + (np.minimum(slope, 0.0) * risen).sum()
    return float(inequality.slack(nobody(counts))) + float(gain)
