"""A problem as it is stated, and what can be asked of it once there are scores: counts, a certificate, thresholds.

And `aimfor.decide`: one call from scores and labels to a threshold with its promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import one_of
from ..constraints.counts import Array, Counts, Levels, encode, no_counts, tally
from ..constraints.expressions import Constraint, Expression, refuse_constant, refuse_ends
from ..constraints.inequalities import attributes_of, checked_constraints, checked_objective
from ..constraints.parse import parse_constraint, parse_objective
from ..errors import InputError, nearest
from .band import Band, band
from .binomial import lower_bound
from .certificate import Certificate, certify
from .clusters import cluster_tables, in_clusters
from .decision import Decision
from .guarantee import guaranteed
from .rows import Rows, checked_rows, column
from .task import DecisionTask, Learn, calibration_share, learning_pairs
from .thresholds import with_margin


class Problem:
    """An objective and the constraints it is subject to; the answers need no training, and no torch.

    Args:
        direction: ``"maximize"`` or ``"minimize"``.
        objective: A rate, a linear combination of rates, or ``rate.worst("group")``.
        subject_to: Constraints such as ``precision >= 0.9``.

    Example:
        >>> import numpy as np
        >>> from aimfor.constraints import precision, recall
        >>> from aimfor.decisions import Problem
        >>> problem = Problem("maximize", recall, [precision >= 0.5])
        >>> problem.certificate(np.arange(40.0) - 20, np.arange(40) >= 20).met
        True
    """

    def __init__(
        self, direction: str, objective: Expression, subject_to: Sequence[Constraint] | Constraint = ()
    ) -> None:
        self.direction = one_of("direction", direction, ("maximize", "minimize"))
        self.objective = checked_objective(objective)
        self.constraints = checked_constraints(subject_to)
        self.attributes = attributes_of(self.objective, self.constraints)

    def count(
        self,
        scores: Any,
        targets: Any,
        *,
        groups: Mapping[str, Any] | None = None,
        where: Any | None = None,
        decision: Decision | None = None,
        cluster: Any | None = None,
    ) -> Counts:
        """Exact counts of the decisions ``score > 0``, or of a `Decision`, on these data.

        With ``cluster``, numbers ``(n,)`` from 0 on of rows that belong together, a table for each of them.
        """
        rows = checked_rows("scores", scores, targets, groups, where)
        predicted, codes, levels = self._decided(rows, decision)
        if cluster is None:
            return tally(predicted, rows.targets, codes, levels)
        return Counts(levels, cluster_tables(replace(rows, cluster=cluster), predicted, codes, levels))

    def _decided(self, rows: Rows, decision: Decision | None) -> tuple[Array, Array, Levels]:
        codes, levels = encode(rows.groups, len(rows), no_counts(self.attributes).levels)
        predicted = rows.scores > 0 if decision is None else decision.decided(rows.scores, rows.groups)
        return predicted, codes, levels

    def certificate(
        self,
        scores: Any,
        targets: Any,
        *,
        groups: Mapping[str, Any] | None = None,
        where: Any | None = None,
        cluster: Any | None = None,
        decision: Decision | None = None,
        confidence: float = 0.95,
    ) -> Certificate:
        """What these data say about each constraint. Use data that chose neither the model nor the threshold.

        With ``cluster``, ids ``(n,)`` of rows that belong together, all is said about new clusters (`clusters`).
        """
        rows = checked_rows("scores", scores, targets, groups, where, cluster)
        predicted, codes, levels = self._decided(rows, decision)
        counts = tally(predicted, rows.targets, codes, levels)
        lower = lower_bound if rows.cluster is None else in_clusters(rows, predicted, codes, levels)
        return certify(self.objective, self.constraints, counts, confidence, direction=self.direction, lower=lower)

    def band(
        self,
        scores: Any,
        targets: Any,
        *,
        groups: Mapping[str, Any] | None = None,
        learn: Learn = "split",
        cluster: Any | None = None,
        confidence: float = 0.95,
    ) -> Band:
        """Bounds on the left sides of the constraints at a grid of thresholds, all true together at the confidence.

        Whoever looks at it may choose any of its thresholds and any floors. Arguments as in `decide`; ``learn`` sets
        the grid, and cannot be folds.
        """
        return band(self, checked_rows("scores", scores, targets, groups, cluster=cluster), confidence, learn)

    def decide(
        self,
        scores: Any,
        targets: Any,
        *,
        groups: Mapping[str, Any] | None = None,
        per_group: str | None = None,
        guarantee: float | None = None,
        learn: Learn = "split",
        starts: int = 1,
        margin: str | None = None,
        confidence: float = 0.95,
        weights: None = None,
        cluster: Any | None = None,
    ) -> Decision:
        """Threshold(s) with the best objective among those that keep all constraints: by guarantee, or with a margin.

        With ``guarantee=0.95`` the constraints truly hold at the answer with at least that probability, for any
        distribution of independent rows, or the answer is a `Decision` without threshold that says how many rows are
        missing. Without it a ``margin`` ("none", "confident", "certify", the default) keeps clear of the bounds on
        these data (see `aimfor.decisions.thresholds.with_margin`), which is no theorem.

        Args:
            scores: ``(n,)``, of rows that took no part in training.
            targets: ``(n,)`` of 0 and 1.
            groups: Labels ``(n,)`` by attribute.
            per_group: Attribute whose labels get thresholds of their own.
            guarantee: The confidence of the promise, in (0.5, 1).
            learn: What chooses the order of the tests: ``(scores, targets)`` or ``(scores, targets, groups)`` of
                other rows (training rows will do), ``"split"`` for a random 30 % of these rows, or fold ids ``(n,)``:
                each fold orders the tests on the others, at its share of the error.
            starts: Starts of the sequence of tests; more are for objectives that one path may miss.
            margin: Without a guarantee: how far inside the bounds to stay on these data.
            confidence: Of the margin.
            weights: Not supported: exact tests count rows.
            cluster: Ids ``(n,)`` of rows that belong together (a patient's, a document's): the guarantee is then for
                new clusters, within a size that the sentence names. Splits go by whole clusters.
        """
        if weights is not None:
            raise InputError("weights", "weights", "None", "Exact bounds count independent rows; repeat no row.")
        if guarantee is not None and margin is not None:
            raise InputError("margin", f"{margin!r} with a guarantee", "one of the two")
        batch = checked_rows("scores", scores, targets, groups, cluster=cluster)
        if cluster is not None and guarantee is None:
            raise InputError("cluster", "clusters without a guarantee", "guarantee=0.95", "Margins count rows.")
        if per_group is not None and per_group not in batch.groups:
            raise InputError("per_group", repr(per_group), f"one of the groups given, {sorted(batch.groups)}")
        if guarantee is not None:
            task = DecisionTask(
                self.direction, self.objective, self.constraints, self.attributes, guarantee, per_group, starts,
                share=calibration_share(learn),
            )  # fmt: skip
            return guaranteed(task, learning_pairs(batch, learn))
        return with_margin(self, batch, per_group=per_group, margin=margin or "certify", confidence=confidence)

    def __repr__(self) -> str:
        lines = [f"{self.direction:<12}{self.objective!r}"]
        for number, constraint in enumerate(self.constraints):
            lines.append(f"{'' if number else 'subject to':<12}{constraint!r}")
        return "\n".join(lines)


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
    constraints = [
        parse_constraint(constraint, label_of) if isinstance(constraint, str) else constraint for constraint in given
    ]
    refuse_ends([constraint for constraint in constraints if isinstance(constraint, Constraint)])
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
    simultaneous = problem.band(scores, targets, groups=codes, learn=learn, cluster=cluster, confidence=confidence)
    return replace(decision, band=simultaneous)


def _coded(name: str, labels: Any, words: dict[str, list[str]]) -> Any:
    """Numbers as they are; words by their place in alphabetical order, which ``words`` remembers."""
    given = column(f"groups[{name!r}]", labels)
    if given.dtype.kind in "biuf":
        return given
    distinct, codes = np.unique(given.astype(str), return_inverse=True)
    words[name] = distinct.tolist()
    return codes
