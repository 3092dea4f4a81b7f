"""How much recall could *any* procedure keep that promises a precision floor from n calibration rows alone?

A procedure answers with a threshold; it promises that, whatever the distribution of the rows, the answer breaks the
floor with probability at most α. Let P be the true population and T(r) the thresholds that keep the floor there with
recall r or more. Take another population Q in which every threshold of T(r) just fails the floor. Under Q the procedure
answers with one of T(r) with probability at most α; so "the answer lies in T(r)" is a test of Q at level α, and
under P it happens no more often than the most powerful test of Q against P accepts (Neyman and Pearson). The mean
recall of answers that hold is the integral over r of that chance.

Any Q gives a bound. Those tried here change P above a cut: a share of the positives is taken away, negatives become
more frequent, and negatives appear at scores that P does not have (where P has none at all, nothing else can break a
floor). Within each kind of row the change is the same at every score, so the counts of the kinds are all that tells P
from Q. The cut and the mixture of the three changes are chosen to make the bound small. Nothing is assumed about the
procedure: order of tests, number of starts, kind of test, what the learning rows said. One procedure need not meet the
bound for all r at once, so it may be out of reach, too. Thresholds are those of a grid of 300 over the population's
ranks, and the power of a test is simulated: the bound is known to about half a point.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
CUTS, LEVELS, DRAWS = 300, 32, 20_000
#: Fifths of the surplus that are lost to fewer positives, to more negatives where P has some, and to new negatives.
MIXTURES = tuple((a / 5, b / 5, (5 - a - b) / 5) for a in range(6) for b in range(6 - a))


@dataclass(frozen=True)
class Curve:
    """Shares of all rows above each cut, from timid to bold: true positives and false positives."""

    hits: Array
    misses: Array
    positives: float

    @property
    def recall(self) -> Array:
        return self.hits / self.positives

    def surplus(self, floor: float) -> Array:
        """How far inside the floor a cut is; negative where it breaks it."""
        return (1.0 - floor) * self.hits - floor * self.misses


def curve_of(scores: Array, targets: NDArray[np.int64], floor: float, cuts: int = CUTS) -> Curve:
    """Of a finite population that rows are drawn from with replacement, as far as the last cut that keeps the floor."""
    n = len(targets)
    hits = targets[np.argsort(-scores, kind="stable")].cumsum() / n
    above = np.arange(1, n + 1) / n
    keeps = np.flatnonzero(hits >= floor * above)
    last = int(keeps[-1]) if len(keeps) else 0
    places = np.unique(np.linspace(0, last, cuts).round().astype(int))
    return Curve(hits[places], above[places] - hits[places], float(targets.mean()))


def bound(curve: Curve, floor: float, n: int, alpha: float, levels: int = LEVELS) -> float:
    """The mean recall of answers that hold, at most."""
    keeps = curve.surplus(floor) >= 0
    if not keeps.any():
        return 0.0
    steps = np.linspace(0.0, curve.recall[keeps].max(), levels + 1)
    chance, total = 1.0, 0.0
    for low, high in pairwise(steps):
        inside = keeps & (curve.recall >= low)
        chance = min(chance, chance_of(curve, inside, floor, n, alpha))  # a smaller set is no easier to hit
        total += float(high - low) * chance
    return total


def chance_of(curve: Curve, inside: NDArray[np.bool_], floor: float, n: int, alpha: float) -> float:
    """How often an answer may lie among the thresholds ``inside``, at most: the least over the populations Q tried."""
    best, least = None, 1.0
    for cut in np.unique(np.linspace(0, len(inside) - 1, 16).round().astype(int)):
        for mixture in MIXTURES:
            found = rival(curve, inside, int(cut), mixture, floor)
            if found is not None and (forecast := found.forecast(n, alpha)) < least:
                best, least = found, forecast
    return 1.0 if best is None else best.power(n, alpha)


def rival(
    curve: Curve, inside: NDArray[np.bool_], cut: int, mixture: tuple[float, float, float], floor: float
) -> Rival | None:
    """A population Q that changes P above the cut so that every threshold inside just fails the floor."""
    hits, misses = float(curve.hits[cut]), float(curve.misses[cut])
    fewer, more, new = mixture
    if hits <= 0 or (misses <= 0 and more > 0):
        return None
    # A threshold above the cut loses its share of each change, one below it the whole.
    parts = [np.minimum(kind[: cut + 1] / max(whole, 1e-300), 1.0) for kind, whole in (
        (curve.hits, hits), (curve.misses, misses), (curve.hits + curve.misses, hits + misses))]  # fmt: skip
    lost = np.ones(len(inside))
    lost[: cut + 1] = fewer * parts[0] + more * parts[1] + new * parts[2]
    surplus = curve.surplus(floor)
    if (lost[inside] <= 0).any():
        return None
    needed = float((surplus[inside] / lost[inside]).max(initial=0.0))
    changed = hits - fewer * needed / (1.0 - floor), misses + more * needed / floor
    added = new * needed / floor
    return Rival((hits, misses), changed, added) if changed[0] > 0 and sum(changed) + added < 1 else None


@dataclass(frozen=True)
class Rival:
    """Shares (true positives, false positives) above the cut under P and under Q, and Q's share of new negatives.

    Rows that P cannot produce never speak for P. Without one, which under Q has probability (1 − added)^n, the rows
    are drawn from the rest of Q: so the best test of Q is that of the rest at level α / (1 − added)^n.
    """

    truth: tuple[float, float]
    changed: tuple[float, float]
    added: float

    @property
    def shares(self) -> tuple[Array, Array]:
        """Of the three kinds of rows that P has: under P, and under the rest of Q."""
        p = np.array([*self.truth, 1.0 - sum(self.truth)])
        q = np.array([*self.changed, 1.0 - sum(self.changed) - self.added]) / (1.0 - self.added)
        return p, q

    @property
    def weights(self) -> Array:
        """Logarithms of the likelihood ratio, 0 where neither has rows."""
        p, q = self.shares
        return np.log(np.where(p > 0, p, 1.0) / np.where(p > 0, q, 1.0))

    def level(self, n: int, alpha: float) -> float:
        return float(np.exp(min(np.log(alpha) - n * np.log1p(-self.added), 0.0)))

    def forecast(self, n: int, alpha: float) -> float:
        """The power in the normal approximation: to choose among populations Q, not to bound."""
        level = self.level(n, alpha)
        if level >= 1.0:
            return 1.0
        moments = []
        for shares in self.shares:
            mean = float(self.weights @ shares)
            moments.append((n * mean, float(np.sqrt(n * max(self.weights**2 @ shares - mean**2, 1e-18)))))
        (mean, spread), (null_mean, null_spread) = moments
        return float(special.ndtr((mean - null_mean + special.ndtri(level) * null_spread) / spread))

    def power(self, n: int, alpha: float, draws: int = DRAWS) -> float:
        """Of the most powerful randomised test at level ``alpha`` of Q against P, by simulation."""
        level = self.level(n, alpha)
        if level >= 1.0:
            return 1.0
        rng = np.random.default_rng(0)
        under_p, under_q = (np.round(rng.multinomial(n, shares, draws) @ self.weights, 9) for shares in self.shares)
        critical = np.quantile(under_q, 1.0 - level, method="higher")
        beyond, at = (under_q > critical).mean(), (under_q == critical).mean()
        share = (level - beyond) / at
        return float((under_p > critical).mean() + share * (under_p == critical).mean())
