"""Everything the report shows about one part of the data: the metric, decisions, curves and probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..metrics import AUROC, Accuracy, AUROCOneVsRest, AveragePrecision, Metric
from .intervals import bootstrap_interval, exact_interval
from .objective import Objective
from .results import Beside, Bin, ClassRow, GroupRow, SeveralClasses, TwoClasses, stored_certificate

Array = NDArray[np.float64]
Matrix = NDArray[np.int64]
#: Of the curves, so that runs can be averaged point by point.
GRID = np.linspace(0.0, 1.0, 101)
_LEAST_IN_BIN = 10


def numbers_beside(
    objective: Objective, scores: Tensor, targets: Tensor, probabilities: Array | None, thorough: bool
) -> list[Beside]:
    """Two classes: AUROC and average precision; several: accuracy and one-versus-rest AUROC; Brier score and log loss.

    What the model was trained for stands above them and is left out here.
    """
    n, classes = len(targets), 2 if objective.binary else scores.shape[1]
    shares = np.bincount(targets.numpy(), minlength=classes) / n
    ranked: list[tuple[str, Metric, float]] = (
        [("AUROC", AUROC(), 0.5), ("average precision", AveragePrecision(), float(shares[1]))]
        if objective.binary
        else [("accuracy", Accuracy(), float(shares.max())), ("AUROC, one versus rest", AUROCOneVsRest(), 0.5)]
    )
    beside = []
    for name, metric, constant in ranked:
        if metric != objective.metric:
            value = partial(_exact, metric, scores, targets)
            exact = value(torch.arange(n))
            interval = None
            if thorough:
                share = isinstance(metric, Accuracy)
                interval = exact_interval(round(exact * n), n) if share else bootstrap_interval(value, n)
            beside.append(Beside(name, exact, constant, True, interval))
    if probabilities is not None:
        y = targets.double().numpy()
        constant_share = np.broadcast_to(shares[1] if objective.binary else shares, probabilities.shape)
        for name, score in (("Brier score", brier), ("log loss", log_loss)):
            value = partial(_scored, score, probabilities, y)
            interval = bootstrap_interval(value, n) if thorough else None
            beside.append(Beside(name, value(torch.arange(n)), score(constant_share, y), False, interval))
    return beside


def _exact(metric: Metric, scores: Tensor, targets: Tensor, rows: Tensor) -> float:
    return float(metric.value(scores[rows], targets[rows]))


def _scored(score: Callable[[Array, Array], float], probabilities: Array, targets: Array, rows: Tensor) -> float:
    return score(probabilities[rows.numpy()], targets[rows.numpy()])


def evaluate(
    objective: Objective,
    scores: Tensor,
    targets: Tensor,
    threshold: float,
    groups: NDArray[Any] | None = None,
    *,
    probabilities: Array | None = None,
    clusters: Tensor | None = None,
    thorough: bool = False,
) -> TwoClasses | SeveralClasses:
    """The metric and what explains it.

    Args:
        objective: The metric the model was trained for.
        scores: ``(n,)``, or ``(n, c)`` for several classes.
        targets: ``(n,)`` class ids.
        threshold: Decisions are ``score > threshold`` (two classes).
        groups: A name for every row, for the table by group.
        probabilities: ``(n,)`` of the positive class or ``(n, c)``, for Brier score and reliability.
        clusters: ``(n,)`` ids of rows that belong together: the metric's interval draws whole clusters.
        thorough: Bootstrap intervals too. A comparison over seeds has intervals of its own and leaves them out.
    """
    general: dict[str, Any] = {
        "metric": objective.value(scores, targets, threshold),
        "baseline": constant_value(objective, targets, scores.shape[1:]),
        "n": len(targets),
        "beside": numbers_beside(objective, scores, targets, probabilities, thorough),
        "interval": metric_interval(objective, scores, targets, threshold, clusters) if thorough else None,
        "reliability": None if probabilities is None else reliability(probabilities, targets.double().numpy()),
    }
    if objective.binary:
        return TwoClasses(**general, **_decisions(objective, scores, targets, threshold, groups))
    matrix = confusion_matrix(scores, targets)
    return SeveralClasses(**general, confusion=matrix.tolist(), per_class=class_table(scores, targets, matrix))


def _decisions(
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float, groups: NDArray[Any] | None
) -> dict[str, Any]:
    s, y = scores.double().numpy(), targets.double().numpy()
    counts = confusion(s, y, threshold)
    certificate = objective.certificate(scores, targets, threshold)
    return {
        "positives": int(y.sum()),
        "counts": counts,
        "rates": rates(counts),
        "curves": curves(s, y),
        "intervals": {
            "precision": exact_interval(counts["tp"], counts["tp"] + counts["fp"]),
            "recall": exact_interval(counts["tp"], counts["tp"] + counts["fn"]),
            "specificity": exact_interval(counts["tn"], counts["tn"] + counts["fp"]),
        },
        "histogram": histogram(s, y),
        "steps": steps(s, y, threshold),
        "certificate": None if certificate is None else stored_certificate(certificate),
        "groups": None if groups is None else by_group(s, y, threshold, groups),
    }


def constant_value(objective: Objective, targets: Tensor, columns: tuple[int, ...] = ()) -> float:
    """The metric of the best constant: one score, or one decision, for every row. NaN where it has none.

    For AUROC this is 0.5, for average precision the share of positives, for F1 "all positive", for accuracy the
    share of the largest class.
    """
    n = len(targets)
    if objective.binary:
        candidates = [torch.full((n,), score, dtype=torch.float64) for score in (-1.0, 1.0)]
    else:
        candidates = [torch.eye(columns[0], dtype=torch.float64)[k].expand(n, -1) for k in range(columns[0])]
    values = [objective.value(constant, targets) for constant in candidates]
    return max((value for value in values if np.isfinite(value)), default=float("nan"))


def metric_interval(
    objective: Objective, scores: Tensor, targets: Tensor, threshold: float, clusters: Tensor | None = None
) -> tuple[float, float] | None:
    """95 % interval of the metric at a threshold that these rows did not choose; exact for accuracy.

    Of two classes, one end is drawn from the rows and one more of the rarer class, ranked last, the other from the rows
    and one more, ranked first: what few rows have not shown may still be there, and draws of those rows alone would
    rule it out.

    References:
        Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable,
        2005.
        Learned-Miller, Thomas, A new confidence interval for the mean of a bounded random variable, 2019.
    """
    n = len(targets)
    if isinstance(objective.metric, Accuracy) and clusters is None:
        return exact_interval(round(objective.value(scores, targets, threshold) * n), n)
    if not objective.binary:
        return bootstrap_interval(
            lambda rows: objective.value(scores[rows], targets[rows], threshold), n, clusters=clusters
        )
    rarer = int(2 * int(targets.sum()) <= n)
    if clusters is not None:
        clusters = torch.cat((clusters, clusters.max()[None] + 1))
    labels, ends = torch.cat((targets, targets.new_tensor([rarer]))), list[float]()
    for extreme in (scores.min() - 1, scores.max() + 1):
        extended = torch.cat((scores, extreme[None]))
        value = partial(_at_threshold, objective, extended, labels, threshold)
        ends += bootstrap_interval(value, n + 1, clusters=clusters) or ()
    if not ends:
        return None
    here = objective.value(scores, targets, threshold)  # where all draws with the best agree, it is their value
    return min(here, *ends), max(here, *ends)


def _at_threshold(objective: Objective, scores: Tensor, targets: Tensor, threshold: float, rows: Tensor) -> float:
    return objective.value(scores[rows], targets[rows], threshold)


def or_undefined(value: float, digits: int = 4) -> str:
    """A number for the screen, or that these rows do not define it: a class is missing, or nothing was decided so.

    Example:
        >>> or_undefined(0.5), or_undefined(float("nan"))
        ('0.5000', 'undefined')
    """
    return "undefined" if math.isnan(value) else f"{value:.{digits}f}"


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
    by_name = rates(counts)
    rated = (by_name["recall"], by_name["false positive rate"], by_name["precision"])
    return GroupRow(name, len(scores), int(targets.sum()), counts["tp"] + counts["fp"], *rated)


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
    by_name = rates({"tp": tp, "fp": fp, "fn": fn, "tn": int(matrix.sum()) - tp - fp - fn})
    auroc = float(AUROC().value(scores[:, number], (targets == number).long()))
    return ClassRow(support, decided, by_name["precision"], by_name["recall"], by_name["F1"], auroc)


def curves(scores: Array, targets: Array) -> dict[str, list[float]]:
    """ROC, precision-recall and gain on a common grid, so that runs can be averaged point by point.

    ``roc``: highest recall at false positive rate <= grid. ``pr``: highest precision at recall >= grid.
    ``gain``: recall among the top share (grid) of rows.
    """
    order = np.argsort(-scores, kind="stable")
    hit = targets[order] > 0
    last = np.append(np.diff(scores[order]) != 0, True)
    tp, fp = np.cumsum(hit)[last].astype(float), np.cumsum(~hit)[last].astype(float)
    recall, fpr = (np.append(0.0, count / max(count[-1], 1.0)) for count in (tp, fp))  # 0 where a class has no row
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
    starts = [0]
    for row in range(1, n):
        new_bin = number[row] > number[starts[-1]] and p[row] > p[row - 1]
        if new_bin and row - starts[-1] >= _LEAST_IN_BIN and n - row >= _LEAST_IN_BIN:
            starts.append(row)
    return [_bin(p[a:b], y[a:b]) for a, b in zip(starts, [*starts[1:], n], strict=True)]


def _bin(p: Array, y: Array) -> Bin:
    low, high = exact_interval(int(y.sum()), len(y))
    return Bin(float(p.mean()), float(y.mean()), low, high, len(y))
