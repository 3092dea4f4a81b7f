"""Does it still hold? Confidence sequences by betting: looking at every row costs nothing.

A gambler starts with 1 and bets on the next success or failure by a mixture of all constant strategies. Against a coin
of share p the wealth after k successes in n rows is ``M(p) = B(k + ½, n − k + ½) / (B(½, ½) p^k (1 − p)^(n−k))``. If p
is the true share, this is a martingale, and the chance that it *ever* reaches 1/α is at most α (Ville). The shares
against which it has not got so far are a confidence sequence: true at all times at once, so that one may look every day
and stop at will.

References:
    Ville, Étude critique de la notion de collectif, 1939. Robbins, Statistical methods related to the law of the
    iterated logarithm, 1970. Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..constraints.counts import Counts
from ..constraints.expressions import Constraint, Expression
from .certificate import Certificate, certify


def log_wealth(successes: float, trials: float, share: float) -> float:
    """Logarithm of the mixture gambler's wealth against a coin of this share.

    Example:
        >>> round(log_wealth(0, 0, 0.3), 12), log_wealth(90, 100, 0.5) > 20
        (0.0, True)
    """
    k, rest = successes, trials - successes
    mixed = math.lgamma(k + 0.5) + math.lgamma(rest + 0.5) - math.lgamma(trials + 1.0) - math.log(math.pi)
    fair = (k * math.log(share) if k else 0.0) + (rest * math.log1p(-share) if rest else 0.0)
    return mixed - fair


def sequence_lower(successes: float, trials: float, alpha: float) -> float:
    """Lower end of the confidence sequence: the true share is below it, at any time ever, with probability <= alpha.

    Example:
        >>> round(sequence_lower(95, 100, 0.05), 4)
        0.8442
    """
    if trials <= 0 or successes <= 0:
        return 0.0
    low, high = 0.0, successes / trials
    if high == 1.0:
        high = 1.0 - 1e-15
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle <= 0.0 or log_wealth(successes, trials, middle) >= -math.log(alpha):
            low = middle
        else:
            high = middle
    return low


def certify_so_far(
    objective: Expression,
    constraints: Sequence[Constraint],
    counts: Counts,
    confidence: float = 0.95,
    *,
    direction: str = "maximize",
) -> Certificate:
    """As `certify`, for counts that are looked at again and again: all verdicts, ever, hold at the confidence."""
    return certify(objective, constraints, counts, confidence, direction=direction, lower=sequence_lower)
