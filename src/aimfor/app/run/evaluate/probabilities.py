"""Are the stated probabilities true? Observed shares by bins of probability, and two proper scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....fitting.intervals import exact_interval

Array = NDArray[np.float64]
_LEAST_IN_BIN = 10


def brier(probabilities: Array, targets: Array) -> float:
    """Mean squared distance between stated probability and truth: ``(n,)`` for two classes, ``(n, c)`` for more.

    With several classes the squares are summed over them, so that the worst is 2 (Brier's own definition).
    """
    if probabilities.ndim == 1:
        return float(np.mean((probabilities - targets) ** 2))
    truth = np.eye(probabilities.shape[1])[targets.astype(int)]
    return float(np.mean(((probabilities - truth) ** 2).sum(1)))


def log_loss(probabilities: Array, targets: Array) -> float:
    """Mean negative logarithm of the probability stated for what came true, held at 1e-15 from 0."""
    if probabilities.ndim == 1:
        stated = np.where(targets > 0, probabilities, 1 - probabilities)
    else:
        stated = probabilities[np.arange(len(targets)), targets.astype(int)]
    return float(-np.log(np.clip(stated, 1e-15, 1.0)).mean())


def reliability(probabilities: Array, targets: Array, bins: int = 10) -> list[dict[str, Any]]:
    """Mean stated probability and observed share, with its exact interval, in up to ``bins`` bins.

    A row's weight in filling the bins is the mean of its share of rows and its share of expected positives. Equal
    numbers of rows alone would put all but one bin next to zero where positives are rare. Equal probabilities are
    never parted, and every bin has at least ten rows (or there is one bin).

    With several classes, ``(n, c)``: the probability of the decided class against whether the decision is right.
    """
    if probabilities.ndim == 2:
        right = probabilities.argmax(1) == targets
        return reliability(probabilities.max(1), right.astype(np.float64), bins)
    order = np.argsort(probabilities, kind="stable")
    p, y = probabilities[order], targets[order]
    n = len(p)
    filling = np.cumsum(1 / n + p / max(p.sum(), 1e-300)) / 2
    number = np.minimum((filling * bins).astype(int), bins - 1)
    cuts = [0]
    for place in range(1, n):
        new_bin = number[place] > number[cuts[-1]] and p[place] > p[place - 1]
        if new_bin and place - cuts[-1] >= _LEAST_IN_BIN and n - place >= _LEAST_IN_BIN:
            cuts.append(place)
    return [_bin(p[a:b], y[a:b]) for a, b in zip(cuts, [*cuts[1:], n], strict=True)]


def _bin(p: Array, y: Array) -> dict[str, Any]:
    low, high = exact_interval(int(y.sum()), len(y))
    return {"stated": float(p.mean()), "seen": float(y.mean()), "low": low, "high": high, "n": len(y)}
