"""The Lagrangian of a rate problem as prices: what each kind of example costs when predicted positive or negative."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .counts import FN, FP, TN, TP, Counts
from .expressions import Expression, LinearSum, Rate, Sum, Terms, Worst
from .parts import Part, rates_by_group, sum_sensitivity


@dataclass(frozen=True)
class Prices:
    """``L ≈ constant + mean over examples of up·φ(s) + down·φ(−s)``.

    Attributes:
        up: ``(combinations · 2,)``, price of predicting positive; index ``2 · combination + class``.
        down: Price of predicting negative.
        constant: What does not depend on the scores.
    """

    up: Tensor
    down: Tensor
    constant: float


def class_masses(counts: Counts) -> Tensor:
    """Examples of class 0 and 1 in each combination of labels, ``(*sizes, 2)``."""
    table = counts.table
    return torch.stack((table[..., FP] + table[..., TN], table[..., TP] + table[..., FN]), -1)


def objective_members(objective: Expression, counts: Counts) -> list[Rate]:
    """The rates a worst-group objective is over; none for an ordinary one."""
    return rates_by_group(objective, counts.levels) if isinstance(objective, Worst) else []


def objective_terms(objective: Expression, counts: Counts, shares: Mapping[str, float]) -> Terms:
    """The objective as a sum of rates: a worst group is a convex combination of the groups."""
    if isinstance(objective, Sum):
        return objective.terms
    return tuple((shares.get(repr(rate), 0.0), rate) for rate in objective_members(objective, counts))


def prices(
    sign: float, terms: Terms, parts: Sequence[Part], multipliers: Mapping[str, float], counts: Counts
) -> Prices:
    """Prices of ``−sign·objective − Σ λ·slack`` at these counts.

    Each term keeps its own side: what wants more positives is bounded through φ(−s), what wants fewer through φ(s),
    so that with a convex φ the whole is convex and never below the true Lagrangian.
    """
    masses = class_masses(counts)
    total = max(counts.total, 1.0)
    up, down, constant = torch.zeros_like(masses), torch.zeros_like(masses), 0.0
    pieces = []
    if terms:
        scale = total if any(rate.is_count for _, rate in terms) else 1.0
        start = float(LinearSum(terms).value(nobody(counts))) / scale
        start = start if math.isfinite(start) else 0.0
        pieces.append((-sign * sum_sensitivity(terms, counts) / scale, 1.0 - start if sign > 0 else start))
    for part in parts:
        weight = multipliers.get(part.name, 0.0)
        base = float(part.slack(nobody(counts)))
        if weight > 0.0 and math.isfinite(base):
            pieces.append((-weight * part.sensitivity(counts), -weight * base))
    for slope, base in pieces:
        up += slope.clamp_min(0.0)
        down += (-slope).clamp_min(0.0)
        constant += base + float((slope.clamp_max(0.0) * masses).sum())
    return Prices((up * total).reshape(-1), (down * total).reshape(-1), constant)


def nobody(counts: Counts) -> Counts:
    """The same examples with nobody predicted positive."""
    return decided(counts, 0.0, 0.0)


def decided(counts: Counts, negatives: float, positives: float) -> Counts:
    """The same examples with these shares of each class predicted positive; (0, 1) is a perfect classifier."""
    n, p = class_masses(counts).unbind(-1)
    cells = (positives * p, negatives * n, (1.0 - positives) * p, (1.0 - negatives) * n)
    return Counts(counts.levels, torch.stack(cells, -1))


def proxy_slack(part: Part, counts: Counts, risen: Tensor, fallen: Tensor) -> float:
    """The slack with proxies for decisions: Σφ(s) and Σφ(−s) by combination and class, ``(*sizes, 2)``."""
    slope = part.sensitivity(counts)
    masses = class_masses(counts)
    gain = (slope.clamp_min(0.0) * (masses - fallen)).sum() + (slope.clamp_max(0.0) * risen).sum()
    return float(part.slack(nobody(counts))) + float(gain)
