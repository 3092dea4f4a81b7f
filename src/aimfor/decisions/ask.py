"""`aimfor.decide`: one call from scores and labels to a threshold with its promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..constraints.expressions import Constraint, Expression
from ..constraints.parse import parse_constraint, parse_objective
from ..constraints.reachable import refuse_constant, refuse_ends
from ..errors import InputError, nearest
from .asked import Learn
from .decision import Decision
from .problem import Problem
from .rows import column


def decide(
    scores: Any,
    targets: Any,
    *,
    maximize: str | Expression | None = None,
    minimize: str | Expression | None = None,
    subject_to: str | Constraint | Sequence[str | Constraint] = (),
    confidence: float = 0.95,
    groups: Mapping[str, Any] | None = None,
    per_group: str | None = None,
    learn: Learn = "split",
    cluster: Any | None = None,
    band: bool = False,
) -> Decision:
    """A threshold for anyone's scores at which all constraints truly hold with the stated confidence.

    Tensors, arrays, lists and columns of pandas, polars or Arrow are taken as they come; NumPy and SciPy are enough.

    Args:
        scores: ``(n,)``, higher meaning more positive, of rows that took no part in training.
        targets: ``(n,)`` of 0 and 1.
        maximize: A rate or a sum of rates, as text or as an expression: ``"recall"``, ``"recall - 0.5*fpr"``.
        minimize: Instead of ``maximize``.
        subject_to: Constraints such as ``"precision >= 0.9"``, ``"gap(fpr, sex) <= 0.05"``.
        confidence: Of the promise, in (0.5, 1).
        groups: Labels ``(n,)`` by the names that constraints use; words are numbered in alphabetical order.
        per_group: Attribute whose labels each get a threshold of their own.
        learn: What chooses the order of the tests, as in `Problem.decide`.
        cluster: Ids ``(n,)`` of rows that belong together; the promise is then for new clusters.
        band: Also bounds at all thresholds of a grid together (`Band`), for choosing threshold and floors late.

    Returns:
        A `Decision`: call it with scores. Without a threshold it says what is missing.

    Raises:
        InputError: Which argument, what came, what was expected.

    Example:
        >>> import numpy as np, aimfor
        >>> rng = np.random.default_rng(0)
        >>> y = rng.random(3000) < 0.3
        >>> decision = aimfor.decide(rng.normal(size=3000) + 2 * y, y, maximize="recall", subject_to="precision >= 0.8")
        >>> round(decision.threshold, 2), decision.guarantee.promise
        (1.65, 'precision >= 0.8')
    """
    if (maximize is None) == (minimize is None):
        raise InputError("maximize", "both or neither of maximize and minimize", "one of them")
    words: dict[str, list[str]] = {}
    codes = {name: _coded(name, labels, words) for name, labels in groups.items()} if groups is not None else None

    def label_of(attribute: str, word: str) -> float:
        if attribute not in words:
            return float(word)
        if word not in words[attribute]:
            raise InputError(attribute, repr(word), "a label of that column", nearest(word, words[attribute]))
        return float(words[attribute].index(word))

    goal = maximize if maximize is not None else minimize
    objective = parse_objective(goal, label_of) if isinstance(goal, str) else goal
    given = [subject_to] if isinstance(subject_to, (str, Constraint)) else list(subject_to)
    constraints = [parse_constraint(one, label_of) if isinstance(one, str) else one for one in given]
    refuse_ends([one for one in constraints if isinstance(one, Constraint)])
    if not constraints and isinstance(objective, Expression):
        refuse_constant(objective)
    problem = Problem("maximize" if maximize is not None else "minimize", objective, constraints)  # type: ignore[arg-type]
    if band and per_group is not None:
        raise InputError("band", f"a band with per_group={per_group!r}", "one threshold for everyone")
    decision = problem.decide(
        scores, targets, groups=codes, per_group=per_group, guarantee=confidence, learn=learn, cluster=cluster
    )
    decision = replace(decision, words=tuple(words.get(per_group or "", ())))
    if not band:
        return decision
    found = problem.band(scores, targets, groups=codes, learn=learn, cluster=cluster, confidence=confidence)
    return replace(decision, band=found)


def _coded(name: str, labels: Any, words: dict[str, list[str]]) -> Any:
    """Numbers as they are; words by their place in alphabetical order, which ``words`` remembers."""
    given = column(f"groups[{name!r}]", labels)
    if given.dtype.kind in "biuf":
        return given
    found, codes = np.unique(given.astype(str), return_inverse=True)
    words[name] = found.tolist()
    return codes
