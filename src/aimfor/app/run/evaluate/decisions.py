"""Decisions at a threshold: the four counts, every rate made of them, and the same by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def by_group(scores: Array, targets: Array, threshold: float, groups: NDArray[Any]) -> list[dict[str, Any]]:
    """One row of counts and rates for each group, in the order of their names."""
    names = sorted(set(groups.tolist()), key=str)
    return [_group(str(name), scores[groups == name], targets[groups == name], threshold) for name in names]


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
