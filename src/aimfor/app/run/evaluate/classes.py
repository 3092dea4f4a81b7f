"""Several classes: the confusion matrix, and each class against the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ....metrics import AUROC
from .decisions import rates

Matrix = NDArray[np.int64]


def confusion_matrix(scores: Tensor, targets: Tensor) -> Matrix:
    """``(c, c)``: row = truth, column = the class with the highest score (the first of equals)."""
    classes = scores.shape[1]
    cells = targets.numpy() * classes + scores.argmax(1).numpy()
    return np.bincount(cells, minlength=classes**2).reshape(classes, classes)


def class_table(scores: Tensor, targets: Tensor, matrix: Matrix) -> list[dict[str, Any]]:
    """Rows, decisions, precision, recall, F1 and one-versus-rest AUROC of every class."""
    return [_row(scores, targets, matrix, number) for number in range(len(matrix))]


def _row(scores: Tensor, targets: Tensor, matrix: Matrix, number: int) -> dict[str, Any]:
    tp, support, decided = int(matrix[number, number]), int(matrix[number].sum()), int(matrix[:, number].sum())
    fp, fn = decided - tp, support - tp
    found = rates({"tp": tp, "fp": fp, "fn": fn, "tn": int(matrix.sum()) - tp - fp - fn})
    return {
        "support": support,
        "decided": decided,
        "precision": found["precision"],
        "recall": found["recall"],
        "f1": found["F1"],
        "auroc": float(AUROC().value(scores[:, number], (targets == number).long())),
    }
