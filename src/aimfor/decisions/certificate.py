"""The certificate: what can be said about each constraint from the data given, at a stated confidence.

Each constraint is held against confidence bounds on its left side. Over m constraints the error is shared equally
(Bonferroni), so that all verdicts "met" hold together at the confidence, and so do all verdicts "missed".

Every rate is a binomial share (precision: given the predicted positives), so its bounds are Clopper–Pearson's, exact
for independent examples that took no part in training or in the choice of the threshold. A weighted sum of two rates
of disjoint examples, such as a difference between groups, has an exact bound of its own (`binomial`); any other sum of
K rates takes each at 1/K of the error (union bound). The largest of several gaps is bounded by the largest bound, which
costs nothing extra: only the pair that attains it has to be covered.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from ..checks import number
from ..constraints.counts import Counts
from ..constraints.expressions import Constraint, Expression, Gap, LinearSum, Rate, Sum, Worst, as_linear
from ..constraints.inequalities import culprits, disjoint, rates_by_group
from .binomial import contrast_lower, lower_bound, wilson_bound
from .clusters import Clusters

#: More data than this many times what was given is reported as "more than".
MOST_TIMES_MORE = 1024.0


class Verdict(StrEnum):
    """What the data say about one constraint.

    Example:
        >>> from aimfor.rates import Verdict
        >>> [verdict.name for verdict in Verdict]
        ['met', 'missed', 'undecided', 'infeasible']
    """

    met = "met"
    missed = "missed"
    undecided = "undecided"
    infeasible = "infeasible"


@dataclass(frozen=True)
class Finding:
    """One constraint on the data given.

    Attributes:
        constraint: As printed.
        value: The left side on these data; NaN where a rate has no examples to be measured on.
        bound: The right side.
        slack: How far the value is inside the bound; negative outside.
        low: Lower confidence bound on the true left side.
        high: Upper confidence bound.
        verdict: met, missed, undecided or infeasible.
        examples: Smallest number of examples that any rate of the constraint was measured on.
        more: About how many more examples like these would decide it; None where that has no answer.
        note: What to know or do next.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import precision, recall
        >>> problem = aimfor.maximize(recall, subject_to=[precision >= 0.5])
        >>> (finding,) = problem.certificate(torch.arange(40.0) - 20, torch.arange(40) >= 20).findings
        >>> finding.constraint, finding.value, round(finding.low, 3)
        ('precision >= 0.5', 1.0, 0.854)
    """

    constraint: str
    value: float
    bound: float
    slack: float
    low: float
    high: float
    verdict: Verdict
    examples: int
    more: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Certificate:
    """Findings on all constraints of a problem. Prints as text; `to_dict` and `to_json` for programs.

    Example:
        >>> import torch, aimfor
        >>> from aimfor.rates import precision, recall
        >>> problem = aimfor.maximize(recall, subject_to=[precision >= 0.5])
        >>> certificate = problem.certificate(torch.arange(40.0) - 20, torch.arange(40) >= 20)
        >>> [finding.verdict.name for finding in certificate.findings]
        ['met']
    """

    objective: str
    objective_value: float
    confidence: float
    examples: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst single verdict; met when there are no constraints."""
        order = [Verdict.met, Verdict.undecided, Verdict.missed, Verdict.infeasible]
        return max((finding.verdict for finding in self.findings), key=order.index, default=Verdict.met)

    @property
    def met(self) -> bool:
        """Whether every constraint is met, together at the stated confidence."""
        return self.verdict is Verdict.met

    def to_dict(self) -> dict[str, Any]:
        """Plain data; NaN as None, so that it is JSON everywhere."""
        plain = asdict(self) | {"verdict": self.verdict.value}
        plain["findings"] = [asdict(f) | {"verdict": f.verdict.value} for f in self.findings]
        return _without_nan(plain)  # type: ignore[no-any-return]

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        lines = [
            f"{self.verdict.value}: {self.objective} = {self.objective_value:.4f} on {self.examples} examples, "
            f"{self.confidence:.0%} confidence over all constraints together"
        ]
        for f in self.findings:
            lines.append(
                f"  {f.verdict.value:<10} {f.constraint}   value {f.value:.4f}, slack {f.slack:+.4f}, "
                f"confidence bounds [{f.low:.4f}, {f.high:.4f}]"
            )
            if f.note:
                lines.append(f"  {'':<10} {f.note}")
        return "\n".join(lines)


def certify(
    objective: Expression,
    constraints: Sequence[Constraint],
    counts: Counts,
    confidence: float = 0.95,
    *,
    direction: str = "maximize",
    accepted: bool = False,
    lower: Lower = lower_bound,
) -> Certificate:
    """Verdicts on all constraints from a table of unweighted counts.

    ``direction`` says which group of an objective ``rate.worst(...)`` is the worst.

    With ``accepted``, tests have accepted all constraints at once. That claim is false only if one of them is, so each
    was tested at the full error (an intersection–union test): the verdicts are "met" and each bound is at the full
    error. ``lower`` is what bounds a single rate.
    """
    confidence = number("confidence", confidence, above=0.5, below=1)
    alpha = (1.0 - confidence) / (1 if accepted else max(len(constraints), 1))
    impossible = set() if accepted else culprits(constraints, counts)
    findings = tuple(_finding(c, counts, alpha, c in impossible, lower) for c in constraints)
    if accepted:
        findings = tuple(replace(f, verdict=Verdict.met, more=None, note="") for f in findings)
    value = plain_value(objective, counts, sense_of(direction))
    return Certificate(repr(objective), value, confidence, round(counts.total), findings)


def _finding(constraint: Constraint, counts: Counts, alpha: float, impossible: bool, lower: Lower) -> Finding:
    left, bound, sense = constraint.left, constraint.bound, constraint.sense
    value = plain_value(left, counts, sense)
    low, high = bounds(left, sense, counts, alpha, lower)
    slack = value - bound if sense == ">=" else bound - value
    verdict = Verdict.infeasible if impossible else _decide(sense, bound, low, high)
    rates = rates_of(left, counts)
    trials = {repr(rate): float(rate.trials(counts)) for rate in rates}
    more, note = None, ""
    empty = [name for name, n in trials.items() if n == 0]
    if impossible:
        note = "no decisions at all satisfy these constraints together on these data: loosen or drop one"
    elif not rates:
        verdict, note = Verdict.undecided, "no example carries a label of this group"
    elif empty:
        note = f"nothing to measure {', '.join(empty)} on: the data hold no example of its denominator"
    elif verdict is Verdict.undecided and isinstance(lower, Clusters):
        note = f"too little data: {len(lower.tables)} clusters do not decide it"
    elif verdict is Verdict.undecided:
        more = _more(constraint, counts, alpha, value, lower)
        note = "too close to the bound for any amount of data within reach to decide; leave a margin"
        if more is not None:
            note = f"too little data: about {more} more examples like these {round(counts.total)} would decide it"
    elif verdict is Verdict.missed:
        note = "choose another threshold with decide(), or train further"
    smallest = round(min(trials.values(), default=0.0))
    return Finding(repr(constraint), value, bound, slack, low, high, verdict, smallest, more, note)


def _decide(sense: str, bound: float, low: float, high: float) -> Verdict:
    if sense == "<=":
        low, high, bound = -high, -low, -bound
    if low >= bound:
        return Verdict.met
    return Verdict.missed if high < bound else Verdict.undecided


def _more(constraint: Constraint, counts: Counts, alpha: float, value: float, lower: Lower) -> int | None:
    """Examples to add, all rates staying as they are, until the verdict falls; None where it never would."""
    if any(rate.is_count for rate in rates_of(constraint.left, counts)) or value == constraint.bound:
        return None
    if isinstance(lower, Clusters):
        return None

    # Wilson's bound stands in for the exact one, unless it would decide already: the answer is a forecast, and the
    # exact one is slow for millions. Any other bound is asked itself: a confidence sequence needs far more rows.
    if lower is lower_bound and not _decided_with(constraint, counts, alpha, wilson_bound):
        lower = wilson_bound
    short, times = 1.0, 2.0
    while times <= MOST_TIMES_MORE and not _decided_with(constraint, counts.times(times), alpha, lower):
        short, times = times, 2.0 * times
    if times > MOST_TIMES_MORE:
        return None
    for _ in range(7):
        middle = 0.5 * (short + times)
        enough = _decided_with(constraint, counts.times(middle), alpha, lower)
        short, times = (short, middle) if enough else (middle, times)
    return max(math.ceil((times - 1.0) * counts.total), 1)


def _decided_with(constraint: Constraint, counts: Counts, alpha: float, lower: Lower) -> bool:
    low, high = bounds(constraint.left, constraint.sense, counts, alpha, lower)
    return _decide(constraint.sense, constraint.bound, low, high) is not Verdict.undecided


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


#: A lower confidence bound from (successes, trials, alpha); or clusters, which bound a rate themselves.
Lower = Callable[[float, float, float], float] | Clusters


def plain_value(left: Expression, counts: Counts, sense: str = ">=") -> float:
    """Value of any expression as a float; a gap or a worst group over the groups that can be measured."""
    if isinstance(left, Sum):
        return float(left.value(counts))
    assert isinstance(left, (Gap, Worst))
    values = [float(rate.value(counts)) for rate in rates_by_group(left, counts.levels)]
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return math.nan
    if isinstance(left, Gap):
        return max(values) - min(values)
    return min(values) if sense == ">=" else max(values)


def sense_of(direction: str) -> str:
    """How an objective would be bounded: from below where it is maximised, from above where it is minimised."""
    return ">=" if direction == "maximize" else "<="


def bounds(
    left: Expression, sense: str, counts: Counts, alpha: float, lower: Lower = lower_bound
) -> tuple[float, float]:
    """Confidence bounds on the true left side, each wrong with probability at most ``alpha``."""
    if isinstance(left, Sum):
        return _sum_bounds(left, counts, alpha, lower)
    assert isinstance(left, (Gap, Worst))
    members = rates_by_group(left, counts.levels)
    if not members:
        return 0.0, 1.0
    # The bound that a verdict "met" rests on only has to cover the one pair or group that attains the extreme;
    # the other side has to hold for all of them at once.
    if isinstance(left, Gap):
        missed = [_rate_bounds(rate, counts, alpha / (2 * len(members)), lower) for rate in members]
        low = max(a[0] - b[1] for a in missed for b in missed)
        if not _has_contrast(lower):
            met = [_rate_bounds(rate, counts, alpha / 2, lower) for rate in members]
            return max(low, 0.0), max((a[1] - b[0] for a in met for b in met if a is not b), default=0.0)
        return max(low, 0.0), _gap_upper([b - a for a in members for b in members if a is not b], counts, alpha, lower)
    each = [_rate_bounds(rate, counts, alpha, lower) for rate in members]
    all_ = [_rate_bounds(rate, counts, alpha / len(members), lower) for rate in members]
    if sense == ">=":
        return min(b[0] for b in each), min(b[1] for b in all_)
    return max(b[0] for b in all_), max(b[1] for b in each)


def _gap_upper(negated: Sequence[LinearSum], counts: Counts, alpha: float, lower: Lower) -> float:
    """Upper bound on the largest difference, from its negatives; pairs that cannot be the largest are passed over."""
    rough = {id(pair): -_contrast(pair, counts, alpha / 2, wilson_bound) for pair in negated}
    highest = 0.0
    for pair in sorted(negated, key=lambda other: -rough[id(other)]):
        if highest == 0.0 or rough[id(pair)] > highest:
            highest = max(highest, -_contrast(pair, counts, alpha, lower))
    return highest


def _sum_bounds(left: Sum, counts: Counts, alpha: float, lower: Lower) -> tuple[float, float]:
    """Each end wrong with probability at most ``alpha``."""
    if _has_contrast(lower) and len(left.terms) == 2 and disjoint(*(rate for _, rate in left.terms)):
        low, negated = (_contrast(side, counts, alpha, lower) for side in (as_linear(left), -left))
        return low, -negated
    low = high = left.constant
    for coefficient, rate in left.terms:
        ends = [coefficient * end for end in _rate_bounds(rate, counts, alpha / len(left.terms), lower)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _has_contrast(lower: Lower) -> bool:
    """Whether a bound of this kind exists for two rates together; others are for one rate at a time."""
    return lower in (lower_bound, wilson_bound)


def _contrast(left: LinearSum, counts: Counts, alpha: float, lower: Lower) -> float:
    """Lower bound on a weighted sum of two rates of disjoint examples; a negative weight turns a rate over."""
    sides, constant = [], left.constant
    for coefficient, rate in left.terms:
        k, n = float(rate.successes(counts)), float(rate.trials(counts))
        weight = coefficient * (n if rate.is_count else 1.0)
        if weight < 0:
            k, constant = n - k, constant + weight
        sides.append((k, n, abs(weight)))
    (k1, n1, a1), (k2, n2, a2) = sides
    return constant + contrast_lower(k1, n1, k2, n2, (a1, a2), alpha, exact=lower is lower_bound)


def _rate_bounds(rate: Rate, counts: Counts, alpha: float, lower: Lower) -> tuple[float, float]:
    if isinstance(lower, Clusters):
        return lower.bounds(rate, alpha)
    successes, trials = float(rate.successes(counts)), float(rate.trials(counts))
    unit = trials if rate.is_count else 1.0
    return unit * lower(successes, trials, alpha), unit * (1.0 - lower(trials - successes, trials, alpha))


def rates_of(left: Expression, counts: Counts) -> list[Rate]:
    return [rate for _, rate in left.terms] if isinstance(left, Sum) else rates_by_group(left, counts.levels)  # type: ignore[arg-type]
