"""Several classes: one-versus-rest decisions with a floor each, and "decide, or hand to a person".

Both are the two-class procedure asked several times, or about another question. A floor for each of m classes: every
class is decided on its own column of scores at 1/m of the error, so all promises hold together. Abstention: let the
"score" of a row be how sure its decision is and its "label" whether that decision is right; then the rows that are
decided are those above a threshold, the error among them is 1 − precision, and coverage is the positive rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import checks
from ..constraints.counts import FP, TP, Array
from ..constraints.expressions import ALL_CELLS, Constraint, LinearSum, Rate
from ..errors import InputError, nearest
from .asked import DecisionTask, Learn, Question, calibration_share, learning_pairs
from .decision import Decision
from .guarantee import guaranteed
from .rows import Rows, checked_rows, column, like

#: What `Abstention` answers for rows that it leaves to a person.
ABSTAIN = -1
#: Of decisions made: the share that is wrong; and the share of all rows that are decided.
errors_made, coverage = Rate("error", (FP,), (TP, FP)), Rate("coverage", (TP, FP), ALL_CELLS)


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
                place = self.classes.index(name)
                decided[:, place] = decision.decided(scores[:, place])
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
        place = names.index(name)
        batch = checked_rows("scores", *columns[place], cluster=cluster)
        pairs = learning_pairs(batch, learn if other is None else other[place])
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
    return [(scores[:, place], marks[:, place]) for place in range(classes)]


def constraints_by_class(
    constraints: Sequence[Constraint], classes: tuple[str, ...]
) -> dict[str, tuple[Constraint, ...]]:
    """The constraints of each class that has any, without the words that name the class."""
    found: dict[str, list[Constraint]] = {}
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
        found.setdefault(name, []).append(replace(constraint, left=bare))
    if not found:
        raise InputError("subject_to", "no constraint", 'at least one, e.g. precision.on(label="fraud") >= 0.9')
    return {name: tuple(found[name]) for name in classes if name in found}


@dataclass(frozen=True)
class Abstention:
    """Decides where it is sure enough; call it with scores for class ids ``(n,)``, `ABSTAIN` (−1) for the others.

    Attributes:
        decision: On how sure a decision is; its `guarantee` is the promise.
        coverage: Share of the calibration rows that are decided; 0 without a threshold.
        cut: Binary scores above it are decided positive.

    Example:
        >>> import torch
        >>> from aimfor.rates import Abstention, Decision
        >>> Abstention(Decision(1.0), 0.5, cut=0.0)(torch.tensor([-2.0, 0.3, 2.0])).tolist()
        [0, -1, 1]
    """

    decision: Decision
    coverage: float
    cut: float

    def __call__(self, scores: Any) -> Any:
        """A tensor for a tensor, else an array."""
        chosen, sureness = _sureness(column("scores", scores), self.cut)
        if self.decision.threshold is None:
            return like(np.full_like(chosen, ABSTAIN), scores)
        return like(np.where(self.decision.decided(sureness), chosen, ABSTAIN), scores)


def decide_or_abstain(
    scores: Any,
    targets: Any,
    *,
    error: float = 0.01,
    guarantee: float = 0.95,
    learn: Learn = "split",
    cut: float = 0.0,
    cluster: Any | None = None,
) -> Abstention:
    """As many decisions as possible while at most ``error`` of them are wrong, with the confidence asked for.

    Args:
        scores: ``(n,)`` for two classes, or ``(n, c)``: the largest decides. Rows that took no part in training.
        targets: ``(n,)`` class ids.
        error: Share of wrong decisions among those that are made.
        guarantee: Chance that this truly holds.
        learn: As in `RateProblem.decide`; other rows as ``(scores, targets)`` of the same shapes.
        cut: Of binary scores: 0 for log-odds, 0.5 for probabilities.
        cluster: Ids ``(n,)`` of rows that belong together; the promise is then for new clusters.

    Example:
        >>> import torch
        >>> from aimfor.rates import decide_or_abstain
        >>> _ = torch.manual_seed(0)
        >>> targets = torch.randint(3, (3000,))
        >>> scores = torch.randn(3000, 3) + 3 * torch.nn.functional.one_hot(targets, 3)
        >>> rule = decide_or_abstain(scores, targets, error=0.01)
        >>> 0.5 < rule.coverage < 1, sorted(rule(scores).unique().tolist())
        (True, [-1, 0, 1, 2])
    """
    checks.number("error", error, above=0, below=1)
    batch = right_or_wrong("scores", scores, targets, cut, cluster)
    given: Learn = learn
    if isinstance(learn, tuple):
        other = right_or_wrong("learn", learn[0], learn[1], cut)
        given = (other.scores, other.targets)
    task = DecisionTask(
        "maximize", coverage, (errors_made <= error,), (), guarantee, both_classes=False, share=calibration_share(learn)
    )
    decision = guaranteed(task, learning_pairs(batch, given))
    covered = 0.0 if decision.threshold is None else float(decision.decided(batch.scores).mean())
    return Abstention(decision, covered, cut)


def right_or_wrong(argument: str, scores: Any, targets: Any, cut: float, cluster: Any | None = None) -> Rows:
    """How sure each row's decision is, and whether it is right."""
    scores, targets = column(argument, scores), column("targets", targets)
    if scores.ndim not in (1, 2) or targets.shape != scores.shape[:1] or targets.dtype.kind == "f":
        raise InputError(
            argument,
            f"scores of shape {scores.shape} and targets of shape {targets.shape}",
            "(n,) or (n, c) and whole numbers (n,)",
        )
    chosen, sureness = _sureness(scores, cut)
    return checked_rows(argument, sureness, chosen == targets, cluster=cluster)


def _sureness(scores: Array, cut: float) -> tuple[Array, Array]:
    """The decided class, and how far ahead it is: of the cut, or of the runner-up."""
    if scores.ndim == 1:
        return (scores > cut).astype(np.int64), np.abs(scores.astype(np.float64) - cut)
    best = np.sort(scores.astype(np.float64), axis=1)
    return scores.argmax(1), best[:, -1] - best[:, -2]
