"""Several thresholds whose promises hold together: for each of m classes, or for each category of rows.

Each is the two-class procedure on its own column of scores, or on its own rows, at 1/m of the error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import checks
from ..constraints.counts import Array
from ..constraints.expressions import Constraint, LinearSum, Rate
from ..errors import InputError, nearest
from .decision import Decision
from .guarantee import guaranteed
from .rows import checked_rows, column, like
from .task import FEWEST_ROWS, LEARN_SHARE, DecisionTask, Learn, Question, calibration_share, learning_pairs


@dataclass(frozen=True)
class LabelDecisions:
    """One decision for each class that has a floor; call it with scores ``(n, c)`` for a bool matrix of that shape.

    Attributes:
        classes: Names, in the order of the columns.
        decisions: By class. Those without a threshold decide for no row.

    Example:
        >>> import torch
        >>> from aimfor.rates import Decision, LabelDecisions
        >>> found = LabelDecisions(("rest", "fraud"), {"fraud": Decision(0.5)})
        >>> found(torch.tensor([[0.9, 0.1], [0.2, 0.8]])).tolist()
        [[False, False], [False, True]]
    """

    classes: tuple[str, ...]
    decisions: Mapping[str, Decision]

    def __call__(self, scores: Any) -> Any:
        """A tensor for a tensor, else an array."""
        return like(self.decided(column("scores", scores)), scores)

    def decided(self, scores: Array) -> Array:
        """The same of a NumPy array."""
        if scores.ndim != 2 or scores.shape[1] != len(self.classes):
            raise InputError("scores", f"shape {scores.shape}", f"(n, {len(self.classes)}), one column per class")
        decided = np.zeros(scores.shape, dtype=bool)
        for name, decision in self.decisions.items():
            if decision.threshold is not None:
                index = self.classes.index(name)
                decided[:, index] = decision.decided(scores[:, index])
        return decided

    def __str__(self) -> str:
        return "\n".join(f"{name}: {decision.guarantee}" for name, decision in self.decisions.items())


def decide_labels(
    problem: Question,
    scores: Any,
    targets: Any,
    classes: Sequence[str],
    *,
    guarantee: float = 0.95,
    learn: Learn = "split",
    cluster: Any | None = None,
) -> LabelDecisions:
    """One-versus-rest thresholds under floors for single classes; all floors hold together at the confidence asked for.

    Args:
        problem: e.g. ``maximize(recall, [precision.on(label="fraud") >= 0.9, precision.on(label="theft") >= 0.8])``.
            The objective is that of each class; classes without a constraint are not decided.
        scores: ``(n, c)``, of rows that took no part in training.
        targets: ``(n,)`` class ids, or ``(n, c)`` of 0 and 1 where a row may have several labels.
        classes: Their names, in the order of the columns.
        guarantee: Confidence that all constraints hold on new rows.
        learn: As in `RateProblem.decide`; other rows as ``(scores, targets)`` of the same shapes.
        cluster: Ids ``(n,)`` of rows that belong together; the promises are then for new clusters.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import decide_labels, precision, recall
        >>> _ = torch.manual_seed(0)
        >>> targets = torch.randint(3, (3000,))
        >>> scores = torch.randn(3000, 3) + 3 * torch.nn.functional.one_hot(targets, 3)
        >>> problem = aimfor.maximize(recall, precision.on(label="fraud") >= 0.9)
        >>> decided = decide_labels(problem, scores, targets, ["rest", "theft", "fraud"])
        >>> decided.decisions["fraud"].threshold is not None, int(decided(scores)[:, :2].sum())
        (True, 0)
    """
    names = tuple(classes)
    columns = _columns("scores", scores, targets, len(names))
    by_class = constraints_by_class(problem.constraints, names)
    confidence = 1.0 - (1.0 - checks.number("guarantee", guarantee, above=0.5, below=1)) / len(by_class)
    other = _columns("learn", learn[0], learn[1], len(names)) if isinstance(learn, tuple) else None
    decisions = {}
    for name, constraints in by_class.items():
        index = names.index(name)
        batch = checked_rows("scores", *columns[index], cluster=cluster)
        pairs = learning_pairs(batch, learn if other is None else other[index])
        task = DecisionTask(
            problem.direction, problem.objective, constraints, (), confidence, share=calibration_share(learn)
        )
        decisions[name] = guaranteed(task, pairs)
    return LabelDecisions(names, decisions)


def _columns(argument: str, scores: Any, targets: Any, classes: int) -> list[tuple[Array, Array]]:
    """(scores, is it this class) for each class."""
    scores, targets = column(argument, scores), column("targets", targets)
    if classes < 1:
        raise InputError("classes", "no name", "the names of the classes")
    if scores.ndim != 2 or scores.shape[1] != classes:
        raise InputError(argument, f"scores of shape {scores.shape}", f"(n, {classes}), one column per class")
    if targets.shape == scores.shape:
        marks = targets
    elif targets.shape == scores.shape[:1] and targets.dtype.kind in "iub" and not bool(
        ((targets < 0) | (targets >= classes)).any()
    ):  # fmt: skip
        marks = targets[:, None] == np.arange(classes)
    else:
        raise InputError("targets", f"shape {targets.shape}", f"(n,) class ids below {classes}, or (n, {classes})")
    return [(scores[:, index], marks[:, index]) for index in range(classes)]


def constraints_by_class(
    constraints: Sequence[Constraint], classes: tuple[str, ...]
) -> dict[str, tuple[Constraint, ...]]:
    """The constraints of each class that has any, without the words that name the class."""
    by_class: dict[str, list[Constraint]] = {}
    for constraint in constraints:
        rates = getattr(constraint.left, "terms", ())
        labels = [label for _, rate in rates for attribute, label in rate.conditions if attribute == "label"]
        named = {label if isinstance(label, str) else format(label, "g") for label in labels}
        if len(named) != 1 or any(len(rate.conditions) != 1 for _, rate in rates):
            raise InputError(
                "subject_to", repr(constraint), "a constraint on one class", 'e.g. precision.on(label="fraud") >= 0.9'
            )
        (name,) = named
        if name not in classes:
            raise InputError("label", repr(name), "one of the classes", nearest(name, classes))
        left = LinearSum(tuple((c, replace(rate, conditions=())) for c, rate in rates))
        bare: Any = left.terms[0][1] if isinstance(constraint.left, Rate) else left
        by_class.setdefault(name, []).append(replace(constraint, left=bare))
    if not by_class:
        raise InputError("subject_to", "no constraint", 'at least one, e.g. precision.on(label="fraud") >= 0.9')
    return {name: tuple(by_class[name]) for name in classes if name in by_class}


@dataclass(frozen=True)
class CategoryDecisions:
    """One decision for each category; call it with scores and categories, each ``(n,)``, for bool decisions.

    Attributes:
        decisions: By category. Those without a threshold decide for no row.
        left_out: Categories that cannot be tested, with the reason; nothing is decided for them.

    Example:
        >>> import numpy as np
        >>> from aimfor.decisions import CategoryDecisions, Decision
        >>> rule = CategoryDecisions({"a": Decision(0.5)}, {"b": "3 rows"})
        >>> rule(np.array([0.6, 0.6]), np.array(["a", "b"])).tolist()
        [True, False]
    """

    decisions: Mapping[str, Decision]
    left_out: Mapping[str, str]

    def __call__(self, scores: Any, category: Any) -> Any:
        """A tensor for a tensor, else an array."""
        given, categories = column("scores", scores).astype(np.float64), _names(category)
        if given.shape != categories.shape:
            raise InputError("category", f"shape {categories.shape}", f"shape {given.shape}, as scores")
        decided = np.zeros(given.shape, dtype=bool)
        for name in np.unique(categories).tolist():
            if name not in self.decisions and name not in self.left_out:
                names = ", ".join([*self.decisions, *self.left_out][:10])
                raise InputError("category", repr(name), f"one of {names}", "Nothing was promised to others.")
            decision = self.decisions.get(name)
            if decision is not None and decision.threshold is not None:
                decided[categories == name] = decision.decided(given[categories == name])
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
    left_out = {name: f"{size} rows, at least {least} are needed" for name, size in sizes.items() if size < least}
    decisions = {}
    for name in enough:
        own, order = rows.take(names == name), learn
        if other is not None:
            chosen = other_names == name
            order = other.scores[chosen], other.targets[chosen]
        task = DecisionTask(problem.direction, problem.objective, problem.constraints, (), 1.0 - alpha / len(enough),
                    share=calibration_share(learn))  # fmt: skip
        try:
            decisions[name] = guaranteed(task, learning_pairs(own, order))
        except InputError as error:
            left_out[name] = str(error)
    return CategoryDecisions(decisions, left_out)


def _names(category: Any) -> Array:
    return np.asarray(column("category", category).astype(str))
