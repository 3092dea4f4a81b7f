"""Which rows to label next: a pilot over all ranks, then rounds that are drawn where the claims are decided.

The labels so far leave a range of curves open (`curves`): a round is rehearsed on each of them, for every start (in the
first round) and for targets on the way, one or two thresholds that it is for. A row's chance to be drawn is in
proportion to what its label may change at the target, so that rows below it are not drawn for a floor on precision.
None of this can harm the promise (`plan`); it decides how much is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit

from ..constraints.counts import Array
from .plan import Design, Round, counted, proven

#: The pilot's share of the first budget, its least and its most labels.
PILOT_SHARE, PILOT_LEAST, PILOT_MOST = 0.3, 20, 60
#: Rehearsals of a round, targets that are tried, and the share of curves that has to keep the bound at a target.
REHEARSALS, TARGETS, UNLIKELY = 60, 8, 0.02
#: A row is drawn as if its label's variance were at least this: guesses may be wrong.
LEAST_VARIANCE = 0.05
#: Labels that the fitted curve counts for in the guess of a cell.
CURVE = 10.0
#: Deviations at which a rehearsal takes the bets to be won.
WON = 1.9


def pilot_size(budget: int) -> int:
    return min(max(round(PILOT_SHARE * budget), min(PILOT_LEAST, budget)), PILOT_MOST)


def pilot(plan: Design, number: int, rng: np.random.Generator) -> Round:
    """Different ranks, spread evenly in their logarithm: what matters lies among the highest scores."""
    rows = int(plan.above[-1])
    task = np.exp(rng.uniform(0.0, math.log(rows + 1.0), 50 * number)).astype(np.int64) - 1
    _, first = np.unique(task, return_index=True)
    drawn = task[np.sort(first)][:number]
    spare = np.setdiff1d(np.arange(min(rows, 2 * number)), drawn)[: number - len(drawn)]  # few rows: take the next
    none = np.zeros(0)
    return Round(np.sort(np.concatenate((drawn, spare))), none, none, none)


def curves(plan: Design, rounds: Sequence[Round], rng: np.random.Generator) -> Array:
    """Share of positives in every cell, as drawn from what the labels leave open: ``(REHEARSALS, cells)``.

    A logistic curve in the logarithm of the rank, by Newton's method with a weak ridge, and its normal approximation.
    """
    middle = np.log(0.5 * (plan.above + np.append(0, plan.above[:-1])) + 1.0)
    centre, width = float(middle.mean()), float(middle.std()) or 1.0
    ranks, y = (
        np.concatenate([getattr(own, name) for own in rounds]).astype(np.float64) for name in ("ranks", "right")
    )
    x = np.stack((np.ones(len(y)), (np.log(ranks + 1.5) - centre) / width), 1)
    beta, ridge = np.zeros(2), np.diag([0.05, 0.05])
    for _ in range(50):
        p = expit(x @ beta)
        hessian = (x * (p * (1.0 - p))[:, None]).T @ x + ridge
        beta = beta - np.clip(np.linalg.solve(hessian, x.T @ (p - y) + ridge @ beta), -2.0, 2.0)
    drawn = rng.multivariate_normal(beta, np.linalg.inv(hessian), REHEARSALS)
    return np.asarray(expit(drawn[:, :1] + drawn[:, 1:] * (middle - centre) / width))


def guesses(plan: Design, rounds: Sequence[Round], open_: Array) -> Array:
    """Share of positives in every cell: the mean curve and the labels there."""
    drawn, positives = counted(plan, rounds)
    return np.asarray((positives + CURVE * open_.mean(0)) / (drawn + CURVE))


def estimate(plan: Design, rounds: Sequence[Round]) -> Array:
    """The rate at every step, as it is guessed; NaN where it has no rows."""
    drawn, positives = counted(plan, rounds)
    left = plan.rows - drawn
    ones = positives + left * guesses(plan, rounds, curves(plan, rounds, np.random.default_rng(0)))
    above, tp = plan.rows.cumsum(), ones.cumsum()
    cells = tp, above - tp, ones.sum() - tp, plan.rows.sum() - above - (ones.sum() - tp)
    top, bottom = (
        sum((cells[cell] for cell in some), np.zeros(len(tp))) for some in (plan.rate.numerator, plan.rate.denominator)
    )
    return np.where(bottom > 1e-6, top / np.maximum(bottom, 1e-6), math.nan)


def chances(plan: Design, rounds: Sequence[Round]) -> Array:
    """Of each row of the last round, the chance that it had at its turn."""
    last, cells = rounds[-1], plan.cell_of(rounds[-1].ranks)
    left = (plan.rows - counted(plan, rounds[:-1])[0]) @ last.weight
    return np.asarray(last.weight[cells] / (left - np.append(0.0, last.weight[cells].cumsum()[:-1])))


def next_round(plan: Design, rounds: Sequence[Round], budget: int, rng: np.random.Generator) -> tuple[Design, Round]:
    """The design with its start, which the first round after the pilot fixes, and the rows to label."""
    open_ = curves(plan, rounds, rng)
    guess = guesses(plan, rounds, open_)
    (zero, more), drawn = plan.claims(), counted(plan, rounds)[0]
    left, walk, before = plan.rows - drawn, plan.walk, proven(plan, rounds, zero, more)
    gain = _gain(plan, open_)[:, walk]
    starts = np.arange(len(walk)) if len(rounds) == 1 else np.array([plan.start])
    best, start, weight = -1.0, plan.start, np.zeros(0)
    likely = ((zero @ plan.rows + (open_ * plan.rows) @ more.T) > 0.0).mean(0)[walk] > UNLIKELY
    # Where all that is likely is labelled already, rows further on are what is left.
    for aimed in _aims(more[walk[likely]], guess, left) or _aims(more[walk], guess, left):
        planned = Round(np.zeros(0), np.zeros(0), aimed, guess)
        passed = before | _rehearsed(plan, rounds, planned, open_, budget, rng)
        reached = _reached(passed[:, walk], gain, starts)
        if float(reached.max()) > best:
            best, start, weight = float(reached.max()), int(starts[reached.argmax()]), aimed
    return replace(plan, start=start), Round(_draw(plan, rounds, weight, budget, rng), np.zeros(0), weight, guess)


def _gain(plan: Design, open_: Array) -> Array:
    """What each step is worth: the positives above it, or the negatives below where few rows are to be flagged."""
    if plan.walk[0] == 0:
        return np.asarray((open_ * plan.rows).cumsum(1))
    spared = (1.0 - open_) * plan.rows
    return np.asarray(spared.sum(1, keepdims=True) - spared.cumsum(1))


def _aims(more: Array, guess: Array, left: Array) -> list[Array]:
    """Weights of the cells for one target each, and for each pair of targets with half of the labels for either."""
    deviation = np.sqrt(np.maximum(guess * (1.0 - guess), LEAST_VARIANCE))
    targets = np.unique(np.linspace(0, max(len(more) - 1, 0), TARGETS).astype(int))[: len(more)]
    single = [np.abs(more[target]) * deviation for target in targets]
    single = [weight / float(weight @ left) for weight in single if float(weight @ left) > 0.0]
    return single + [0.5 * (a + b) for number, b in enumerate(single) for a in single[:number]]


def _reached(passed: Array, gain: Array, starts: Array) -> Array:
    """Mean gain at the last step before the first failure, by start; all ``(rehearsals, steps)`` along the walk."""
    steps = passed.shape[1]
    failed = np.where(passed, steps, np.arange(steps))
    end = np.minimum.accumulate(failed[:, ::-1], axis=1)[:, ::-1][:, starts]
    last = np.take_along_axis(gain, np.maximum(end - 1, 0), 1)
    return np.asarray(np.where(end > starts, last, 0.0).mean(0))


def _rehearsed(
    plan: Design, rounds: Sequence[Round], planned: Round, open_: Array, budget: int, rng: np.random.Generator
) -> Array:
    """Whether each step's claim would be proven, ``(REHEARSALS, steps)``, by the normal law and the most that bets win.

    ``open_ (REHEARSALS, cells)`` are the true shares.
    """
    zero, more = plan.claims()
    labelled, positives = counted(plan, rounds)
    left, told = plan.rows - labelled, more != 0.0
    wanted = planned.weight * left
    drawn = np.minimum(rng.multinomial(budget, wanted / wanted.sum(), len(open_)), left)
    still = 1.0 - drawn / np.maximum(left, 1.0)
    right = rng.binomial(drawn.astype(np.int64), open_)
    each = np.divide(1.0, planned.weight, out=np.zeros(len(left)), where=planned.weight > 0.0)
    pool, hits = (told * planned.weight) @ left, np.maximum(drawn @ told.T, 1e-9)
    base_sum = zero @ labelled + more @ positives + zero @ left
    truth = base_sum + (open_ * left) @ more.T
    noise = pool / hits * (((right - drawn * open_) * each * np.sqrt(still)) @ more.T)
    variance = pool * ((left * still * each * (open_ * (1.0 - open_) + (open_ - planned.guess) ** 2)) @ (more**2).T)
    estimate = truth + noise
    base = base_sum + (more * planned.guess) @ left
    least = np.where(
        told & (left > 0.0), np.minimum(-more * planned.guess, more * (1.0 - planned.guess)) * each, 0.0
    ).min(1)
    depth = -(least * pool + base)
    growth = hits * np.log1p(np.maximum(estimate, 0.0) / np.maximum(depth, 1e-300))
    clear = (estimate >= WON * np.sqrt(variance / hits)) & ((growth >= -math.log(plan.alpha)) | (depth <= 0.0))
    return np.asarray(clear & (estimate > 0.0) & ((planned.weight > 0.0) | ~told | (left <= 0.0)).all(1))


def _draw(plan: Design, rounds: Sequence[Round], weight: Array, budget: int, rng: np.random.Generator) -> Array:
    """Ranks without replacement, each next one with a chance in proportion to the weights of the rows that are left.

    Clocks that ring at rates in proportion to the weights ring in such an order.
    """
    rate = np.repeat(weight, plan.rows)
    rate[np.concatenate([labelled.ranks for labelled in rounds])] = 0.0
    eligible = np.flatnonzero(rate)
    rings = rng.exponential(size=len(eligible)) / rate[eligible]
    number = min(budget, len(eligible))
    soonest = np.argpartition(rings, number - 1)[:number]
    return eligible[soonest[np.argsort(rings[soonest])]]
