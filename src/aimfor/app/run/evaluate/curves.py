"""What happens over all thresholds: curves on a common grid, the histogram of scores, and the slider's steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
GRID = np.linspace(0.0, 1.0, 101)


def curves(scores: Array, targets: Array) -> dict[str, list[float]]:
    """ROC, precision-recall and gain on a common grid, so that runs can be averaged point by point.

    ``roc``: highest recall at false positive rate <= grid. ``pr``: highest precision at recall >= grid.
    ``gain``: recall among the top share (grid) of rows.
    """
    order = np.argsort(-scores, kind="stable")
    hit = targets[order] > 0
    last = np.append(np.diff(scores[order]) != 0, True)
    tp, fp = np.cumsum(hit)[last].astype(float), np.cumsum(~hit)[last].astype(float)
    with np.errstate(invalid="ignore"):  # without a positive there is no recall, without a negative no false alarm
        recall, fpr = np.append(0.0, tp / tp[-1]), np.append(0.0, fp / fp[-1])
    precision = np.append(1.0, tp / (tp + fp))
    share = np.append(0.0, (tp + fp) / len(scores))
    best_precision = np.maximum.accumulate(precision[::-1])[::-1]
    return {
        "roc": np.interp(GRID, fpr, recall).tolist(),
        "pr": best_precision[np.searchsorted(recall, GRID - 1e-12, side="left").clip(max=len(recall) - 1)].tolist(),
        "gain": np.interp(GRID, share, recall).tolist(),
    }


def histogram(scores: Array, targets: Array) -> dict[str, list[float]]:
    """Counts of both classes in forty bins; the thousandth on either side is drawn in to its end."""
    low, high = np.quantile(scores, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1.0, 41)
    inside = np.clip(scores, edges[0], edges[-1])
    return {
        "edges": edges.tolist(),
        "negative": np.histogram(inside[targets == 0], edges)[0].astype(float).tolist(),
        "positive": np.histogram(inside[targets > 0], edges)[0].astype(float).tolist(),
    }


def steps(scores: Array, targets: Array, tuned: float, most: int = 1000) -> list[list[float]]:
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
