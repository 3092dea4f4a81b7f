"""Rows that are copies of others: exact tests count independent rows, and a copy is no new evidence.

Equal scores alone prove nothing, since a tree has few leaves and a judge speaks in integers. But independent rows of
one score differ in their labels as often as the rate of positives around it says. Rows with equal scores and groups
that agree in their labels far more often than that are copies.
"""

from __future__ import annotations

import math

import numpy as np

from ..constraints.counts import Array
from .rows import Rows

#: How unlikely the agreement has to be by chance.
CHANCE = 1e-6
#: Sets of equal rows that are looked at.
MOST_SETS = 20_000


def copies(batch: Rows) -> int:
    """How many of the rows are copies of others; 0 where chance explains the rows that are equal."""
    place = _numbered([batch.scores, *(batch.groups[name] for name in sorted(batch.groups))])
    size = np.bincount(place).astype(np.float64)
    hits = np.bincount(place, batch.targets, minlength=len(size))
    if bool((size == 1).all()):
        return 0
    rate = rising(hits, size, np.ones_like(size))
    tied = np.flatnonzero(size > 1)[:MOST_SETS]
    pure = rate[tied] ** size[tied] + (1.0 - rate[tied]) ** size[tied]
    expected = float((1.0 - pure).sum())
    mixed = int(((hits > 0) & (hits < size))[tied].sum())
    if expected <= mixed:
        return 0
    # Chernoff's bound on the chance of so few sets whose labels differ.
    log_chance = mixed - expected + (mixed * math.log(expected / mixed) if mixed else 0.0)
    kinds = int((hits > 0).sum() + (hits < size).sum())
    return len(place) - kinds if log_chance < math.log(CHANCE) else 0


def _numbered(columns: list[Array]) -> Array:
    """Each row's place among the different rows, ascending by the first column, then the next."""
    place = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        found, own = np.unique(values, return_inverse=True)
        place = np.unique(place * len(found) + own, return_inverse=True)[1]
    return place


def rising(hits: Array, size: Array, weight: Array) -> Array:
    """The rate of positives at each score, which rises with it: isotonic regression with these weights."""
    blocks: list[list[float]] = []
    for share, mass in zip((hits / size).tolist(), weight.tolist(), strict=True):
        blocks.append([share * mass, mass, 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [one + other for one, other in zip(blocks[-1], last, strict=True)]
    means = np.array([total / mass for total, mass, _ in blocks])
    return means.repeat([int(count) for *_, count in blocks])
