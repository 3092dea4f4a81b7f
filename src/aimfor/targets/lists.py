"""Ranked lists: the metric of each, the usual ones beside it, and which columns their order depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..metrics import NDCG, AveragePrecision, Metric
from .importance import ColumnImportance, Importance, shuffled_by_column
from .intervals import bootstrap_interval
from .objective import Objective
from .results import Beside, NamedQuery, Queries, RankedLists

Array = NDArray[np.float64]
#: Shuffles of a column.
SHUFFLES = 2


def per_list(metric: Metric, scores: Tensor, y: Tensor, lists: Tensor) -> tuple[Tensor, Array]:
    """List numbers, ascending, and the metric of each list; NaN for a list without a grade above 0.

    The metric is a weighted mean over lists, ``v = Σ wᵦvᵦ / Σ wᵦ``, so its gradient by the weights, at equal weights,
    is ``(vᵦ − v) / b``: one pass gives every list's own value.

    Example:
        >>> from aimfor import NDCG
        >>> scores, y = torch.tensor([2.0, 1.0, 1.0, 2.0]), torch.tensor([1, 0, 1, 0])
        >>> per_list(NDCG(), scores, y, torch.tensor([4, 4, 9, 9]))[1].round(3).tolist()
        [1.0, 0.631]
    """
    numbers, index = lists.unique(return_inverse=True)
    relevant = torch.zeros(len(numbers), dtype=torch.bool).index_put((index[y > 0],), torch.tensor(True))
    values = np.full(len(numbers), np.nan)
    rows = relevant[index].nonzero().reshape(-1)
    if not len(rows):
        return numbers, values
    weights = torch.ones(int(relevant.sum()), dtype=torch.float64, requires_grad=True)
    batch = metric.check(scores[rows].double(), y[rows], groups=lists[rows], weights=weights.detach())
    mean = metric.exact(replace(batch, weights=weights[:, None]))
    slopes = torch.autograd.grad(mean, weights)[0]
    values[relevant.numpy()] = (mean.detach() + len(weights) * slopes).clamp(0.0, 1.0).numpy()
    return numbers, values


def interval(values: Array) -> tuple[float, float] | None:
    """95 % interval of the mean over draws of lists with replacement; None where draws cannot tell."""
    values = values[np.isfinite(values)]
    return bootstrap_interval(lambda drawn: float(values[drawn].mean()), len(values))


def list_importance(
    metric: Metric,
    scores: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    lists: Tensor,
    columns: Sequence[str],
    *,
    budget: int,
    stopped: Callable[[], None] = lambda: None,
) -> Importance:
    """What the mean over lists loses when a column's values change places among all rows; see `permutation_importance`.

    Rows count as whole lists: intervals are over draws of lists, because rows of one list are judged together.
    """
    numbers, counts = lists.unique(return_counts=True)
    generator = torch.Generator().manual_seed(0)
    most = max(1, budget // (SHUFFLES * len(set(columns))))
    if len(y) > most:  # whole lists, as many as the budget allows
        order = torch.randperm(len(numbers), generator=generator)
        fitting = int((counts[order].cumsum(0) <= most).sum())
        kept = torch.isin(lists, numbers[order[: max(1, fitting)]])
        x, y, lists = x[kept], y[kept], lists[kept]
    before = per_list(metric, scores(x), y, lists)[1]
    if not np.isfinite(before).any():
        return Importance(left_out="the metric is undefined on the rows that were looked at")
    rows = []
    for name, shuffled in shuffled_by_column(x, columns, SHUFFLES, generator):
        stopped()
        lost = np.sum([(before - per_list(metric, scores(s), y, lists)[1]) / SHUFFLES for s in shuffled], axis=0)
        low, high = interval(lost) or (None, None)
        rows.append(ColumnImportance(name, float(np.nanmean(lost)), low, high))
    return Importance(sorted(rows, key=lambda row: -row.loss), len(x), SHUFFLES, float(np.nanmean(before)))


#: Ranks whose NDCG every reader of rankings asks for.
RANKS = (1, 3, 5, 10)
BINS = 10
#: Queries named at either end.
NAMED = 5


def evaluate_lists(
    objective: Objective,
    scores: Tensor,
    grades: Tensor,
    lists: Tensor,
    names: NDArray[Any] | None = None,
    *,
    thorough: bool = False,
) -> RankedLists:
    """The metric over queries with what explains it.

    Args:
        objective: The metric of lists.
        scores: ``(n,)``.
        grades: ``(n,)`` whole numbers.
        lists: ``(n,)`` list numbers.
        names: The query's name of each row, for the queries that are named.
        thorough: Intervals, by draws of whole queries.

    ``baseline`` is the mean over all orders, which is what one score for every row gets: ties share their places.
    """
    numbers, values = per_list(objective.metric, scores, grades, lists)
    flat = per_list(objective.metric, torch.zeros_like(scores), grades, lists)[1]
    counted = np.isfinite(values)
    low, middle, high = np.quantile(values[counted], [0.25, 0.5, 0.75]).tolist() if counted.any() else (0.0, 0.0, 0.0)
    queries = Queries(
        counted=int(counted.sum()),
        left_out=int((~counted).sum()),
        quartiles=(low, middle, high) if counted.any() else None,
        below_chance=float((values[counted] < flat[counted] - 1e-9).mean()) if counted.any() else None,
        histogram=np.histogram(values[counted], BINS, (0.0, 1.0))[0].tolist(),
        named=_named(numbers, values, lists, names) if names is not None and thorough else [],
    )
    return RankedLists(
        metric=_mean(values),
        baseline=_mean(flat),
        n=len(grades),
        beside=[_beside(name, metric, scores, grades, lists, thorough) for name, metric in _others(objective)],
        interval=interval(values) if thorough else None,
        queries=queries,
    )


def _others(objective: Objective) -> list[tuple[str, Metric]]:
    gain = getattr(objective.metric, "gain", "linear")
    metrics: list[tuple[str, Metric]] = [(f"NDCG@{k}", NDCG(k, gain)) for k in RANKS]
    metrics += [("MAP (grades above 0)", AveragePrecision())]
    return [(name, metric) for name, metric in metrics if metric != objective.metric]


def _beside(name: str, metric: Metric, scores: Tensor, grades: Tensor, lists: Tensor, thorough: bool) -> Beside:
    y = grades if isinstance(metric, NDCG) else (grades > 0).long()
    values, flat = (per_list(metric, s, y, lists)[1] for s in (scores, torch.zeros_like(scores)))
    return Beside(name, _mean(values), _mean(flat), interval=interval(values) if thorough else None)


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _named(numbers: Tensor, values: Array, lists: Tensor, names: NDArray[Any]) -> list[NamedQuery]:
    """The worst queries, then the best; each once."""
    ordered = [int(i) for i in np.argsort(values) if np.isfinite(values[i])]
    named = []
    for i in dict.fromkeys([*ordered[:NAMED], *ordered[-NAMED:]]):
        rows = np.flatnonzero(lists.numpy() == int(numbers[i]))
        named.append(NamedQuery(str(names[rows[0]]), len(rows), float(values[i])))
    return named
