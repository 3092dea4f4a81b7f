"""A threshold for each category of rows under the same constraints, with control over all of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks
from ..constraints.counts import Array
from ..errors import InputError
from .asked import FEWEST_ROWS, LEARN_SHARE, DecisionTask, Learn, Question, calibration_share, learning_pairs
from .decision import Decision
from .guarantee import guaranteed
from .rows import checked_rows, column, like


@dataclass(frozen=True)
class CategoryDecisions:
    """One decision for each category; call it with scores and categories, each ``(n,)``, for bool decisions.

    Attributes:
        decisions: By category. Those without a threshold decide for no row.
        left_out: Categories that cannot be tested, with the reason; nothing is decided for them.

    Example:
        >>> import numpy as np
        >>> from aimfor.decisions import CategoryDecisions, Decision
        >>> found = CategoryDecisions({"a": Decision(0.5)}, {"b": "3 rows"})
        >>> found(np.array([0.6, 0.6]), np.array(["a", "b"])).tolist()
        [True, False]
    """

    decisions: Mapping[str, Decision]
    left_out: Mapping[str, str]

    def __call__(self, scores: Any, category: Any) -> Any:
        """A tensor for a tensor, else an array."""
        given, names = column("scores", scores).astype(np.float64), _names(category)
        if given.shape != names.shape:
            raise InputError("category", f"shape {names.shape}", f"shape {given.shape}, as scores")
        decided = np.zeros(given.shape, dtype=bool)
        for name in np.unique(names).tolist():
            if name not in self.decisions and name not in self.left_out:
                known = ", ".join([*self.decisions, *self.left_out][:10])
                raise InputError("category", repr(name), f"one of {known}", "Nothing was promised to others.")
            decision = self.decisions.get(name)
            if decision is not None and decision.threshold is not None:
                decided[names == name] = decision.decided(given[names == name])
        return like(decided, scores)

    def __str__(self) -> str:
        lines = [f"{name}: {decision.guarantee}" for name, decision in self.decisions.items()]
        return "\n".join([*lines, *(f"{name}: {reason}" for name, reason in self.left_out.items())])


def decide_categories(
    problem: Question,
    scores: Any,
    targets: Any,
    category: Any,
    *,
    guarantee: float = 0.95,
    learn: Learn = "split",
    cluster: Any | None = None,
) -> CategoryDecisions:
    """A threshold of its own for each category; all promises together hold with the confidence asked for.

    Every category is decided on its rows alone, at its share of the error. Those with too few rows are left out, by
    their number of rows alone, and have no share.

    Args:
        problem: Objective and constraints of each category, without groups.
        scores: ``(n,)``, of rows that took no part in training.
        targets: ``(n,)`` of 0 and 1.
        category: ``(n,)`` words or numbers.
        guarantee: Confidence that all constraints hold in all categories that have a threshold.
        learn: ``"split"``, or other rows as ``(scores, targets, category)``.
        cluster: Ids ``(n,)`` of rows that belong together; the promises are then for new clusters.

    Example:
        >>> import numpy as np
        >>> from aimfor.constraints import precision, recall
        >>> from aimfor.decisions import Problem, decide_categories
        >>> rng = np.random.default_rng(0)
        >>> y, shop = rng.random(4000) < 0.4, np.where(rng.random(4000) < 0.5, "north", "south")
        >>> found = decide_categories(
        ...     Problem("maximize", recall, [precision >= 0.7]), rng.normal(size=4000) + 2 * y, y, shop)
        >>> sorted(found.decisions), found(np.array([9.0, -9.0]), np.array(["north", "south"])).tolist()
        (['north', 'south'], [True, False])
    """
    alpha = 1.0 - checks.number("guarantee", guarantee, above=0.5, below=1)
    if problem.attributes:
        raise InputError("problem", f"groups {problem.attributes}", "constraints without groups")
    rows, names = checked_rows("scores", scores, targets, cluster=cluster), _names(category)
    other, other_names = None, names
    if isinstance(learn, tuple):
        if len(learn) != 3:
            raise InputError("learn", f"{len(learn)} columns", "(scores, targets, category) of other rows")
        other, other_names = checked_rows("learn", learn[0], learn[1]), _names(learn[2])
    elif not isinstance(learn, str):
        raise InputError("learn", repr(learn), '"split", or (scores, targets, category) of other rows')
    if names.shape != rows.scores.shape:
        raise InputError("category", f"shape {names.shape}", f"shape {rows.scores.shape}, as scores")
    least = FEWEST_ROWS if other is not None else math.ceil(FEWEST_ROWS / LEARN_SHARE)
    sizes = {name: int((names == name).sum()) for name in np.unique(names).tolist()}
    enough = [name for name, size in sizes.items() if size >= least]
    left_out = {
        name: f"{size} rows, at least {round(least)} are needed" for name, size in sizes.items() if size < least
    }
    decisions = {}
    for name in enough:
        own = rows.take(names == name)
        order = learn if other is None else _columns(other.take(other_names == name))
        task = DecisionTask(problem.direction, problem.objective, problem.constraints, (), 1.0 - alpha / len(enough),
                    share=calibration_share(learn))  # fmt: skip
        try:
            decisions[name] = guaranteed(task, learning_pairs(own, order))
        except InputError as error:
            left_out[name] = str(error)
    return CategoryDecisions(decisions, left_out)


def _columns(rows: Any) -> tuple[Array, Array]:
    return rows.scores, rows.targets


def _names(category: Any) -> Array:
    return np.asarray(column("category", category).astype(str))
