"""Which checkpoint of a member scores: decided once for all folds, by all held-out rows together."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...targets.objective import Objective
from .cells import Cell, Table
from .members import Member, Rows
from .members.network import cross_entropy


def out_of_fold(table: Table, cells: list[Cell]) -> Tensor:
    """``(checkpoints, held-out rows)`` or ``(checkpoints, held-out rows, c)``; as many as every fold has."""
    checkpoints = min(len(cell.held_scores) for cell in cells)
    together = torch.cat([cell.held_scores[:checkpoints] for cell in cells], 1)
    order = torch.cat(table.folds.held).argsort()
    return together[:, order]


def best_checkpoint(objective: Objective, member: Member, scores: Tensor, rows: Rows) -> int:
    """The checkpoint with the lowest cross-entropy; for a member trained for the metric, with the best metric.

    The first of equals: it has learned least by heart.
    """
    values = [_value(objective, member, one, rows) for one in scores]
    return max(range(len(values)), key=values.__getitem__)


def learning_curves(table: Table, member: Member, cells: list[Cell]) -> dict[str, Any]:
    """What each fold's held-out rows say at each checkpoint, as JSON; folds may have stopped at different ones."""
    folds = [table.rows.take(rows) for rows in table.folds.held]
    values = [
        [_value(table.objective, member, scores, rows) for scores in cell.held_scores]
        for cell, rows in zip(cells, folds, strict=True)
    ]
    if not member.chosen_by_metric:
        values = [[-one for one in fold] for fold in values]
    ticks = max((cell.fitted.ticks for cell in cells), key=len)
    value = table.objective.name if member.chosen_by_metric else "log loss"
    return {"unit": member.unit, "value": value, "ticks": ticks, "folds": values}


def _value(objective: Objective, member: Member, scores: Tensor, rows: Rows) -> float:
    if member.chosen_by_metric:
        found = objective.best(scores, rows.y, rows.weights, rows.lists)
    else:
        found = -float(cross_entropy(scores.clamp(-30.0, 30.0), rows))
    return found if math.isfinite(found) else -math.inf
