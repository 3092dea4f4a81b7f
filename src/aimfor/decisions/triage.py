"""Accept, reject, or ask a person: two thresholds, a promise above the one and a promise below the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import checks
from ..constraints.counts import Array
from ..constraints.expressions import Constraint
from ..constraints.named import positive_rate
from ..constraints.parse import parse_constraint
from .asked import DecisionTask, Learn, calibration_share, learning_pairs
from .decision import Decision
from .guarantee import answered, tested
from .labels import ABSTAIN
from .rows import checked_rows, column, like


@dataclass(frozen=True)
class Triage:
    """Call it with scores for 1 (accept), 0 (reject) or −1 (ask).

    Attributes:
        accept: Rows above its threshold are accepted; without one nothing can be promised about them.
        reject: Rows not above its threshold are rejected; both promises hold together.
        asked: Share of the given rows that a person decides.

    Example:
        >>> import numpy as np
        >>> from aimfor.decisions import Decision, Triage
        >>> Triage(Decision(1.0), Decision(0.0), 0.2)(np.array([-1.0, 0.5, 2.0])).tolist()
        [0, -1, 1]
    """

    accept: Decision
    reject: Decision
    asked: float

    @property
    def high(self) -> float | None:
        return self.accept.threshold

    @property
    def low(self) -> float | None:
        return self.reject.threshold

    def __call__(self, scores: Any) -> Any:
        """A tensor for a tensor, else an array."""
        given = column("scores", scores)
        return like(_decided(given.astype(np.float64), self.low, self.high), scores)


def decide_or_ask(
    scores: Any,
    targets: Any,
    *,
    accept: str | Constraint,
    reject: str | Constraint,
    guarantee: float = 0.95,
    learn: Learn = "split",
    cluster: Any | None = None,
) -> Triage:
    """Two thresholds with as few rows between them as the two promises allow; those are for a person.

    Args:
        scores: ``(n,)``, of rows that took no part in training.
        targets: ``(n,)`` of 0 and 1.
        accept: About rows above the upper threshold, e.g. ``"precision >= 0.95"``.
        reject: About rows not above the lower one, e.g. ``"npv >= 0.99"`` or ``"recall >= 0.9"`` (positives that are
            not rejected).
        guarantee: Confidence that both hold on new rows; each has half of the error.
        learn: As in `Problem.decide`.
        cluster: Ids ``(n,)`` of rows that belong together.

    Example:
        >>> import numpy as np
        >>> from aimfor.decisions import decide_or_ask
        >>> rng = np.random.default_rng(0)
        >>> y = rng.random(4000) < 0.3
        >>> rule = decide_or_ask(rng.normal(size=4000) + 3 * y, y, accept="precision >= 0.95", reject="npv >= 0.97")
        >>> rule(np.array([-1.0, 1.4, 4.0])).tolist(), rule.asked < 0.3
        ([0, -1, 1], True)
    """
    alpha = 1.0 - checks.number("guarantee", guarantee, above=0.5, below=1)
    rows = checked_rows("scores", scores, targets, cluster=cluster)
    pairs, runs, tasks = learning_pairs(rows, learn), [], []
    for direction, given in (("maximize", accept), ("minimize", reject)):
        constraint = parse_constraint(given) if isinstance(given, str) else given
        task = DecisionTask(
            direction, positive_rate, (constraint,), (), 1.0 - 0.5 * alpha, share=calibration_share(learn)
        )
        tasks.append(task)
        runs.append(tested(task, pairs))
    highs, lows = (run.path.cuts[list(run.accepted), 0] for run in runs)
    crossed = False
    if len(highs) and len(lows):
        # All of these thresholds are promised together: any pair may be taken, as long as no row is on both sides.
        share = (rows.scores <= highs[:, None]).mean(1)[:, None] - (rows.scores <= lows[:, None]).mean(1)
        between = np.where(lows <= highs[:, None], share, np.inf)
        places, crossed = np.unravel_index(int(between.argmin()), between.shape), bool(np.isinf(between).all())
        runs = [replace(run, chosen=run.accepted[int(place)]) for run, place in zip(runs, places, strict=True)]
    yes, no = (answered(task, run) for task, run in zip(tasks, runs, strict=True))
    if crossed and no.guarantee is not None:
        said = f"Nothing is rejected: all of these rows are accepted already. {no.guarantee}"
        no = replace(no, threshold=None, guarantee=replace(no.guarantee, sentence=said))
    asked = float((_decided(rows.scores, no.threshold, yes.threshold) == ABSTAIN).mean())
    return Triage(yes, no, asked)


def _decided(scores: Array, low: float | None, high: float | None) -> Array:
    decided = np.full(scores.shape, ABSTAIN)
    if low is not None:
        decided[scores <= low] = 0
    if high is not None:
        decided[scores > high] = 1
    return decided
