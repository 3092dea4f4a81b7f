"""How far a number measured on these rows may be from the truth: exact for rates, by bootstrap for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..decisions.binomial import lower_bound, upper_bound
from .folds import rows_of_each

Interval = tuple[float, float]
#: Rows in one draw; a larger part is described by draws of this many, whose spread is scaled down to the part's size.
MOST_ROWS = 50_000
#: Draws for the largest parts, and for the smallest.
LEAST_DRAWS, MOST_DRAWS = 200, 400


def exact_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Clopper–Pearson: covers the true rate with at least this probability, whatever it is."""
    alpha = (1 - level) / 2
    return lower_bound(successes, trials, alpha), upper_bound(successes, trials, alpha)


def bootstrap_interval(
    value: Callable[[Tensor], float],
    n: int,
    *,
    level: float = 0.95,
    most_rows: int = MOST_ROWS,
    seed: int = 0,
    draws: int | None = None,
    clusters: Tensor | None = None,
) -> Interval | None:
    """Percentile interval of a number over draws of the rows with replacement.

    Draws in which the number is undefined (no positive among them) are left out. None where draws cannot tell: more
    than half are undefined, there is one row, or all are equal, as they are when every decision is right; "1 to 1"
    would promise what few rows cannot.

    Args:
        value: From row numbers, with repetitions, to the number.
        n: How many rows there are.
        level: Probability that the interval is made for.
        most_rows: Rows in one draw at most; with fewer than n the spread is scaled by ``sqrt(rows / n)``.
        seed: Of the draws.
        draws: How many; by default 400, and fewer, to 200, for many rows.
        clusters: ``(n,)`` ids of rows that are not independent: whole clusters are drawn.
    """
    if clusters is not None:
        together, of_rows = rows_of_each(clusters), value
        value = lambda drawn: of_rows(torch.cat([together[cluster] for cluster in drawn]))  # noqa: E731
        n = most_rows = len(together)
    if n < 2:
        return None
    rows = min(n, most_rows)
    if draws is None:
        draws = int(np.clip(4_000_000 // max(rows, 1), LEAST_DRAWS, MOST_DRAWS))
    generator = torch.Generator().manual_seed(seed)
    seen = np.array([value(torch.randint(n, (rows,), generator=generator)) for _ in range(draws)])
    seen = seen[np.isfinite(seen)]
    if len(seen) < draws / 2 or seen.min() == seen.max():
        return None
    low, high = np.quantile(seen, [(1 - level) / 2, (1 + level) / 2])
    if rows < n:
        center, shrink = float(np.mean(seen)), math.sqrt(rows / n)
        low, high = center + shrink * (low - center), center + shrink * (high - center)
    return float(low), float(high)
