"""Permutation importance: how much of the metric is lost on held-out rows when a column's values change places.

It asks what *this model* uses, not what the data hold: of two columns that say the same, either may get the credit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .intervals import bootstrap_interval

#: Rows scored in all, over columns and shuffles. A fixed number, not a time, so that the result is repeatable.
BUDGET = 400_000
_MOST_ROWS, _LEAST_ROWS = 4_000, 200
_MOST_SHUFFLES, _LEAST_SHUFFLES = 5, 2
#: Of a column. Each of many columns has its own, so that there are fewer than for the metric.
_DRAWS = 100


@dataclass(frozen=True)
class ColumnImportance:
    """What is lost without one column: ``metric − metric with the column shuffled``, with a 95 % interval or None."""

    column: str
    loss: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Importance:
    """Of every column, the largest first; or why nothing was computed."""

    columns: list[ColumnImportance] = field(default_factory=list)
    rows: int = 0
    shuffles: int = 0
    metric: float | None = None
    left_out: str | None = None


def permutation_importance(
    scores: Callable[[Tensor], Tensor],
    value: Callable[[Tensor, Tensor], float],
    x: Tensor,
    targets: Tensor,
    columns: Sequence[str],
    *,
    budget: int = BUDGET,
    stopped: Callable[[], None] = lambda: None,
) -> Importance:
    """Importance of every input column, largest first.

    All encoded outputs of an input column are shuffled together, so a category of fifty levels is one column. The
    interval covers the luck of the rows and of the shuffle: each of 100 draws takes rows with replacement and one of
    the shuffles.

    Args:
        scores: From ``(n, d)`` rows to scores, ``(n,)`` or ``(n, c)``.
        value: The metric of ``(scores, targets)``, higher is better; NaN where undefined.
        x: ``(n, d)`` encoded rows that the model has not been trained on.
        targets: ``(n,)`` class ids.
        columns: For each of the d outputs of the encoder the input column it comes from.
        budget: Rows to score in all. It decides how many rows and shuffles are used; beyond it nothing is computed.
        stopped: Called between columns; may raise to end the work.

    Example:
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> right = lambda s, y: float(((s > 0) == (y > 0)).double().mean())
        >>> importance = permutation_importance(lambda rows: rows[:, 0], right, x, y, ["used", "unused"])
        >>> [(row.column, row.loss > 0.3) for row in importance.columns]
        [('used', True), ('unused', False)]
    """
    number = len(set(columns))
    plan = _plan(len(x), number, budget)
    if plan is None:
        return Importance(left_out=f"{number} columns are too many to try one by one")
    count, shuffles = plan
    generator = torch.Generator().manual_seed(0)
    if count < len(x):
        kept = torch.randperm(len(x), generator=generator)[:count].sort().values
        x, targets = x[kept], targets[kept]
    before = scores(x)
    whole = value(before, targets)
    if not np.isfinite(whole):
        return Importance(left_out="the metric is undefined on the rows that were looked at")
    rows = []
    for name, shuffled in shuffled_by_column(x, columns, shuffles, generator):
        stopped()
        after = [scores(s) for s in shuffled]
        rows.append(_summary(name, before, after, targets, value, generator))
    return Importance(sorted(rows, key=lambda row: -row.loss), len(x), shuffles, whole)


def _plan(n: int, columns: int, budget: int) -> tuple[int, int] | None:
    """(rows, shuffles) within the budget: rows are given up first, then shuffles; None when that is not enough."""
    least = min(n, _LEAST_ROWS)
    for shuffles in range(_MOST_SHUFFLES, _LEAST_SHUFFLES - 1, -1):
        rows = min(n, _MOST_ROWS, budget // (columns * shuffles))
        if rows >= least:
            return rows, shuffles
    return None


def shuffled_by_column(
    x: Tensor, columns: Sequence[str], shuffles: int, generator: torch.Generator
) -> Iterator[tuple[str, Iterator[Tensor]]]:
    """Each column's name, and the rows with its values in another order, so many times; each drawn when asked for."""

    def shuffled(outputs: list[int]) -> Iterator[Tensor]:
        for _ in range(shuffles):
            changed = x.clone()
            changed[:, outputs] = x[torch.randperm(len(x), generator=generator)][:, outputs]
            yield changed

    for name in dict.fromkeys(columns):
        yield name, shuffled([i for i, column in enumerate(columns) if column == name])


def _summary(
    name: str,
    before: Tensor,
    after: list[Tensor],
    targets: Tensor,
    value: Callable[[Tensor, Tensor], float],
    generator: torch.Generator,
) -> ColumnImportance:
    n = len(targets)
    loss = float(np.mean([value(before, targets) - value(s, targets) for s in after]))
    if all(torch.equal(s, before) for s in after):
        return ColumnImportance(name, 0.0, 0.0, 0.0)

    def lost(rows: Tensor) -> float:
        drawn = after[int(torch.randint(len(after), (1,), generator=generator))]
        return value(before[rows], targets[rows]) - value(drawn[rows], targets[rows])

    seed = int(torch.randint(2**31, (1,), generator=generator))
    low, high = bootstrap_interval(lost, n, seed=seed, draws=_DRAWS) or (None, None)
    return ColumnImportance(name, loss, low, high)
