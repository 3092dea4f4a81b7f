"""What is to be decided, and whether the rows at hand can answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..constraints.counts import Levels
from ..constraints.expressions import Conditions, Constraint, Expression
from ..errors import InputError
from .learning import FEWEST_ROWS
from .rows import Rows


class Question(Protocol):
    """What a problem says about itself."""

    direction: str
    objective: Expression
    constraints: tuple[Constraint, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class DecisionTask:
    """What is to be decided: the problem's own words, and how sure the answer has to be."""

    direction: str
    objective: Expression
    constraints: tuple[Constraint, ...]
    attributes: tuple[str, ...]
    confidence: float
    per_group: str | None = None
    starts: int = 1
    #: Whether rows of one class only are a mistake; where the "class" is whether a decision was right, they are not.
    both_classes: bool = True
    #: Calibration rows as a share of all labelled rows: how many labels are missing is said in those.
    share: float = 1.0

    @property
    def sign(self) -> float:
        return 1.0 if self.direction == "maximize" else -1.0


def check_rows(task: DecisionTask, calibrate: Rows, learn: Rows, levels: Levels, seen: Levels) -> None:
    for name, batch in (("scores", calibrate), ("learn", learn)):
        n, positives = len(batch), int(batch.targets.sum())
        if n < FEWEST_ROWS:
            raise InputError(
                name, f"{n} rows", f"at least {FEWEST_ROWS}", "Label more rows; a guarantee rests on their number."
            )
        if task.both_classes and positives in (0, n):
            raise InputError(
                name,
                f"{n} rows with {positives} positives",
                "rows of both classes",
                "Check which label is positive; with few positives pass learn=(scores, targets) of training rows.",
            )
        if float(batch.scores.min()) == float(batch.scores.max()):
            raise InputError(name, f"one score, {float(batch.scores[0]):g}, for all rows", "scores that differ")
    for name, here, wider in zip(levels.names, levels.labels, seen.labels, strict=True):
        missing = sorted(set(wider) - set(here))
        if missing:
            raise InputError(
                "groups",
                f"{name} = {missing[0]:g} among the learning rows only",
                "every group among the calibration rows",
                "Nothing can be promised to a group that was never measured: add rows of it or drop it.",
            )
    for conditions in dict.fromkeys(one for constraint in task.constraints for one in _conditions(constraint)):
        for name, label in conditions:
            if label not in levels.of(name):
                came = f"no row with {name} = {label if isinstance(label, str) else format(label, 'g')}"
                raise InputError("groups", came, f"rows of the group that a constraint names ({name})")


def _conditions(constraint: Constraint) -> list[Conditions]:
    left = constraint.left
    rates = [left.rate] if hasattr(left, "rate") else [rate for _, rate in left.terms]  # type: ignore[attr-defined]
    return [rate.conditions for rate in rates]
