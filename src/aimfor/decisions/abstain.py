"""Leave some rows to a person: decide only where the decision is clear, or between two thresholds for neither.

Abstention: let the "score" of a row be how far ahead its decision is and its "label" whether that decision is right;
then the rows that are decided are those above a threshold, the error among them is 1 − precision, and coverage is the
positive rate. Two thresholds: a promise above the one, and a promise below the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import checks
from ..constraints.counts import FP, TP, Array
from ..constraints.expressions import ALL_CELLS, Constraint, Rate
from ..constraints.named import positive_rate
from ..constraints.parse import parse_constraint
from ..errors import InputError
from .decision import Decision
from .guarantee import answered, guaranteed, tested
from .rows import Rows, checked_rows, column, like
from .task import DecisionTask, Learn, calibration_share, learning_pairs

#: What `Abstention` answers for rows that it leaves to a person.
ABSTAIN = -1
#: Of decisions made: the share that is wrong; and the share of all rows that are decided.
errors_made, coverage = Rate("error", (FP,), (TP, FP)), Rate("coverage", (TP, FP), ALL_CELLS)


@dataclass(frozen=True)
class Abstention:
    """Decides where it is sure enough; call it with scores for class ids ``(n,)``, `ABSTAIN` (−1) for the others.

    Attributes:
        decision: On how sure a decision is; its `guarantee` is the promise.
        coverage: Share of the calibration rows that are decided; 0 without a threshold.
        boundary: Binary scores above it are decided positive.

    Example:
        >>> import torch
        >>> from aimfor.rates import Abstention, Decision
        >>> Abstention(Decision(1.0), 0.5, boundary=0.0)(torch.tensor([-2.0, 0.3, 2.0])).tolist()
        [0, -1, 1]
    """

    decision: Decision
    coverage: float
    boundary: float

    def __call__(self, scores: Any) -> Any:
        """A tensor for a tensor, else an array."""
        chosen, sureness = _sureness(column("scores", scores), self.boundary)
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
    boundary: float = 0.0,
    cluster: Any | None = None,
) -> Abstention:
    """As many decisions as possible while at most ``error`` of them are wrong, with the confidence asked for.

    Args:
        scores: ``(n,)`` for two classes, or ``(n, c)``: the largest decides. Rows that took no part in training.
        targets: ``(n,)`` class ids.
        error: Share of wrong decisions among those that are made.
        guarantee: Chance that this truly holds.
        learn: As in `RateProblem.decide`; other rows as ``(scores, targets)`` of the same shapes.
        boundary: Of binary scores: 0 for log-odds, 0.5 for probabilities.
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
    batch = right_or_wrong("scores", scores, targets, boundary, cluster)
    given: Learn = learn
    if isinstance(learn, tuple):
        other = right_or_wrong("learn", learn[0], learn[1], boundary)
        given = (other.scores, other.targets)
    task = DecisionTask(
        "maximize", coverage, (errors_made <= error,), (), guarantee, both_classes=False, share=calibration_share(learn)
    )
    decision = guaranteed(task, learning_pairs(batch, given))
    covered = 0.0 if decision.threshold is None else float(decision.decided(batch.scores).mean())
    return Abstention(decision, covered, boundary)


def right_or_wrong(argument: str, scores: Any, targets: Any, boundary: float, cluster: Any | None = None) -> Rows:
    """How sure each row's decision is, and whether it is right."""
    scores, targets = column(argument, scores), column("targets", targets)
    if scores.ndim not in (1, 2) or targets.shape != scores.shape[:1] or targets.dtype.kind == "f":
        raise InputError(
            argument,
            f"scores of shape {scores.shape} and targets of shape {targets.shape}",
            "(n,) or (n, c) and whole numbers (n,)",
        )
    chosen, sureness = _sureness(scores, boundary)
    return checked_rows(argument, sureness, chosen == targets, cluster=cluster)


def _sureness(scores: Array, boundary: float) -> tuple[Array, Array]:
    """The decided class, and how far ahead it is: of the boundary, or of the runner-up."""
    if scores.ndim == 1:
        return (scores > boundary).astype(np.int64), np.abs(scores.astype(np.float64) - boundary)
    best = np.sort(scores.astype(np.float64), axis=1)
    return scores.argmax(1), best[:, -1] - best[:, -2]


@dataclass(frozen=True)
class Triage:
    """Call it with scores for 1 (accept), 0 (reject) or −1 (ask).

    Attributes:
        accept: Rows above its threshold are accepted; without one nothing can be promised about them.
        reject: Rows not above its threshold are rejected; both promises hold together.
        undecided: Share of the given rows that a person decides.

    Example:
        >>> import numpy as np
        >>> from aimfor.decisions import Decision, Triage
        >>> Triage(Decision(1.0), Decision(0.0), 0.2)(np.array([-1.0, 0.5, 2.0])).tolist()
        [0, -1, 1]
    """

    accept: Decision
    reject: Decision
    undecided: float

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
        >>> rule(np.array([-1.0, 1.4, 4.0])).tolist(), rule.undecided < 0.3
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
    highs, lows = (run.path.thresholds[list(run.accepted), 0] for run in runs)
    crossed = False
    if len(highs) and len(lows):
        # All of these thresholds are promised together: any pair may be taken, as long as no row is on both sides.
        share = (rows.scores <= highs[:, None]).mean(1)[:, None] - (rows.scores <= lows[:, None]).mean(1)
        between = np.where(lows <= highs[:, None], share, np.inf)
        chosen, crossed = np.unravel_index(int(between.argmin()), between.shape), bool(np.isinf(between).all())
        runs = [replace(run, chosen=run.accepted[int(step)]) for run, step in zip(runs, chosen, strict=True)]
    yes, no = (answered(task, run) for task, run in zip(tasks, runs, strict=True))
    if crossed and no.guarantee is not None:
        sentence = f"Nothing is rejected: all of these rows are accepted already. {no.guarantee}"
        no = replace(no, threshold=None, guarantee=replace(no.guarantee, sentence=sentence))
    undecided = float((_decided(rows.scores, no.threshold, yes.threshold) == ABSTAIN).mean())
    return Triage(yes, no, undecided)


def _decided(scores: Array, low: float | None, high: float | None) -> Array:
    decided = np.full(scores.shape, ABSTAIN)
    if low is not None:
        decided[scores <= low] = 0
    if high is not None:
        decided[scores > high] = 1
    return decided
