"""Ranked lists inside a table: what the metric says of each list, and which columns the order hangs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..metrics import Metric
from .importance import Importance
from .intervals import bootstrap_interval

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
    known, place = lists.unique(return_inverse=True)
    found = torch.zeros(len(known), dtype=torch.bool).index_put((place[y > 0],), torch.tensor(True))
    values = np.full(len(known), np.nan)
    rows = found[place].nonzero().reshape(-1)
    if not len(rows):
        return known, values
    weights = torch.ones(int(found.sum()), dtype=torch.float64, requires_grad=True)
    batch = metric.check(scores[rows].double(), y[rows], groups=lists[rows], weights=weights.detach())
    mean = metric.exact(replace(batch, weights=weights[:, None]))
    slopes = torch.autograd.grad(mean, weights)[0]
    values[found.numpy()] = (mean.detach() + len(weights) * slopes).clamp(0.0, 1.0).numpy()
    return known, values


def interval(values: Array, level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Percentile interval of the mean over draws of lists with replacement; None where draws cannot tell."""
    values = values[np.isfinite(values)]
    return bootstrap_interval(lambda drawn: float(values[drawn].mean()), len(values), level=level, seed=seed)


def list_importance(
    metric: Metric,
    scores: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    lists: Tensor,
    columns: Sequence[str],
    *,
    budget: int,
    seed: int = 0,
    stopped: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """What the mean over lists loses when a column's values change places among all rows; see `permutation_importance`.

    Rows count as whole lists: intervals are over draws of lists, because rows of one list are judged together.
    """
    names = list(dict.fromkeys(columns))
    known, counts = lists.unique(return_counts=True)
    generator = torch.Generator().manual_seed(seed)
    most = max(1, budget // (SHUFFLES * len(names)))
    if len(y) > most:  # whole lists, as many as the budget allows
        order = torch.randperm(len(known), generator=generator)
        fitting = int((counts[order].cumsum(0) <= most).sum())
        kept = torch.isin(lists, known[order[: max(1, fitting)]])
        x, y, lists = x[kept], y[kept], lists[kept]
    before = per_list(metric, scores(x), y, lists)[1]
    if not np.isfinite(before).any():
        return {"left_out": "the metric is undefined on the rows that were looked at"}
    found = []
    for name in names:
        stopped()
        places = [place for place, one in enumerate(columns) if one == name]
        lost = np.zeros_like(before)
        for _ in range(SHUFFLES):
            changed = x.clone()
            changed[:, places] = x[torch.randperm(len(x), generator=generator)][:, places]
            lost += (before - per_list(metric, scores(changed), y, lists)[1]) / SHUFFLES
        low, high = interval(lost) or (None, None)
        found.append(Importance(name, float(np.nanmean(lost)), low, high))
    ordered = sorted(found, key=lambda one: -one.loss)
    return {
        "columns": [asdict(one) for one in ordered],
        "rows": len(x),
        "shuffles": SHUFFLES,
        "metric": float(np.nanmean(before)),
    }
