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
from .weights import Judge, choose, mixed


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


#: A member with less than this share is not asked.
SILENT = 1e-3
#: Parts of the rows, each judged by what the others chose.
PARTS = 5


@dataclass(frozen=True)
class Learned:
    """A member, and what its folds say at every checkpoint: ``(checkpoints, n)`` or ``(checkpoints, n, c)``."""

    member: Member
    scores: Tensor


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
        places: Which of the held-out rows, ascending: all, but where folds follow time those of the first.
        scores: ``(n,)`` or ``(n, c)``, calibrated.
        thresholds: ``(n,)``, above which each is decided.
    """

    places: Tensor
    scores: Tensor
    thresholds: Tensor

    def value(self, objective: Objective, rows: Rows) -> float:
        """The metric: what to expect on new rows."""
        here, scores = rows.take(self.places), self.scores
        if objective.needs_threshold:
            scores = torch.where(scores > self.thresholds, 1.0, -1.0).double()
        return objective.value(scores, here.y, weights=here.weights, lists=here.lists)


class Choosing:
    """The choices of an ensemble from out-of-fold scores: on all rows, and on those that a part of them is judged by.

    Members are put on one scale by all rows, once for each checkpoint: two numbers that choose nothing, and by which
    the parts stay comparable.

    Args:
        learned: The members.
        rows: The held-out rows.
        objective: The metric.
        rule: How members are weighed.
        seed: Of the draws.
    """

    def __init__(self, learned: list[Learned], rows: Rows, objective: Objective, rule: str, seed: int) -> None:
        self.learned, self.rows, self.objective, self.rule, self.seed = learned, rows, objective, rule, seed
        self._scales: dict[tuple[int, int], Scale] = {}
        self.everywhere = torch.arange(len(rows.y))

    def scale(self, place: int, checkpoint: int) -> Scale:
        """From a member's scores at a checkpoint to calibrated ones."""
        if (place, checkpoint) not in self._scales:
            self._scales[place, checkpoint] = _scale(self.learned[place].scores[checkpoint], self.rows)
        return self._scales[place, checkpoint]

    def members(self, checkpoints: list[int], places: Tensor) -> Tensor:
        """``(m, n)`` or ``(m, n, c)``: what each says about the rows at these places, calibrated."""
        return torch.stack([self.scale(i, k)(self.learned[i].scores[k][places]) for i, k in enumerate(checkpoints)])

    def scores(self, chosen: Choices, places: Tensor) -> Tensor:
        """Of the ensemble, calibrated."""
        return chosen.scale(mixed(self.members(chosen.checkpoints, places), chosen.shares))

    def on(self, places: Tensor, scale: Scale | None = None) -> Choices:
        """All choices by these rows; ``scale`` is the mixture's, by default fitted on them."""
        here, objective = self.rows.take(places), self.objective
        checkpoints = [best_checkpoint(objective, one.member, one.scores[:, places], here) for one in self.learned]
        told = self.members(checkpoints, places)
        shares = choose(self.rule, Judge(objective, told, here.y, here.weights, here.lists), self.seed)
        shares = torch.where(shares < SILENT, 0.0, shares)
        shares = shares / shares.sum()
        mixture = mixed(told, shares)
        scale = scale or _scale(mixture, here)
        return Choices(checkpoints, shares, scale, threshold_of(objective, scale(mixture), here.y, here.weights))

    def judged(self, folds: Folds, scale: Scale) -> Judged | None:
        """Each part of the rows by the choices of the others; None where too few rows can make them."""
        parts = _parts(self.rows, folds, self.seed)
        if parts is None:
            return None
        in_time = folds.trained is not None and len(folds) > 1
        scores = torch.zeros_like(self.learned[0].scores[0], dtype=torch.float64)
        thresholds = torch.zeros(len(self.everywhere), dtype=torch.float64)
        for number, part in enumerate(parts):
            if in_time and not number:
                continue  # nothing was before it that could choose
            others = [one for place, one in enumerate(parts) if place < number or (place > number and not in_time)]
            found = self.on(torch.cat(others).sort().values, scale)
            scores[part], thresholds[part] = self.scores(found, part), found.threshold.value
        places = torch.cat(parts[1:]).sort().values if in_time else self.everywhere
        return Judged(places, scores[places], thresholds[places])


def _parts(rows: Rows, folds: Folds, seed: int) -> list[Tensor] | None:
    """The folds, joined to five at most; a single split is cut into as many. None where others would lack a class.

    Folds that follow time are parts as they are, the earliest first.
    """
    if folds.trained is not None and len(folds) > 1:
        blocks = [(folds.numbers == fold).nonzero().reshape(-1) for fold in range(len(folds))]
        return blocks if len(rows.y[blocks[0]].unique()) == len(rows.y.unique()) else None
    if len(folds) > 1:
        number = folds.numbers % PARTS
    elif rows.lists is not None:
        parts = list_parts(rows.lists, rows.y, PARTS, seed)
        if parts is None:
            return None
        number = torch.empty(len(rows.y), dtype=torch.long)
        for place, part in enumerate(parts):
            number[part] = place
    else:
        most = int(torch.bincount(rows.y)[rows.y.unique()].min())
        if most < 2:
            return None
        number = make_folds(rows.y, seed, folds=PARTS).numbers
    parts = [(number == one).nonzero().reshape(-1) for one in number.unique()]
    classes = len(rows.y.unique())
    if rows.lists is None and any(len(rows.y[number != number[part[0]]].unique()) < classes for part in parts):
        return None
    return parts


def _scale(scores: Tensor, rows: Rows) -> Scale:
    return Scale.fit(scores, rows.y, rows.weights) if rows.lists is None else Scale.of_lists(scores, rows.lists)
