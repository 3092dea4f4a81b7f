"""A problem as it is stated, and what can be asked of it once there are scores: counts, a certificate, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..checks import one_of
from ..constraints.counts import Array, Counts, Levels, encode, no_counts, tally
from ..constraints.expressions import Constraint, Expression
from ..constraints.parts import attributes_of, checked_constraints, checked_objective
from ..errors import InputError
from .asked import Learn
from .band import Band, band
from .binomial import lower_bound
from .certificate import Certificate, certify
from .clusters import in_clusters
from .decision import Decision
from .guarantee import guaranteed_by
from .rows import Rows, checked_rows
from .thresholds import decide


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
    ) -> Counts:
        """Exact counts of the decisions ``score > 0``, or of a `Decision`, on these data."""
        rows = checked_rows("scores", scores, targets, groups, where)
        predicted, codes, levels = self._decided(rows, decision)
        return tally(predicted, rows.targets, codes, levels)

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
        these data (see `aimfor.decisions.thresholds.decide`), which is no theorem.

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
        if guarantee is not None:
            return guaranteed_by(self, batch, guarantee, learn, per_group, starts)
        return decide(self, batch, per_group=per_group, margin=margin or "certify", confidence=confidence)

    def __repr__(self) -> str:
        lines = [f"{self.direction:<12}{self.objective!r}"]
        for place, constraint in enumerate(self.constraints):
            lines.append(f"{'' if place else 'subject to':<12}{constraint!r}")
        return "\n".join(lines)
