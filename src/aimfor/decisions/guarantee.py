"""Thresholds with a guarantee: fixed-sequence testing from a start that other rows have learned.

Let H(t) say that some constraint is violated at threshold t. For every t there is a test of H(t) that is wrong with
probability at most α whatever the distribution (`exact`). Thresholds are tested in an order that does not depend on
the calibration rows (`path`), each at the full α, up to the first that is not accepted. The first threshold on the
path that violates its constraints is accepted with probability at most α; so with confidence 1 − α all accepted ones
keep them, and the best of those may be taken. Several constraints: all tests have to accept. Several starts: α is
divided among them, and one whose sequence is accepted to its end hands its α on to the next (the fallback procedure).

An objective without constraints, such as a cost: other rows choose the threshold, these rows bound what it costs.

References:
    Angelopoulos, Bates, Candès, Jordan, Lei, Learn then test: calibrating predictive algorithms to achieve risk
    control, 2021. Wiens, Dmitrienko, The fallback procedure for evaluating a single family of hypotheses, 2005.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import checks
from ..constraints.counts import Array, Counts
from ..constraints.expressions import Constraint
from ..constraints.inequalities import all_inequalities
from ..errors import InputError
from .binomial import lower_bound, normal_quantile
from .certificate import bounds, certify, plain_value, sense_of
from .clusters import Clusters
from .decision import Decision, Guarantee
from .exact import accepted_steps, clusters_at, worth_in_rows
from .independence import copies
from .path import Aim, Path, counts_at, learned_path
from .price import Price, constant_counts, halving, kept_bounds, nearly_constant, rounded, shortfall
from .rows import Rows
from .sweep import learning_grid, objective_value
from .task import DecisionTask, coded


def guaranteed(task: DecisionTask, learning: Sequence[tuple[Rows, Rows]]) -> Decision:
    """The best threshold that can be guaranteed, or a decision without threshold that says what is missing.

    Args:
        task: The problem and its settings.
        learning: Pairs (learning rows, calibration rows) without a row in common, each run at its share of α.
    """
    checks.number("guarantee", task.confidence, above=0.5, below=1)
    return answered(task, tested(task, learning)) if task.constraints else best_alone(task, learning)


def tested(task: DecisionTask, learning: Sequence[tuple[Rows, Rows]]) -> Run:
    """The best of the paths that the pairs propose, with its accepted steps."""
    checks.integer("starts", task.starts, at_least=1)
    alpha = (1.0 - task.confidence) / len(learning)
    return max((_run(task, learn, calibrate, alpha) for learn, calibrate in learning), key=lambda run: run.rank)


def answered(task: DecisionTask, run: Run) -> Decision:
    return _given(task, run) if run.chosen is not None else _none(task, run)


@dataclass(frozen=True, eq=False)
class Run:
    """One path, tested: which steps were accepted, and which of those is best."""

    path: Path
    counts: Counts
    rows: int
    learned_on: int
    accepted: tuple[int, ...]
    chosen: int | None
    goal: float
    alpha: float
    surveyed: Counts
    copies: int = 0
    #: Tables by cluster at given thresholds, where rows come in clusters.
    clustered: Callable[[Array], Clusters] | None = None

    @cached_property
    def clusters(self) -> Clusters | None:
        """At the chosen step, or else at the first."""
        step = self.start if self.chosen is None else self.chosen
        return None if self.clustered is None else self.clustered(self.path.thresholds[step])

    @property
    def rank(self) -> tuple[float, float]:
        """Better objective first; without any, the start with more power."""
        return (self.goal, 0.0) if self.chosen is not None else (-math.inf, float(self.path.power[self.start]))

    def evidence(self, task: DecisionTask) -> str:
        """What the tests rest on, in words. Rows that count are those of a rate's denominator."""
        if self.clusters is None:
            return f"{self.rows} independent calibration rows"
        rates = {
            rate
            for inequality in all_inequalities(task.constraints, self.clusters.levels)
            for _, rate in inequality.terms
        }
        most = ", ".join(f"{self.clusters.largest(rate):g} for {rate!r}" for rate in sorted(rates, key=repr))
        return (
            f"{len(self.clusters.tables)} independent clusters ({self.rows} rows), for new clusters of which each "
            f"counts as at most so many rows: {most}"
        )

    @property
    def start(self) -> int:
        return self.path.sequences[0][0]


def _run(task: DecisionTask, learn: Rows, calibrate: Rows, alpha: float) -> Run:
    codes, learn_codes, levels = coded(task, learn, calibrate)
    rows = len(calibrate)
    worth = rows if calibrate.cluster is None else worth_in_rows(task, calibrate, learn, learn_codes, levels)
    aim = Aim(task.sign, task.objective, task.constraints, worth, alpha, task.starts)
    path = learned_path(aim, learn, learn_codes, levels, task.per_group)
    if path is None:
        raise InputError(
            "subject_to",
            ", ".join(map(repr, task.constraints)),
            "constraints that some threshold comes near on the learning rows",
            "No threshold is within four standard errors of them: loosen a bound, or improve the scores.",
        )
    counts = counts_at(path.thresholds, calibrate, codes, levels, task.per_group)

    def clustered(thresholds: Array) -> Clusters:
        return clusters_at(task, thresholds, calibrate, learn, codes, levels)

    clusters_of = None if calibrate.cluster is None else clustered
    accepted = accepted_steps(task, path, counts, alpha, clusters_of)
    surveyed = counts_at(path.survey.thresholds, calibrate, codes, levels, task.per_group)
    repeated = copies(calibrate) if task.both_classes and calibrate.cluster is None else 0
    pooled = Counts(levels, counts.table + path.counts.table)
    goals = objective_value(task.objective, pooled, task.sign)[list(accepted)]
    chosen = accepted[int(goals.argmax())] if accepted else None

    return Run(
        path, counts, rows, len(learn), accepted, chosen, float(goals.max(initial=-math.inf)), alpha, surveyed,
        repeated, clusters_of,
    )  # fmt: skip


def _given(task: DecisionTask, run: Run) -> Decision:
    assert run.chosen is not None
    thresholds = [float(threshold) for threshold in run.path.thresholds[run.chosen]]
    levels = run.counts.levels
    own = {} if task.per_group is None else dict(zip(levels.of(task.per_group), thresholds, strict=True))
    at = Counts(levels, run.counts.table[run.chosen])
    certificate = certify(
        task.objective, task.constraints, at, task.confidence, direction=task.direction, accepted=True,
        lower=run.clusters or lower_bound,
    )  # fmt: skip
    promise = " and ".join(map(repr, task.constraints))
    price, share = _price(task, run, at), nearly_constant(at)[1]
    sentence = (
        f"{price.warning(repr(task.objective), share)}{promise}: guaranteed at {100 * task.confidence:g}% confidence "
        f"by {run.evidence(task)}. {price.sentence(repr(task.objective))}{_copied(run)}"
    )
    tried = run.path.thresholds[list(run.accepted), 0]
    region = (float(tried.min()), float(tried.max())) if task.per_group is None else ()
    guarantee = Guarantee(
        task.confidence, promise, run.rows, run.learned_on, len(run.accepted), sentence, region=region, price=price,
        copies=run.copies,
    )  # fmt: skip
    middle = sum(thresholds) / len(thresholds)
    return Decision(middle, task.per_group, own, True, "guarantee", certificate, guarantee)


def _price(task: DecisionTask, run: Run, at: Counts) -> Price:
    """Of the chosen step, on the calibration rows; thresholds to compare with are those of the path and its survey."""
    levels, sign = run.counts.levels, task.sign
    inequalities = all_inequalities(task.constraints, levels)
    every = Counts(levels, np.concatenate((run.counts.table, run.surveyed.table)))
    goal = objective_value(task.objective, every, sign)
    kept = float(objective_value(task.objective, at, sign))
    constant = constant_counts(at)
    fixed = objective_value(task.objective, constant, sign)
    within = np.concatenate((goal[kept_bounds(inequalities, every)], fixed[kept_bounds(inequalities, constant)]))
    without = max(kept, float(within.max())) if len(within) else kept
    nearly, _ = nearly_constant(at)
    beside = float(fixed[0 if nearly == "nobody" else 1]) if nearly else float(fixed.max())
    critical = normal_quantile(1.0 - (1.0 - task.confidence))
    times = halving(inequalities, every, goal, kept, without, critical)
    labels = None if times is None else rounded(max(math.ceil((times - 1.0) * run.rows / task.share), 1))
    return Price(sign * kept, sign * without, sign * beside if math.isfinite(beside) else None, nearly, labels)


def _copied(run: Run) -> str:
    if not run.copies:
        return ""
    return (
        f" But {run.copies} of the {run.rows} rows are copies of others (equal scores carry equal labels more often "
        "than chance allows), and the tests count independent rows: leave the copies out and decide again."
    )


def _none(task: DecisionTask, run: Run) -> Decision:
    missing = shortfall(
        task.constraints, run.path, run.counts, run.surveyed, run.rows, run.alpha, task.share, run.clusters is not None
    )
    if missing.step is None:
        thresholds, at = run.path.thresholds[run.start], run.counts.table[run.start]
    else:
        thresholds, at = run.path.survey.thresholds[missing.step], run.surveyed.table[missing.step]
    promise = " and ".join(map(repr, task.constraints))
    confidence = f"{100 * task.confidence:g}%"
    sentence = (
        f"No threshold: {promise} cannot be guaranteed at {confidence} confidence. {missing.sentence}{_copied(run)}"
    )
    guarantee = Guarantee(
        task.confidence, promise, run.rows, run.learned_on, 0, sentence, missing.more, missing.today,
        tuple(float(threshold) for threshold in thresholds), copies=run.copies, best_effort=_best_effort(task, run),
    )  # fmt: skip
    at_start = Counts(run.counts.levels, at)
    certificate = certify(
        task.objective, task.constraints, at_start, task.confidence, direction=task.direction,
        lower=run.clusters or lower_bound,
    )  # fmt: skip
    return Decision(None, None, {}, False, "guarantee", certificate, guarantee)


def _best_effort(task: DecisionTask, run: Run) -> tuple[float, ...]:
    """Thresholds with the best objective among those that keep the bounds on all rows, or that miss them by least."""
    path, levels = run.path, run.counts.levels
    thresholds = np.concatenate((path.thresholds, path.survey.thresholds))
    pairs = ((run.counts, path.counts), (run.surveyed, path.survey.counts))
    counts = Counts(levels, np.concatenate([here.table + other.table for here, other in pairs]))
    inequalities = all_inequalities(task.constraints, levels)
    goal, kept = objective_value(task.objective, counts, task.sign), kept_bounds(inequalities, counts)
    slack = np.min([np.nan_to_num(inequality.slack(counts), nan=-math.inf) for inequality in inequalities], 0)
    best = np.where(kept, goal, -math.inf) if bool((kept & np.isfinite(goal)).any()) else slack
    return tuple(thresholds[int(best.argmax())].tolist())


def best_alone(task: DecisionTask, learning: Sequence[tuple[Rows, Rows]]) -> Decision:
    """The threshold that is best on the learning rows, with a bound on its objective: that bound is the promise.

    With several pairs each has its share of the error, and the best bound is taken.
    """
    alpha = (1.0 - task.confidence) / len(learning)
    decisions = [_bounded(task, learn, calibrate, alpha) for learn, calibrate in learning]
    return max(decisions, key=lambda pair: pair[0])[1]


def _bounded(task: DecisionTask, learn: Rows, calibrate: Rows, alpha: float) -> tuple[float, Decision]:
    codes, learn_codes, levels = coded(task, learn, calibrate)
    grid = learning_grid(learn, learn_codes, levels, task.per_group)
    best = int(objective_value(task.objective, grid.counts(), task.sign).argmax())
    thresholds = grid.thresholds[best : best + 1]
    at = Counts(levels, counts_at(thresholds, calibrate, codes, levels, task.per_group).table[0])
    clusters = None
    if calibrate.cluster is not None:
        clusters = clusters_at(task, thresholds[0], calibrate, learn, codes, levels)
    low, high = bounds(task.objective, sense_of(task.direction), at, alpha, clusters or lower_bound)
    bound = _outwards(low if task.sign > 0 else high, task.sign)
    promise = Constraint(task.objective, sense_of(task.direction), bound)
    certificate = certify(task.objective, (promise,), at, 1.0 - alpha, direction=task.direction, accepted=True,
                          lower=clusters or lower_bound)  # fmt: skip
    value = plain_value(task.objective, at, sense_of(task.direction))
    nobody, everybody = (task.sign * objective_value(task.objective, constant_counts(at), task.sign)).tolist()
    nearly, share = nearly_constant(at)
    beside = {"nobody": nobody, "everybody": everybody}
    better = task.sign * max(task.sign * nobody, task.sign * everybody)
    price = Price(value, value, beside.get(nearly, better) if math.isfinite(better) else None, nearly, None)
    rows = f"{len(calibrate)} independent calibration rows" if clusters is None else (
        f"{len(clusters.tables)} independent clusters ({len(calibrate)} rows)")  # fmt: skip
    sentence = (
        f"{price.warning(repr(task.objective), share)}{promise!r}: guaranteed at {100 * task.confidence:g}% confidence "
        f"by {rows}, at the threshold that is best on {len(learn)} others. It is {value:.4g} on these rows, "
        f"{nobody:.4g} for nobody and {everybody:.4g} for everybody."
    )
    own = [float(threshold) for threshold in thresholds[0]]
    guarantee = Guarantee(task.confidence, repr(promise), len(calibrate), len(learn), 1, sentence, price=price)
    by_label = {} if task.per_group is None else dict(zip(levels.of(task.per_group), own, strict=True))
    decision = Decision(float(np.mean(own)), task.per_group, by_label, True, "guarantee", certificate, guarantee)
    return task.sign * bound, decision


def _outwards(bound: float, sign: float) -> float:
    """Four digits, on the safe side."""
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - 3) if bound else 1.0
    return (math.floor(bound / unit) if sign > 0 else math.ceil(bound / unit)) * unit
