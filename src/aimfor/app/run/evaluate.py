"""Numbers about a set of scores, all JSON-able: rates at a threshold, curves, intervals, certificate, groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...fitting.objective import Objective
from ...rates.binomial import lower_bound, upper_bound

Array = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 101)


def confusion(scores: Array, targets: Array, threshold: float) -> dict[str, int]:
    decided, positive = scores > threshold, targets > 0
    return {
        "tp": int((decided & positive).sum()),
        "fp": int((decided & ~positive).sum()),
        "fn": int((~decided & positive).sum()),
        "tn": int((~decided & ~positive).sum()),
    }


def rates(counts: dict[str, int]) -> dict[str, float]:
    """Every rate of a confusion matrix by its usual names; NaN where it is 0/0."""
    tp, fp, fn, tn = (float(counts[key]) for key in ("tp", "fp", "fn", "tn"))

    def ratio(a: float, b: float) -> float:
        return a / b if b else float("nan")

    recall, specificity = ratio(tp, tp + fn), ratio(tn, tn + fp)
    return {
        "precision": ratio(tp, tp + fp),
        "recall": recall,
        "specificity": specificity,
        "false positive rate": ratio(fp, fp + tn),
        "F1": ratio(2 * tp, 2 * tp + fp + fn),
        "IoU": ratio(tp, tp + fp + fn),
        "accuracy": ratio(tp + tn, tp + fp + fn + tn),
        "balanced accuracy": (recall + specificity) / 2,
    }


def exact_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson: covers the true rate with at least this probability, whatever it is."""
    alpha = (1 - level) / 2
    return lower_bound(successes, trials, alpha), upper_bound(successes, trials, alpha)


def curves(scores: Array, targets: Array) -> dict[str, list[float]]:
    """ROC, precision-recall and gain on a common grid, so that runs can be averaged point by point.

    ``roc``: highest recall at false positive rate <= grid. ``pr``: highest precision at recall >= grid.
    ``gain``: recall among the top share (grid) of rows.
    """
    order = np.argsort(-scores, kind="stable")
    hit = targets[order] > 0
    last = np.append(np.diff(scores[order]) != 0, True)
    tp, fp = np.cumsum(hit)[last].astype(float), np.cumsum(~hit)[last].astype(float)
    recall, fpr = np.append(0.0, tp / tp[-1]), np.append(0.0, fp / fp[-1])
    precision = np.append(1.0, tp / (tp + fp))
    share = np.append(0.0, (tp + fp) / len(scores))
    best_precision = np.maximum.accumulate(precision[::-1])[::-1]
    return {
        "roc": np.interp(GRID, fpr, recall).tolist(),
        "pr": best_precision[np.searchsorted(recall, GRID - 1e-12, side="left").clip(max=len(recall) - 1)].tolist(),
        "gain": np.interp(GRID, share, recall).tolist(),
    }


def evaluate(
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float, groups: NDArray[Any] | None = None
) -> dict[str, Any]:
    """Everything the report shows about one part of the data."""
    result: dict[str, Any] = {"metric": objective.value(scores, targets, threshold), "n": len(targets)}
    if not objective.binary:
        return result
    s, y = scores.double().numpy(), targets.double().numpy()
    counts = confusion(s, y, threshold)
    result |= {"positives": int(y.sum()), "counts": counts, "rates": rates(counts), "curves": curves(s, y)}
    result["intervals"] = {
        "precision": exact_interval(counts["tp"], counts["tp"] + counts["fp"]),
        "recall": exact_interval(counts["tp"], counts["tp"] + counts["fn"]),
        "specificity": exact_interval(counts["tn"], counts["tn"] + counts["fp"]),
    }
    certificate = objective.certificate(scores, targets, threshold)
    if certificate is not None:
        result["certificate"] = certificate.to_dict() | {"text": str(certificate)}
    result["histogram"] = _histogram(s, y)
    result["steps"] = _steps(s, y, threshold)
    if groups is not None:
        result["groups"] = [_group(str(one), s[groups == one], y[groups == one], threshold) for one in _sorted(groups)]
    return result


def _sorted(groups: NDArray[Any]) -> list[Any]:
    return sorted(set(groups.tolist()), key=str)


def _group(name: str, scores: Array, targets: Array, threshold: float) -> dict[str, Any]:
    counts = confusion(scores, targets, threshold)
    found = rates(counts)
    return {
        "group": name,
        "n": len(scores),
        "positives": int(targets.sum()),
        "decided": counts["tp"] + counts["fp"],
        "recall": found["recall"],
        "false positive rate": found["false positive rate"],
        "precision": found["precision"],
    }


def _histogram(scores: Array, targets: Array) -> dict[str, list[float]]:
    low, high = np.quantile(scores, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1.0, 41)
    inside = np.clip(scores, edges[0], edges[-1])
    return {
        "edges": edges.tolist(),
        "negative": np.histogram(inside[targets == 0], edges)[0].astype(float).tolist(),
        "positive": np.histogram(inside[targets > 0], edges)[0].astype(float).tolist(),
    }


def _steps(scores: Array, targets: Array, tuned: float, most: int = 1000) -> list[list[float]]:
    """``[threshold, tp, fp]`` at up to ``most`` thresholds and the tuned one, falling: what the slider moves over."""
    distinct = np.unique(scores)[::-1]
    between = np.concatenate(([distinct[0] + 1.0], (distinct[1:] + distinct[:-1]) / 2, [distinct[-1] - 1.0]))
    if len(between) > most:
        between = between[np.unique(np.linspace(0, len(between) - 1, most).round().astype(int))]
    between = np.unique(np.append(between, tuned))[::-1]
    positive, negative = np.sort(scores[targets > 0]), np.sort(scores[targets == 0])
    tp = len(positive) - np.searchsorted(positive, between, side="right")
    fp = len(negative) - np.searchsorted(negative, between, side="right")
    return [[float(t), int(a), int(b)] for t, a, b in zip(between, tp, fp, strict=True)]
