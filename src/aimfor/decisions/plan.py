"""Which rows to label: a floor on precision needs labels above the threshold alone, drawn at random there.

A grid of thresholds follows from the scores, a first part of the labels (the pilot, spread over the ranks) places the
*start* on it, and from then on every round draws its labels uniformly above a *limit*. A label drawn so is, given that
it lies above a threshold t at or above the limit, right with exactly the precision at t. A gambler bets on it: with k
of n right the capital against a precision of b is ``∫ p^k (1 − p)^(n−k) dπ(p) / (b^k (1 − b)^(n−k))`` over shares
p > b, which reaches 1/α with a probability of at most α where the precision is not above b, at any time: labelling may
stop or go on at will, and limits may follow from what was seen. Thresholds are accepted from the start downwards up to
the first whose capital has not got so far: the first false one on the way is accepted with a probability of at most α.
Rows are drawn without replacement. Where a round has taken a good part of the rows above a threshold, the rest are
those with lower scores, and the answer is on the safe side as long as precision falls with the score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincc, betaln, expit

from ..constraints.counts import Array

#: Thresholds of the grid, and the fewest rows above the first of them.
STEPS, FEWEST_ABOVE = 48, 10
#: The pilot's share of the first budget, its least and its most labels.
PILOT_SHARE, PILOT_LEAST, PILOT_MOST = 0.3, 20, 60
#: Rehearsals of a round, and limits that are tried.
REHEARSALS, LIMITS = 60, 16


@dataclass(frozen=True, eq=False)
class Design:
    """What a plan fixes before its first test.

    Attributes:
        scores: Of all rows, descending, float64.
        floor: The precision asked for.
        alpha: Error of the promise.
        above: Rows above each threshold of the grid, ascending: thresholds fall.
        start: Place of the first threshold that is tested.
    """

    scores: Array
    floor: float
    alpha: float
    above: Array
    start: int = 0

    @property
    def cuts(self) -> Array:
        """The grid's thresholds: half way to the next lower score; below all scores at the end."""
        lower = np.append(self.scores, self.scores[-1] - 2.0)[self.above]
        return np.asarray(0.5 * (self.scores[self.above - 1] + lower))

    def step_of(self, ranks: Array) -> Array:
        """The first step of the grid above whose threshold each rank (0 for the highest score) lies."""
        return np.searchsorted(self.above, ranks, side="right")


def design(scores: Array, floor: float, confidence: float) -> Design:
    """The grid, by the scores alone: even steps in the logarithm of the rows above, between different scores."""
    order = np.sort(scores)[::-1].astype(np.float64)
    possible = np.append(np.flatnonzero(order[:-1] > order[1:]) + 1, len(order))
    wanted = np.geomspace(min(FEWEST_ABOVE, len(order)), len(order), STEPS)
    places = np.minimum(np.searchsorted(possible, wanted), len(possible) - 1)
    return Design(order, floor, 1.0 - confidence, np.unique(possible[places]))


def pilot_size(budget: int) -> int:
    return min(max(round(PILOT_SHARE * budget), min(PILOT_LEAST, budget)), PILOT_MOST)


def pilot_ranks(rows: int, number: int, rng: np.random.Generator) -> Array:
    """Different ranks, spread evenly in their logarithm: what matters lies among the highest scores."""
    wish = np.exp(rng.uniform(0.0, math.log(rows + 1.0), 50 * number)).astype(np.int64) - 1
    _, first = np.unique(wish, return_index=True)
    drawn = wish[np.sort(first)][:number]
    spare = np.setdiff1d(np.arange(min(rows, 2 * number)), drawn)[: number - len(drawn)]  # few rows: take the next
    return np.sort(np.concatenate((drawn, spare)))


def log_capital(right: Array, drawn: Array, floor: float) -> Array:
    """Logarithm of the capital against this precision, elementwise; 0 without labels.

    Example:
        >>> bool(log_capital(np.array([0.0]), np.array([0.0]), 0.9) == 0.0)
        True
        >>> bool(log_capital(np.array([60.0]), np.array([60.0]), 0.9) > np.log(20))
        True
    """
    k, wrong = np.asarray(right, dtype=np.float64), np.asarray(drawn, dtype=np.float64) - right
    with np.errstate(divide="ignore"):
        beyond = np.log(betaincc(k + 0.5, wrong + 0.5, floor)) - math.log(betaincc(0.5, 0.5, floor))
    mixed = betaln(k + 0.5, wrong + 0.5) - betaln(0.5, 0.5)
    return np.asarray(beyond + mixed - k * math.log(floor) - wrong * math.log1p(-floor))


@dataclass(frozen=True, eq=False)
class Label:
    """One label: its rank, the step above whose threshold it was drawn (−1 in the pilot), and whether it is right."""

    rank: int
    limit: int
    right: bool


def capitals(plan: Design, labels: Sequence[Label]) -> Array:
    """The largest capital so far, as a logarithm, at every step of the grid; labels in the order of their rounds."""
    found = np.zeros(len(plan.above))
    right, drawn = np.zeros(len(plan.above)), np.zeros(len(plan.above))
    for label in labels:
        if label.limit < 0:
            continue
        first = int(plan.step_of(np.array([label.rank]))[0])
        drawn[first : label.limit + 1] += 1.0
        right[first : label.limit + 1] += float(label.right)
        found = np.maximum(found, log_capital(right, drawn, plan.floor))
    return found


def accepted(plan: Design, labels: Sequence[Label]) -> int | None:
    """The last step that is accepted, walking from the start; None where not even that is."""
    passed = capitals(plan, labels)[plan.start :] >= -math.log(plan.alpha)
    if not passed[0]:
        return None
    return plan.start + (int(np.argmin(passed)) if not passed.all() else len(passed)) - 1


def curves(plan: Design, labels: Sequence[Label], rng: np.random.Generator) -> Array:
    """Precision at every step, as drawn from what the labels leave open: ``(REHEARSALS, steps)``.

    A logistic curve in the logarithm of the rank, by Newton's method with a weak ridge, and its normal approximation.
    """
    middle = np.log(0.5 * (plan.above + np.append(0, plan.above[:-1])) + 1.0)
    centre, width = float(middle.mean()), float(middle.std()) or 1.0
    x = np.array([[1.0, (math.log(label.rank + 1.5) - centre) / width] for label in labels])
    y = np.array([label.right for label in labels], dtype=np.float64)
    beta, ridge = np.zeros(2), np.diag([0.05, 0.05])
    for _ in range(50):
        p = expit(x @ beta)
        hessian = (x * (p * (1.0 - p))[:, None]).T @ x + ridge
        beta = beta - np.clip(np.linalg.solve(hessian, x.T @ (p - y) + ridge @ beta), -2.0, 2.0)
    drawn = rng.multivariate_normal(beta, np.linalg.inv(hessian), REHEARSALS)
    local = expit(drawn[:, :1] + drawn[:, 1:] * (middle - centre) / width)
    mass = np.diff(plan.above, prepend=0)
    return np.cumsum(local * mass, 1) / plan.above


def next_round(
    plan: Design, labels: Sequence[Label], budget: int, rng: np.random.Generator, choose_start: bool
) -> tuple[int, int]:
    """(start, limit) with the most rows accepted on average over rehearsals of a round with this many labels."""
    truth, mass = curves(plan, labels, rng), np.diff(plan.above, prepend=0)
    local = np.clip(np.diff(truth * plan.above, axis=1, prepend=0.0) / mass, 0.0, 1.0)
    k, n = so_far(plan, labels)
    before = capitals(plan, labels) >= -math.log(plan.alpha)
    best, found = -1.0, (plan.start, len(plan.above) - 1)
    for limit in np.unique(np.linspace(0, len(plan.above) - 1, LIMITS).astype(int)).tolist():
        share = mass[: limit + 1] / plan.above[limit]
        drawn = rng.multinomial(budget, share, REHEARSALS)
        right = rng.binomial(drawn, local[:, : limit + 1])
        passed = np.broadcast_to(before, truth.shape).copy()
        won = log_capital(k[: limit + 1] + right.cumsum(1), n[: limit + 1] + drawn.cumsum(1), plan.floor)
        passed[:, : limit + 1] |= won >= -math.log(plan.alpha)
        for start in range(limit + 1) if choose_start else [plan.start]:
            along = np.logical_and.accumulate(passed[:, start:], axis=1)
            reached = np.where(along, plan.above[start:], 0).max(1)
            if float(reached.mean()) > best:
                best, found = float(reached.mean()), (start, limit)
    return found


def so_far(plan: Design, labels: Sequence[Label]) -> tuple[Array, Array]:
    """Labels right and drawn that count at every step."""
    k, n = np.zeros(len(plan.above)), np.zeros(len(plan.above))
    for label in labels:
        if label.limit >= 0:
            first = int(plan.step_of(np.array([label.rank]))[0])
            n[first : label.limit + 1] += 1.0
            k[first : label.limit + 1] += float(label.right)
    return k, n
