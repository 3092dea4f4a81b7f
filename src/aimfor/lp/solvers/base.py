"""Solvers as objects: each takes an equilibrated program to certified points, item by item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from ..certificates import Point, Residuals, polish, residuals
from ..standard import Standard

#: What an item's iteration ended with.
RUNNING, OPTIMAL, INFEASIBLE, UNBOUNDED, STALLED = range(5)


@dataclass(frozen=True)
class SolverResult:
    """What a solver brings back, for each of b items.

    Attributes:
        point: The primal-dual pair. An infeasible item holds its Farkas certificate in ``y`` and ``z`` (scaled so that
            ``h·z + f·y = −1``), an unbounded one its ray in ``x`` (scaled so that ``c·x = −1``).
        outcome: ``OPTIMAL`` (certified), ``INFEASIBLE``, ``UNBOUNDED`` or ``STALLED``; int64.
        residuals: Of the point; not defined for infeasible and unbounded items.
        steps: Newton steps.
    """

    point: Point
    outcome: Tensor
    residuals: Residuals
    steps: Tensor

    def take(self, items: Tensor) -> SolverResult:
        kept = Residuals(self.residuals.primal[items], self.residuals.dual[items], self.residuals.gap[items])
        return SolverResult(self.point.take(items), self.outcome[items], kept, self.steps[items])

    def put(self, items: Tensor, part: SolverResult) -> None:
        """Replace some items in place; steps add up."""
        for mine, theirs in (
            (self.point.x, part.point.x),
            (self.point.y, part.point.y),
            (self.point.z, part.point.z),
            (self.point.active, part.point.active),
            (self.outcome, part.outcome),
            (self.residuals.primal, part.residuals.primal),
            (self.residuals.dual, part.residuals.dual),
            (self.residuals.gap, part.residuals.gap),
        ):
            mine[items] = theirs
        self.steps[items] += part.steps
        if self.point.firm is not None and part.point.firm is not None:
            self.point.firm[items] = part.point.firm


class Method(ABC):
    """How programs are solved. Certification is the same for all (see `certified`).

    Example:
        >>> import aimfor
        >>> isinstance(aimfor.lp.InteriorPoint(), Method)
        True
    """

    @abstractmethod
    def run(self, program: Standard, tol: float) -> SolverResult:
        """Solve an equilibrated program."""


def certified(program: Standard, rough: Point, tol: float, last: bool = True) -> tuple[Point, Residuals]:
    """The polished point where that made it better, the rough one elsewhere; with residuals.

    With ``last=False`` items that are not certified will come again, and only one round is spent on them.
    """
    sharp = polish(program, rough, 2 if last else 1)
    after = residuals(program, sharp)
    if not last or bool((after.worst() <= tol).all()):
        return sharp, after
    before = residuals(program, rough)
    better = after.worst() <= before.worst()
    kept = Residuals(
        torch.where(better, after.primal, before.primal),
        torch.where(better, after.dual, before.dual),
        torch.where(better, after.gap, before.gap),
    )
    return sharp.where(better, rough), kept
