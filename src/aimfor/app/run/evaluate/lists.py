"""Everything the report shows about ranked lists: the metric, the usual ones beside it, and query by query."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....fitting.objective import Objective
from ....fitting.ranked import interval, per_list
from ....metrics import NDCG, AveragePrecision, Metric

#: Places whose NDCG every reader of rankings asks for.
PLACES = (1, 3, 5, 10)
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
) -> dict[str, Any]:
    """The metric over queries with what explains it. JSON-able.

    Args:
        objective: The metric of lists.
        scores: ``(n,)``.
        grades: ``(n,)`` whole numbers.
        lists: ``(n,)`` list numbers.
        names: The query's name of each row, for the queries that are named.
        thorough: Intervals, by draws of whole queries.

    ``baseline`` is the mean over all orders, which is what one score for every row gets: ties share their places.
    """
    known, values = per_list(objective.metric, scores, grades, lists)
    flat = per_list(objective.metric, torch.zeros_like(scores), grades, lists)[1]
    counted = np.isfinite(values)
    result: dict[str, Any] = {
        "metric": _mean(values),
        "baseline": _mean(flat),
        "n": len(grades),
        "beside": [_beside(name, metric, scores, grades, lists, thorough) for name, metric in _others(objective)],
        "queries": {
            "counted": int(counted.sum()),
            "left_out": int((~counted).sum()),
            "quartiles": np.quantile(values[counted], [0.25, 0.5, 0.75]).tolist() if counted.any() else None,
            "below_chance": float((values[counted] < flat[counted] - 1e-9).mean()) if counted.any() else None,
            "histogram": np.histogram(values[counted], BINS, (0.0, 1.0))[0].tolist(),
        },
    }
    if thorough:
        result["interval"] = interval(values)
    if names is not None and thorough:
        result["queries"]["named"] = _named(known, values, lists, names)
    return result


def _others(objective: Objective) -> list[tuple[str, Metric]]:
    gain = getattr(objective.metric, "gain", "linear")
    found: list[tuple[str, Metric]] = [(f"NDCG@{k}", NDCG(k, gain)) for k in PLACES]
    found += [("MAP (grades above 0)", AveragePrecision())]
    return [(name, metric) for name, metric in found if metric != objective.metric]


def _beside(name: str, metric: Metric, scores: Tensor, grades: Tensor, lists: Tensor, thorough: bool) -> dict[str, Any]:
    y = grades if isinstance(metric, NDCG) else (grades > 0).long()
    values, flat = (per_list(metric, one, y, lists)[1] for one in (scores, torch.zeros_like(scores)))
    return {
        "name": name,
        "value": _mean(values),
        "constant": _mean(flat),
        "higher_is_better": True,
        "interval": interval(values) if thorough else None,
    }


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _named(known: Tensor, values: NDArray[np.float64], lists: Tensor, names: NDArray[Any]) -> list[dict[str, Any]]:
    """The worst queries, then the best; each once."""
    places = [int(one) for one in np.argsort(values) if np.isfinite(values[one])]
    chosen = list(dict.fromkeys([*places[:NAMED], *places[-NAMED:]]))
    numbers = lists.numpy()
    found = []
    for place in chosen:
        rows = np.flatnonzero(numbers == int(known[place]))
        found.append({"query": str(names[rows[0]]), "rows": len(rows), "value": float(values[place])})
    return found
