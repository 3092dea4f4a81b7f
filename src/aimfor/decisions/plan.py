"""Planned labels: what they prove about a rate among the rows of one file, whenever one stops labelling.

A bound on a rate is a claim about a sum: ``precision >= b`` at a threshold says that ``Σ (yᵢ − b)`` over the rows above
it is at least 0, ``recall >= b`` that ``Σ yᵢ (aboveᵢ − b)`` over all rows is, and so on: every row adds what its cell
(tp, fp, fn, tn) is worth. Rows are drawn one after the other without replacement, each with a chance q in proportion to
a weight, so that for any guess pᵢ of the labels

    X = v(y₁ − p₁)/q + Σ values of the labelled rows + Σ guessed values of the rows without a label

has the claimed sum as its mean, where v is the worth of a positive minus that of a negative: exactly, for this file,
however good the guesses and however weights and guesses follow from earlier labels. If the sum is not above 0, a
gambler (`betting`) who bets on X ever reaches 1/α with a probability of at most α. Rows that are worth the same under
both labels need no label, and a claim whose other rows cannot all be drawn is not bet on in that round.

Thresholds are accepted from a start, which a first part of the labels (the pilot) has chosen, towards bolder ones up to
the first that has not got so far: the first false one on the way is accepted with a probability of at most α. The
pilot's labels are known rows: they are not bet on, and count like all others in the sums.

References:
    Waudby-Smith, Ramdas, Confidence sequences for sampling without replacement, 2020. Shekhar, Xu, Lipton, Liang,
    Ramdas, Risk-limiting financial audits via weighted sampling without replacement, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..constraints.counts import FN, FP, TN, TP, Array
from ..constraints.expressions import Constraint, Rate
from ..constraints.named import fnr, fpr, npv, precision, recall, tnr
from .betting import Spread, two_purses

#: Thresholds of the grid among the highest scores and among the lowest, and the fewest rows beyond the outermost.
STEPS, LOW_STEPS, FEWEST_BEYOND = 64, 16, 10
#: Draws that the guessed spread of X counts for.
GUESSED = 10.0
#: Points of the grid on which the hardest bound is sought.
GRID = 32
#: What can be planned for; those that hold more easily the fewer rows are flagged are walked towards more of them.
FLAG_MORE = ((precision, ">="), (fpr, "<="), (tnr, ">="))
FLAG_FEWER = ((recall, ">="), (fnr, "<="), (npv, ">="))


@dataclass(frozen=True, eq=False)
class Design:
    """What a plan fixes before its first test.

    Attributes:
        rate: Of which a bound is asked for.
        sense: ``">="`` or ``"<="``.
        bound: The bound.
        alpha: Error of the promise.
        above: Rows above each threshold of the grid, ascending: thresholds fall. The rows between two are a cell.
        start: Place in the `walk` of the first threshold that is tested.
    """

    rate: Rate
    sense: str
    bound: float
    alpha: float
    above: Array
    start: int = 0

    @property
    def rows(self) -> Array:
        """Of each cell."""
        return np.diff(self.above, prepend=0)

    @property
    def walk(self) -> Array:
        """Steps of the grid from timid to bold."""
        steps = np.arange(len(self.above))
        return steps if (self.rate, self.sense) in FLAG_MORE else steps[::-1]

    def cell_of(self, ranks: Array) -> Array:
        """The cell of each rank, 0 for the highest score: it lies above the threshold of that step and later ones."""
        return np.searchsorted(self.above, ranks, side="right")

    def worth(self, steps: Array, bounds: Array) -> tuple[Array, Array]:
        """``(claims, cells)``: what a negative adds to each claim, and how much more a positive does.

        A claim is that a bound holds at a step; both ``(claims,)``.
        """
        sign = 1.0 if self.sense == ">=" else -1.0
        value = [sign * ((cell in self.rate.numerator) - bounds * (cell in self.rate.denominator)) for cell in range(4)]
        flagged = np.arange(len(self.above)) <= steps[:, None]
        positive, zero = (np.where(flagged, value[a][:, None], value[b][:, None]) for a, b in ((TP, FN), (FP, TN)))
        return zero, positive - zero

    def claims(self) -> tuple[Array, Array]:
        """`worth` of the bound that is asked for, at every step."""
        steps = np.arange(len(self.above))
        return self.worth(steps, np.full(len(steps), self.bound))


@dataclass(frozen=True, eq=False)
class Round:
    """Labels in the order in which their rows were drawn.

    Attributes:
        ranks: Of the rows, 0 for the highest score.
        right: Whether each is positive; empty while they are not labelled.
        weight: Of a row of each cell, while rows are left; empty for the pilot.
        guess: Share of positives in each cell that the round was planned with.
    """

    ranks: Array
    right: Array
    weight: Array
    guess: Array


def possible(constraint: Constraint) -> bool:
    """Whether planned labels can be for this bound."""
    return (constraint.left, constraint.sense) in FLAG_MORE + FLAG_FEWER and 0.0 < constraint.bound < 1.0


def design(scores: Array, constraint: Constraint, confidence: float) -> tuple[Design, Array]:
    """The grid, by the scores alone, and its thresholds: half way to the next lower score.

    Even steps in the logarithm of the rows above, and a few more in that of the rows below, between different scores.
    """
    order = np.sort(scores)[::-1].astype(np.float64)
    rows = len(order)
    between = np.append(np.flatnonzero(order[:-1] > order[1:]) + 1, rows)
    fewest = min(FEWEST_BEYOND, rows)
    wanted = np.concatenate((np.geomspace(fewest, rows, STEPS), rows - np.geomspace(fewest, rows, LOW_STEPS)))
    indices = np.minimum(np.searchsorted(between, wanted), len(between) - 1)
    above = np.unique(between[indices])
    assert isinstance(constraint.left, Rate)
    made = Design(constraint.left, constraint.sense, constraint.bound, 1.0 - confidence, above)
    lower = np.append(order, order[-1] - 2.0)[above]
    return made, 0.5 * (order[above - 1] + lower)


def counted(plan: Design, rounds: Sequence[Round]) -> tuple[Array, Array]:
    """Rows labelled and found positive in each cell."""
    cells = plan.cell_of(np.concatenate([np.zeros(0, dtype=np.int64), *(labelled.ranks for labelled in rounds)]))
    right = np.concatenate([np.zeros(0), *(labelled.right for labelled in rounds)])
    size = len(plan.above)
    return np.bincount(cells, minlength=size).astype(np.float64), np.bincount(cells, right, minlength=size)


def _bets(plan: Design, earlier: Sequence[Round], labelled: Round, zero: Array, more: Array) -> tuple[Array, Array]:
    """X ``(claims, draws)`` of a round and the depth below which it cannot fall; 0 where there is no bet.

    The depth is that of all rows that may be drawn, at most 0 where the claim is beyond doubt.
    """
    cells, right, draws = plan.cell_of(labelled.ranks), labelled.right.astype(np.float64), len(labelled.ranks)
    drawn, positives = counted(plan, earlier)
    hit = np.zeros((draws, len(plan.above)))
    hit[np.arange(draws), cells] = 1.0
    before = hit.cumsum(0) - hit
    left = plan.rows - drawn - before  # (draws, cells)
    right_so_far = positives + (hit * right[:, None]).cumsum(0) - hit * right[:, None]
    base = zero @ (plan.rows - left).T + more @ right_so_far.T + (zero + more * labelled.guess) @ left.T
    told = more != 0.0
    pool = (told * labelled.weight) @ left.T
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.minimum(more * -labelled.guess, more * (1.0 - labelled.guess)) / labelled.weight
        move = more[:, cells] * (right - labelled.guess[cells]) / labelled.weight[cells] * pool
    deepest = np.zeros((len(zero), draws))
    bounded = np.zeros((len(zero), draws), dtype=bool)
    patterns, of = np.unique(left > 0.0, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        at = np.flatnonzero(of.reshape(-1) == number)
        open_ = told & pattern
        deepest[:, at] = np.where(open_, least, 0.0).min(1)[:, None]
        bounded[:, at] = ((labelled.weight > 0.0) | ~open_).all(1)[:, None]
    bet = bounded & told[:, cells]
    return np.where(bet, move + base, 0.0), np.where(bounded, -(deepest * pool + base), math.inf)


def _spread(plan: Design, earlier: Sequence[Round], labelled: Round, zero: Array, more: Array) -> Spread:
    """The mean square of X at the start of a round if the guesses were right, a draw without a bet being 0."""
    drawn, positives = counted(plan, earlier)
    left, told = plan.rows - drawn, more != 0.0
    mean = zero @ drawn + more @ positives + (zero + more * labelled.guess) @ left
    pool, weights = (told * labelled.weight) @ left, float(labelled.weight @ left)
    each = np.divide(
        labelled.guess * (1.0 - labelled.guess),
        labelled.weight,
        out=np.zeros(len(left)),
        where=labelled.weight > 0.0,
    )
    square = (mean**2 + pool * ((more**2 * each) @ left)) * pool / max(weights, 1e-300)
    return Spread(np.maximum(square, 1e-12), GUESSED)


def proven(plan: Design, rounds: Sequence[Round], zero: Array, more: Array) -> Array:
    """Which claims ``(claims, cells)`` (`Design.worth`) the labels support, each at the full error.

    A capital that has reached 1/α once is a proof for good.
    """
    won, wealth = np.zeros(len(zero), dtype=bool), np.zeros(len(zero))
    for turn, labelled in enumerate(rounds):
        if not len(labelled.weight) or not len(labelled.ranks):
            continue
        sums, depth = _bets(plan, rounds[:turn], labelled, zero, more)
        path = two_purses(sums, depth, plan.alpha, _spread(plan, rounds[:turn], labelled, zero, more), wealth)
        won |= (path.max(1) >= -math.log(plan.alpha)) | (depth <= 0.0).any(1)
        wealth = path[:, -1]
    return np.asarray(won | certain(plan, rounds, zero, more))


def certain(plan: Design, rounds: Sequence[Round], zero: Array, more: Array) -> Array:
    """Which claims hold whatever the labels of the other rows are."""
    drawn, positives = counted(plan, rounds)
    least = zero @ drawn + more @ positives + (zero + np.minimum(more, 0.0)) @ (plan.rows - drawn)
    return np.asarray(least >= -1e-9)


def accepted(plan: Design, rounds: Sequence[Round]) -> int | None:
    """The last step that is accepted, walking from the start, or a bolder one that is certain; None without any."""
    zero, more = plan.claims()
    passed = proven(plan, rounds, zero, more)[plan.walk]
    passed[: plan.start] = False
    failed = np.flatnonzero(~passed[plan.start :])
    end = plan.start + int(failed[0]) if len(failed) else len(passed)
    passed[end:] = False
    steps = np.flatnonzero(passed | certain(plan, rounds, zero, more)[plan.walk])
    return int(plan.walk[steps[-1]]) if len(steps) else None


def limit(plan: Design, rounds: Sequence[Round], step: int) -> float:
    """The hardest bound that the labels support at one step, on a grid and once more within its next step."""
    low, width, falling = 0.0, 1.0, plan.sense == "<="
    for _ in range(2):
        tried = low + width * np.arange(1, GRID + 1) / GRID
        bounds = 1.0 - tried if falling else tried
        won = proven(plan, rounds, *plan.worth(np.full(GRID, step), bounds))
        low, width = low + width * (GRID if won.all() else int(won.argmin())) / GRID, width / GRID
    return 1.0 - min(low, 1.0) if falling else min(low, 1.0)
