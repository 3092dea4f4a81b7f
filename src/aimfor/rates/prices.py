"""The Lagrangian of a rate problem as prices: what each kind of example costs when predicted positive or negative."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import Array, Counts
from ..constraints.expressions import Expression, LinearSum, Sum, Terms
from ..constraints.inequalities import Inequality, objective_members, sum_sensitivity


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
