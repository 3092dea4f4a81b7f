"""Slow, plain routes to the same numbers: all orderings, and the dynamic program as printed in the paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

Metric = Callable[[Sequence[int]], float]


def average_precision(relevant: Sequence[int]) -> float:
    """AP of a ranking given as 1 (positive) and 0 (negative), best position first."""
    hits, total = 0, 0.0
    for position, one in enumerate(relevant, 1):
        if one:
            hits += 1
            total += hits / position
    return total / hits


def ndcg(relevant: Sequence[int]) -> float:
    gained = sum(one / math.log2(1 + position) for position, one in enumerate(relevant, 1))
    ideal = sum(1 / math.log2(1 + position) for position in range(1, sum(relevant) + 1))
    return gained / ideal


def pair_score(ranking: Sequence[tuple[int, float]]) -> float:
    """Song's F of a ranking of (is positive, score)."""
    p = sum(one for one, _ in ranking)
    q = len(ranking) - p
    total = 0.0
    for (a, upper), (b, lower) in itertools.combinations(ranking, 2):
        if a != b:
            total += upper - lower  # y_ij (φ_i − φ_j) is (upper − lower) whichever of the two is positive
    return total / (p * q)


def best_over_all_orderings(
    positives: Sequence[float], negatives: Sequence[float], epsilon: float, sign: int, metric: Metric
) -> float:
    """The largest F + sign ε (1 − metric), over every permutation of the examples (not only interleavings)."""
    items = [(1, s) for s in positives] + [(0, s) for s in negatives]
    return max(
        pair_score(ranking) + sign * epsilon * (1 - metric([one for one, _ in ranking]))
        for ranking in itertools.permutations(items)
    )


def objective(
    positives: Sequence[float], negatives: Sequence[float], n: Sequence[int], epsilon: float, sign: int, metric: Metric
) -> float:
    """F + sign ε (1 − metric) of the interleaving with n_i negatives above the i-th best positive."""
    up, down = sorted(positives, reverse=True), sorted(negatives, reverse=True)
    assert list(n) == sorted(n)
    assert n[0] >= 0
    assert n[-1] <= len(down)
    ranking: list[tuple[int, float]] = []
    for i, score in enumerate(up):
        ranking += [(0, s) for s in down[(n[i - 1] if i else 0) : n[i]]] + [(1, score)]
    ranking += [(0, s) for s in down[n[-1] :]]
    return pair_score(ranking) + sign * epsilon * (1 - metric([one for one, _ in ranking]))


def dynamic_program(positives: Sequence[float], negatives: Sequence[float], epsilon: float, sign: int) -> float:
    """The value of Song's Figure 2, cell by cell, for average precision."""
    up, down = sorted(positives, reverse=True), sorted(negatives, reverse=True)
    p, q = len(up), len(down)
    h = [[-math.inf] * (q + 1) for _ in range(p + 1)]
    h[0][0] = 0.0
    for i in range(p + 1):
        for j in range(q + 1):
            if i:
                below = -sum(up[i - 1] - s for s in down[:j]) / (p * q)
                h[i][j] = max(h[i][j], h[i - 1][j] - sign * epsilon / p * i / (i + j) + below)
            if j:
                above = sum(s - down[j - 1] for s in up[:i]) / (p * q)
                h[i][j] = max(h[i][j], h[i][j - 1] + above)
    return h[p][q] + sign * epsilon
