"""Decisions and scores of one part: counts and rates, by group and class, curves over thresholds, and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...metrics import AUROC
from ..intervals import exact_interval
from .results import Bin, ClassRow, GroupRow

Array = NDArray[np.float64]


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


def by_group(scores: Array, targets: Array, threshold: float, groups: NDArray[Any]) -> list[GroupRow]:
    """One row of counts and rates for each group, in the order of their names."""
    names = sorted(set(groups.tolist()), key=str)
    return [_group(str(name), scores[groups == name], targets[groups == name], threshold) for name in names]


def _group(name: str, scores: Array, targets: Array, threshold: float) -> GroupRow:
    counts = confusion(scores, targets, threshold)
    found = rates(counts)
    decided = counts["tp"] + counts["fp"]
    shown = (found["recall"], found["false positive rate"], found["precision"])
    return GroupRow(name, len(scores), int(targets.sum()), decided, *shown)


Matrix = NDArray[np.int64]


def confusion_matrix(scores: Tensor, targets: Tensor) -> Matrix:
    """``(c, c)``: row = truth, column = the class with the highest score (the first of equals)."""
    classes = scores.shape[1]
    cells = targets.numpy() * classes + scores.argmax(1).numpy()
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes)


def class_table(scores: Tensor, targets: Tensor, matrix: Matrix) -> list[ClassRow]:
    """Rows, decisions, precision, recall, F1 and one-versus-rest AUROC of every class."""
    return [_row(scores, targets, matrix, number) for number in range(len(matrix))]


def _row(scores: Tensor, targets: Tensor, matrix: Matrix, number: int) -> ClassRow:
    tp, support, decided = int(matrix[number, number]), int(matrix[number].sum()), int(matrix[:, number].sum())
    fp, fn = decided - tp, support - tp
    found = rates({"tp": tp, "fp": fp, "fn": fn, "tn": int(matrix.sum()) - tp - fp - fn})
    auroc = float(AUROC().value(scores[:, number], (targets == number).long()))
    return ClassRow(support, decided, found["precision"], found["recall"], found["F1"], auroc)


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
    recall, fpr = (np.append(0.0, one / max(one[-1], 1.0)) for one in (tp, fp))  # 0 where a class has no row
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


def steps(scores: Array, targets: Array, tuned: float, most: int = 1000) -> list[tuple[float, int, int]]:
    """``[threshold, tp, fp]`` at up to ``most`` thresholds and the tuned one, falling: what the slider moves over."""
    distinct = np.unique(scores)[::-1]
    between = np.concatenate(([distinct[0] + 1.0], (distinct[1:] + distinct[:-1]) / 2, [distinct[-1] - 1.0]))
    if len(between) > most:
        between = between[np.unique(np.linspace(0, len(between) - 1, most).round().astype(int))]
    between = np.unique(np.append(between, tuned))[::-1]
    positive, negative = np.sort(scores[targets > 0]), np.sort(scores[targets == 0])
    tp = len(positive) - np.searchsorted(positive, between, side="right")
    fp = len(negative) - np.searchsorted(negative, between, side="right")
    return [(float(t), int(a), int(b)) for t, a, b in zip(between, tp, fp, strict=True)]


_LEAST_IN_BIN = 10


def brier(probabilities: Array, targets: Array) -> float:
    """Mean squared distance between stated probability and truth: ``(n,)`` for two classes, ``(n, c)`` for more.

    With several classes the squares are summed over them, so that the worst is 2 (Brier's own definition).
    """
    if probabilities.ndim == 1:
        return float(np.mean((probabilities - targets) ** 2))
    truth = np.eye(probabilities.shape[1])[targets.astype(int)]
    return float(np.mean(((probabilities - truth) ** 2).sum(1)))


def log_loss(probabilities: Array, targets: Array) -> float:
    """Mean negative logarithm of the probability stated for what came true, held at 1e-15 from 0."""
    if probabilities.ndim == 1:
        stated = np.where(targets > 0, probabilities, 1 - probabilities)
    else:
        stated = probabilities[np.arange(len(targets)), targets.astype(int)]
    return float(-np.log(np.clip(stated, 1e-15, 1.0)).mean())


def reliability(probabilities: Array, targets: Array, bins: int = 10) -> list[Bin]:
    """Mean stated probability and observed share, with its exact interval, in up to ``bins`` bins.

    A row's weight in filling the bins is the mean of its share of rows and its share of expected positives. Equal
    numbers of rows alone would put all but one bin next to zero where positives are rare. Equal probabilities are
    never parted, and every bin has at least ten rows (or there is one bin).

    With several classes, ``(n, c)``: the probability of the decided class against whether the decision is right.
    """
    if probabilities.ndim == 2:
        right = probabilities.argmax(1) == targets
        return reliability(probabilities.max(1), right.astype(np.float64), bins)
    order = np.argsort(probabilities, kind="stable")
    p, y = probabilities[order], targets[order]
    n = len(p)
    filling = np.cumsum(1 / n + p / max(p.sum(), 1e-300)) / 2
    number = np.minimum((filling * bins).astype(int), bins - 1)
    cuts = [0]
    for place in range(1, n):
        new_bin = number[place] > number[cuts[-1]] and p[place] > p[place - 1]
        if new_bin and place - cuts[-1] >= _LEAST_IN_BIN and n - place >= _LEAST_IN_BIN:
            cuts.append(place)
    return [_bin(p[a:b], y[a:b]) for a, b in zip(cuts, [*cuts[1:], n], strict=True)]


def _bin(p: Array, y: Array) -> Bin:
    low, high = exact_interval(int(y.sum()), len(y))
    return Bin(float(p.mean()), float(y.mean()), low, high, len(y))
