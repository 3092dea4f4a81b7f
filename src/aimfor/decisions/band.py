"""A simultaneous band: bounds at all thresholds of a grid, true together, so that one may choose after looking.

The grid comes from rows that take no part in the bounds. At each of its thresholds every left side of a
constraint has an exact bound (`bounds`) at 1/(thresholds × left sides) of the error: with the stated confidence all of
them hold, and so does any choice of threshold *and* of floors that was made with the band in view. The pointwise
answer (`guarantee`), whose floors are fixed before the labels are seen, is bolder: that is the price of choosing late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import checks
from ..constraints.counts import Counts
from ..constraints.expressions import Constraint
from ..constraints.parse import parse_constraint
from ..errors import InputError, nearest
from .binomial import lower_bound
from .certificate import Lower, bounds, plain_value
from .exact import clusters_at
from .rows import Rows
from .sweep import candidates, objective_value, sweep
from .task import DecisionTask, Learn, Question, coded, learning_pairs

#: Thresholds of the grid: with more the bounds are wider, with fewer a floor is met further from where it is reached.
STEPS = 32


@dataclass(frozen=True)
class Line:
    """The left side of a constraint at each threshold: its value on these rows and its bound in the band."""

    value: tuple[float, ...]
    bound: tuple[float, ...]


@dataclass(frozen=True)
class Band:
    """Bounds at every threshold of a grid, all true together with this confidence.

    Attributes:
        confidence: That no bound of the band is wrong.
        thresholds: Ascending.
        direction: ``"maximize"`` or ``"minimize"``.
        objective: At each threshold, on these rows: an estimate, not bounded.
        lines: By left side and sense, as in ``"precision >="``: lower bounds where floors are asked for, upper ones
            where ceilings are.
        rows: Rows that the bounds rest on.

    Example:
        >>> import numpy as np
        >>> from aimfor.constraints import precision, recall
        >>> from aimfor.decisions import Problem
        >>> rng = np.random.default_rng(0)
        >>> y = rng.random(3000) < 0.3
        >>> band = Problem("maximize", recall, [precision >= 0.9]).band(rng.normal(size=3000) + 2 * y, y)
        >>> [round(band.best(f"precision >= {floor}"), 2) for floor in (0.6, 0.7, 0.8)]
        [0.84, 1.39, 1.81]
    """

    confidence: float
    thresholds: tuple[float, ...]
    direction: str
    objective: tuple[float, ...]
    lines: Mapping[str, Line]
    rows: int

    def best(self, *constraints: str | Constraint) -> float | None:
        """The threshold with the best objective among those whose bounds keep these constraints; None without one.

        Any bound may be asked for, again and again, on the left sides that the band was made for.
        """
        index = self.step(*constraints)
        return None if index is None else self.thresholds[index]

    def step(self, *constraints: str | Constraint) -> int | None:
        """The same as its number in the grid."""
        kept = np.isfinite(self.objective)
        for given in constraints:
            constraint = parse_constraint(given) if isinstance(given, str) else given
            name = f"{constraint.left!r} {constraint.sense}"
            if name not in self.lines:
                raise InputError("constraints", repr(constraint), f"a bound on {', '.join(self.lines)}",
                                 nearest(name, list(self.lines)))  # fmt: skip
            bound = np.array(self.lines[name].bound)
            kept &= bound >= constraint.bound if constraint.sense == ">=" else bound <= constraint.bound
        goal = np.array(self.objective) * (1.0 if self.direction == "maximize" else -1.0)
        return int(np.where(kept, goal, -math.inf).argmax()) if kept.any() else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what cannot be measured is None."""
        plain = asdict(self)
        for line in (plain, *plain["lines"].values()):
            for name in ("objective", "value", "bound"):
                if name in line:
                    line[name] = [value if math.isfinite(value) else None for value in line[name]]
        return plain


def band(problem: Question, batch: Rows, confidence: float, learn: Learn) -> Band:
    """`Band` for the left sides of a problem's constraints, with the learning rows in any form but folds."""
    checks.number("confidence", confidence, above=0.5, below=1)
    if not problem.constraints:
        raise InputError("band", "a problem without constraints", "at least one, e.g. precision >= 0.9")
    pairs = learning_pairs(batch, learn)
    if len(pairs) > 1:
        raise InputError("learn", "fold ids with a band", 'other rows, or "split"', "One part has to set the grid.")
    ((learning, calibrate),) = pairs
    task = DecisionTask(problem.direction, problem.objective, problem.constraints, problem.attributes, confidence)
    codes, _, levels = coded(task, learning, calibrate)
    thresholds = candidates(learning.scores, learning.targets, STEPS)
    counts = sweep(calibrate, codes, levels, thresholds)
    sides = {f"{constraint.left!r} {constraint.sense}": constraint for constraint in problem.constraints}
    alpha = (1.0 - confidence) / (len(thresholds) * len(sides))
    lines: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in sides}
    for step in range(len(thresholds)):
        at = Counts(levels, counts.table[step])
        lower: Lower = lower_bound
        if calibrate.cluster is not None:
            lower = clusters_at(task, thresholds[step : step + 1], calibrate, learning, codes, levels)
        for name, constraint in sides.items():
            low, high = bounds(constraint.left, constraint.sense, at, alpha, lower)
            lines[name][0].append(plain_value(constraint.left, at, constraint.sense))
            lines[name][1].append(low if constraint.sense == ">=" else high)
    goal = (task.sign * objective_value(problem.objective, counts, task.sign)).tolist()
    by_name = {name: Line(tuple(value), tuple(bound)) for name, (value, bound) in lines.items()}
    return Band(confidence, tuple(thresholds.tolist()), problem.direction, tuple(goal), by_name, len(calibrate))
