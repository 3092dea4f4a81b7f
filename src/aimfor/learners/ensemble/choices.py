"""Every choice of an ensemble, so that it can be made again without the rows that judge it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...targets.folds import Folds, list_parts, make_folds
from ...targets.objective import Objective
from .calibration import Scale, Threshold, threshold_of
from .cells import Cell, Table
from .members import Member, Rows
from .members.network import cross_entropy
from .weights import Judge, mixed, steady

#: A member with less than this share has no vote.
SILENT = 1e-3
#: Parts of the rows, each judged by what the others chose.
PARTS = 5


@dataclass(frozen=True)
class MemberOutput:
    """Out-of-fold scores of a member at every checkpoint: ``(checkpoints, n)`` or ``(checkpoints, n, c)``."""

    member: Member
    scores: Tensor

    @classmethod
    def of(cls, table: Table, member: Member, cells: list[Cell]) -> MemberOutput:
        """Rows in the table's order, at as many checkpoints as every fold has."""
        checkpoints = min(len(cell.held_scores) for cell in cells)
        scores = torch.cat([cell.held_scores[:checkpoints] for cell in cells], 1)
        return cls(member, scores[:, torch.cat(table.folds.held).argsort()])

    def best(self, objective: Objective, rows: Rows, index: Tensor | slice = slice(None)) -> int:
        """The checkpoint with the lowest cross-entropy on rows of this index; for a member trained for the metric, with
        the best metric. The first of equals: it has learned least by heart.
        """
        values = [value_of(objective, self.member, scores[index], rows) for scores in self.scores]
        return max(range(len(values)), key=values.__getitem__)


def value_of(objective: Objective, member: Member, scores: Tensor, rows: Rows) -> float:
    """What checkpoints are compared by; higher is better, minus infinity where it is undefined."""
    if member.chosen_by_metric:
        value = objective.best(scores, rows.y, rows.weights, rows.lists)
    else:
        value = -float(cross_entropy(scores.clamp(-30.0, 30.0), rows))
    return value if math.isfinite(value) else -math.inf


def learning_curves(table: Table, member: Member, cells: list[Cell]) -> dict[str, Any]:
    """The value of each fold's held-out rows at each checkpoint, as JSON; folds may have stopped at different ones."""
    sign = 1 if member.chosen_by_metric else -1
    values = [
        [sign * value_of(table.objective, member, scores, table.rows.take(held)) for scores in cell.held_scores]
        for cell, held in zip(cells, table.folds.held, strict=True)
    ]
    ticks = max((cell.fitted.ticks for cell in cells), key=len)
    name = table.objective.name if member.chosen_by_metric else "log loss"
    return {"unit": member.unit, "value": name, "ticks": ticks, "folds": values}


@dataclass(frozen=True)
class Choices:
    """Checkpoints and weights of the members, calibration and threshold of their mixture."""

    checkpoints: list[int]
    shares: Tensor
    scale: Scale
    threshold: Threshold


@dataclass(frozen=True)
class Judged:
    """Rows as an ensemble scores and decides them whose every choice was made without them.

    Attributes:
        index: Which of the held-out rows, ascending: all, but where folds follow time those of the first.
        scores: ``(n,)`` or ``(n, c)``, calibrated.
        thresholds: ``(n,)``, above which each is decided.
    """

    index: Tensor
    scores: Tensor
    thresholds: Tensor

    def value(self, objective: Objective, rows: Rows) -> float:
        """The metric: what to expect on new rows."""
        here, scores = rows.take(self.index), self.scores
        if objective.needs_threshold:
            scores = torch.where(scores > self.thresholds, 1.0, -1.0).double()
        return objective.value(scores, here.y, weights=here.weights, lists=here.lists)


class Choosing:
    """The choices of an ensemble from out-of-fold scores: on all rows, and on those that a part of them is judged by.

    Members are put on one scale by all rows, once for each checkpoint: two numbers that choose nothing, and by which
    the parts stay comparable.

    Args:
        outputs: Of the members.
        rows: The held-out rows.
        objective: The metric.
        seed: Of the draws.
    """

    def __init__(self, outputs: list[MemberOutput], rows: Rows, objective: Objective, seed: int) -> None:
        self.outputs, self.rows, self.objective, self.seed = outputs, rows, objective, seed
        self._scales: dict[tuple[int, int], Scale] = {}
        self.everywhere = torch.arange(len(rows.y))

    def scale(self, member: int, checkpoint: int) -> Scale:
        """From a member's scores at a checkpoint to calibrated ones."""
        if (member, checkpoint) not in self._scales:
            self._scales[member, checkpoint] = _scale(self.outputs[member].scores[checkpoint], self.rows)
        return self._scales[member, checkpoint]

    def members(self, checkpoints: list[int], index: Tensor) -> Tensor:
        """``(m, n)`` or ``(m, n, c)``: the calibrated scores of each."""
        return torch.stack([self.scale(i, k)(self.outputs[i].scores[k][index]) for i, k in enumerate(checkpoints)])

    def scores(self, chosen: Choices, index: Tensor) -> Tensor:
        """Of the ensemble, calibrated."""
        return chosen.scale(mixed(self.members(chosen.checkpoints, index), chosen.shares))

    def on(self, index: Tensor, scale: Scale | None = None) -> Choices:
        """All choices by these rows; ``scale`` is the mixture's, by default fitted on them."""
        here, objective = self.rows.take(index), self.objective
        checkpoints = [output.best(objective, here, index) for output in self.outputs]
        scores = self.members(checkpoints, index)
        shares = steady(Judge(objective, scores, here.y, here.weights, here.lists), self.seed)
        shares = torch.where(shares < SILENT, 0.0, shares)
        shares = shares / shares.sum()
        mixture = mixed(scores, shares)
        scale = scale or _scale(mixture, here)
        return Choices(checkpoints, shares, scale, threshold_of(objective, scale(mixture), here.y, here.weights))

    def judged(self, folds: Folds, scale: Scale) -> Judged | None:
        """Each part of the rows by the choices of the others; None where too few rows can make them."""
        parts = _parts(self.rows, folds, self.seed)
        if parts is None:
            return None
        in_time = folds.trained is not None and len(folds) > 1
        scores = torch.zeros_like(self.outputs[0].scores[0], dtype=torch.float64)
        thresholds = torch.zeros(len(self.everywhere), dtype=torch.float64)
        for number, judged in enumerate(parts):
            if in_time and not number:
                continue  # nothing was before it that could choose
            others = parts[:number] if in_time else parts[:number] + parts[number + 1 :]
            chosen = self.on(torch.cat(others).sort().values, scale)
            scores[judged], thresholds[judged] = self.scores(chosen, judged), chosen.threshold.value
        index = torch.cat(parts[1:]).sort().values if in_time else self.everywhere
        return Judged(index, scores[index], thresholds[index])


def _parts(rows: Rows, folds: Folds, seed: int) -> list[Tensor] | None:
    """The folds, joined to five at most; a single split is divided into as many. None where others would lack a class.

    Folds that follow time are parts as they are, the earliest first.
    """
    classes = len(rows.y.unique())
    if folds.trained is not None and len(folds) > 1:
        blocks = [(folds.numbers == fold).nonzero().reshape(-1) for fold in range(len(folds))]
        return blocks if len(rows.y[blocks[0]].unique()) == classes else None
    if len(folds) == 1 and rows.lists is not None:
        return list_parts(rows.lists, rows.y, PARTS, seed)
    number = folds.numbers % PARTS
    if len(folds) == 1:
        if int(rows.y.unique(return_counts=True)[1].min()) < 2:
            return None
        number = make_folds(rows.y, seed, folds=PARTS).numbers
    parts = [(number == part_number).nonzero().reshape(-1) for part_number in number.unique()]
    if rows.lists is None and any(len(rows.y[number != number[rows_of[0]]].unique()) < classes for rows_of in parts):
        return None
    return parts


def _scale(scores: Tensor, rows: Rows) -> Scale:
    return Scale.fit(scores, rows.y, rows.weights) if rows.lists is None else Scale.of_lists(scores, rows.lists)
