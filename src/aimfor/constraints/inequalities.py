"""Constraints taken apart into linear inequalities ``Σ cⱼ rⱼ + k >= 0``, and their gradient in the decisions.

With counts as the unknowns, a rate with a fixed denominator (recall, fpr, positive rate) is linear. A bound on a ratio
whose denominator moves with the decisions (precision) is linear after multiplication: ``TP/PP >= t`` becomes
``(TP − t·PP)/P >= 0``, exactly. Any other use of such a ratio (a gap in precision, precision as an objective) is
linearised at the current counts by the quotient rule, ``∂r = (∂num − r·∂den)/den``.

What examples a rate is measured on, and whether two rates can share one. And is the problem well posed? At construction
by types and intervals, on data by a linear program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from .counts import FN, FP, TN, TP, Array, Counts, Levels
from .expressions import ALL_CELLS, Constraint, Expression, Gap, LinearSum, Rate, Sum, Terms, Worst, collect

#: Predicted positives below this share of the data are treated as this many in the quotient rule.
SMALLEST_SHARE = 1e-3


@dataclass(frozen=True)
class Inequality:
    """One inequality ``Σ cⱼ rⱼ + constant >= 0``, known everywhere by its name."""

    name: str
    terms: Terms
    constant: float

    def margin(self, counts: Counts) -> Array:
        """The left side in the user's own units (how far the rate is inside its bound); NaN where undefined."""
        return LinearSum(self.terms, self.constant).value(counts)

    @property
    def bounded_ratio(self) -> Rate | None:
        """The rate, when this part bounds a single one with a moving denominator."""
        only = self.terms[0][1] if len(self.terms) == 1 else None
        return only if only is not None and not only.fixed_denominator else None

    def slack(self, counts: Counts) -> Array:
        """What the dual step sees: the margin, with a bounded ratio multiplied out and counts as shares."""
        rate = self.bounded_ratio
        if rate is None:
            return self.margin(counts) / self._scale(counts)
        (coefficient, _) = self.terms[0]
        left = coefficient * rate.successes(counts) + self.constant * rate.trials(counts)
        return np.asarray(left / _class_mass(rate, counts))

    def sensitivity(self, counts: Counts) -> Array:
        """∂slack / ∂(mass predicted positive) for each combination of labels and each class, ``(*sizes, 2)``."""
        rate = self.bounded_ratio
        if rate is None:
            return sum_sensitivity(self.terms, counts) / self._scale(counts)
        (coefficient, _) = self.terms[0]
        by_cell = [
            coefficient * (cell in rate.numerator) + self.constant * (cell in rate.denominator) for cell in range(4)
        ]
        return _spread(rate, counts, by_cell) / _safe(_class_mass(rate, counts))

    def _scale(self, counts: Counts) -> float:
        """Bounds on counts are in examples; their multipliers should not depend on how many there are."""
        return max(counts.total, 1.0) if any(rate.is_count for _, rate in self.terms) else 1.0


def inequalities_of(constraint: Constraint, levels: Levels) -> list[Inequality]:
    """The inequalities that together say the constraint, for the labels known so far."""
    left, bound = constraint.left, constraint.bound
    sign = 1.0 if constraint.sense == ">=" else -1.0
    if isinstance(left, Gap):
        groups = rates_by_group(left, levels)
        pairs = [(a, b) for a in groups for b in groups if a is not b]
        return [Inequality(f"{a!r} - {b!r} <= {bound:g}", ((-1.0, a), (1.0, b)), bound) for a, b in pairs]
    if isinstance(left, Worst):
        groups = rates_by_group(left, levels)
        return [Inequality(f"{r!r} {constraint.sense} {bound:g}", ((sign, r),), -sign * bound) for r in groups]
    assert isinstance(left, Sum)
    return [Inequality(repr(constraint), tuple((sign * c, r) for c, r in left.terms), sign * (left.constant - bound))]


def all_inequalities(constraints: Sequence[Constraint], levels: Levels) -> list[Inequality]:
    """The inequalities of all constraints together."""
    return [inequality for constraint in constraints for inequality in inequalities_of(constraint, levels)]


def rates_by_group(left: Gap | Worst, levels: Levels) -> list[Rate]:
    """The rate of each group, in the order of the labels known so far."""
    return [left.rate.on(**{left.attribute: label}) for label in levels.of(left.attribute)]


def objective_members(objective: Expression, levels: Levels) -> list[Rate]:
    """The rates a worst-group objective is over; none for an ordinary one."""
    return rates_by_group(objective, levels) if isinstance(objective, Worst) else []


def sum_sensitivity(terms: Terms, counts: Counts) -> Array:
    """∂(Σ cⱼ rⱼ) / ∂(mass predicted positive), ``(*sizes, 2)``; the last axis is the class, 0 then 1."""
    return np.asarray(np.sum([c * rate_sensitivity(rate, counts) for c, rate in terms], 0))


def rate_sensitivity(rate: Rate, counts: Counts) -> Array:
    inside = [float(cell in rate.numerator) for cell in range(4)]
    if rate.is_count:
        return _spread(rate, counts, inside)
    trials = rate.trials(counts)
    if not rate.fixed_denominator:
        value = float(rate.ratio(counts))
        value = value if math.isfinite(value) else 0.0
        inside = [hit - value * (cell in rate.denominator) for cell, hit in enumerate(inside)]
        trials = np.maximum(trials, SMALLEST_SHARE * counts.total)
    return _spread(rate, counts, inside) / _safe(trials)


def _spread(rate: Rate, counts: Counts, by_cell: list[float]) -> Array:
    """A decision moves mass from fn to tp (class 1) or from tn to fp (class 0)."""
    change = np.array([by_cell[FP] - by_cell[TN], by_cell[TP] - by_cell[FN]])
    return np.asarray(counts.mask(rate.conditions)[..., None] * change)


def _class_mass(rate: Rate, counts: Counts) -> Array:
    """Examples of the classes that the numerator draws from: the positives, for precision."""
    cells = {cell for hit in rate.numerator for cell in ((TP, FN) if hit in (TP, FN) else (FP, TN))}
    return _safe(counts.cells(rate.conditions)[..., sorted(cells)].sum(-1))


def _safe(mass: Array) -> Array:
    """An empty group has nothing to divide; its sensitivity is multiplied by no example."""
    return np.where(mass > 0, mass, 1.0)


def rows_of(rate: Rate) -> tuple[int, ...]:
    """Cells of the examples that a rate is measured on; all of them for a count."""
    return tuple(sorted(rate.denominator or ALL_CELLS))


def disjoint(rate: Rate, other: Rate) -> bool:
    """Whether no example can be in both denominators."""
    apart = any(a == b and x != y for a, x in rate.conditions for b, y in other.conditions)
    return apart or not set(rows_of(rate)) & set(rows_of(other))


def checked_objective(objective: Any) -> Expression:
    if isinstance(objective, (Sum, Worst)) and (isinstance(objective, Worst) or objective.terms):
        return objective
    remedy = "Bound a gap in subject_to instead." if isinstance(objective, Gap) else _parsed(objective)
    raise InputError("objective", repr(objective), "a rate, a sum of rates or rate.worst(...)", remedy)


def checked_constraints(subject_to: Any) -> tuple[Constraint, ...]:
    given = (subject_to,) if isinstance(subject_to, (Constraint, str)) else tuple(subject_to)
    for constraint in given:
        if not isinstance(constraint, Constraint):
            raise InputError(
                "subject_to", repr(constraint), "constraints such as precision >= 0.9", _parsed(constraint)
            )
    refuse_contradictions(given)
    return given


def _parsed(given: object) -> str:
    """Text, as problems print themselves, is one call away from an expression."""
    return f"Text is read by aimfor.constraints.parse({given!r})." if isinstance(given, str) else ""


def is_difference(left: Expression) -> bool:
    """Whether a bound on this couples several rates."""
    return isinstance(left, Gap) or (isinstance(left, Sum) and len(left.terms) > 1)


def attributes_of(objective: Expression, constraints: Sequence[Constraint]) -> tuple[str, ...]:
    """Every group attribute that the problem names, in alphabetical order."""
    names: set[str] = set()
    for expression in (objective, *(constraint.left for constraint in constraints)):
        if isinstance(expression, (Gap, Worst)):
            names.add(expression.attribute)
            names.update(name for name, _ in expression.rate.conditions)
        elif isinstance(expression, Sum):
            names.update(name for _, rate in expression.terms for name, _ in rate.conditions)
    return tuple(sorted(names))


def refuse_contradictions(constraints: Sequence[Constraint]) -> None:
    """Raises when two constraints bound the same expression from both sides with nothing left between.

    Complements are one expression: ``fnr >= 0.3`` with ``recall >= 0.9`` is found, as is any multiple.
    """
    lower: dict[object, tuple[float, Constraint]] = {}
    upper: dict[object, tuple[float, Constraint]] = {}
    names: set[str] = set()
    for constraint in constraints:
        if repr(constraint) in names:
            raise InputError("subject_to", f"{constraint!r} twice", "each constraint once")
        names.add(repr(constraint))
        key, bound, sense = _canonical(constraint)
        side = lower if sense == ">=" else upper
        better = key not in side or (bound > side[key][0] if sense == ">=" else bound < side[key][0])
        if better:
            side[key] = (bound, constraint)
    for key in (key for key in lower if key in upper):
        (low, first), (high, second) = lower[key], upper[key]
        if low > high + 1e-12:
            raise InputError(
                "subject_to",
                f"{first!r} and {second!r}",
                "constraints that can hold together",
                "No decisions satisfy both; loosen or drop one.",
            )


def _canonical(constraint: Constraint) -> tuple[object, float, str]:
    """The left side with complements written the same way and the first coefficient 1, and the bound to match."""
    left, bound, sense = constraint.left, constraint.bound, constraint.sense
    if not isinstance(left, Sum):
        return left, bound, sense
    terms, constant = [], left.constant
    for coefficient, rate in left.terms:
        flipped = _complement(rate)
        if flipped is not None:
            terms.append((-coefficient, flipped))
            constant += coefficient
        else:
            terms.append((coefficient, rate))
    merged = sorted(collect(tuple(terms)), key=lambda term: repr(term[1]))
    if not merged:
        return None, 0.0, sense
    scale = merged[0][0]
    key = tuple((round(c / scale, 12), rate.numerator, rate.denominator, rate.conditions) for c, rate in merged)
    turned = {">=": "<=", "<=": ">="}[sense] if scale < 0 else sense
    return key, (bound - constant) / scale, turned


def _complement(rate: Rate) -> Rate | None:
    """``1 − rate`` as the rate with the smaller numerator written first; None for the one that is kept."""
    rest = tuple(sorted(set(rate.denominator) - set(rate.numerator)))
    if rate.is_count or tuple(sorted(rate.numerator)) <= rest:
        return None
    return Rate(f"1-{rate.name}", rest, rate.denominator, rate.conditions)


def culprits(constraints: Sequence[Constraint], counts: Counts) -> set[Constraint]:
    """A smallest set of constraints that no decisions satisfy together on these data; empty if all can hold.

    Any decisions are true and false positive counts between 0 and the size of the class, in each combination of
    labels; constraints are linear in them, so this is a linear program, solved by HiGHS.
    """
    usable = [c for c in constraints if all(_is_linear(inequality) for inequality in inequalities_of(c, counts.levels))]
    easy = (counts, *(counts.decided(*shares) for shares in ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0))))
    if any(all(_holds(constraint, case) for constraint in usable) for case in easy) or _satisfiable(usable, counts):
        return set()
    for constraint in list(usable):  # drop whatever is not needed for the contradiction
        rest = [other for other in usable if other is not constraint]
        if not _satisfiable(rest, counts):
            usable = rest
    return set(usable)


def _is_linear(inequality: Inequality) -> bool:
    return inequality.bounded_ratio is not None or all(rate.fixed_denominator for _, rate in inequality.terms)


def _holds(constraint: Constraint, counts: Counts) -> bool:
    return all(float(inequality.slack(counts)) >= 0 for inequality in inequalities_of(constraint, counts.levels))


def _satisfiable(constraints: Sequence[Constraint], counts: Counts) -> bool:
    from scipy.optimize import linprog  # a tenth of a second: only where it is asked

    sizes = counts.class_masses().reshape(-1).tolist()
    none_predicted = counts.decided(0.0, 0.0)
    rows, right = [], []
    for constraint in constraints:
        for inequality in inequalities_of(constraint, counts.levels):
            base = float(inequality.slack(none_predicted))
            if base == base:  # a group without examples constrains nothing
                rows.append((-inequality.sensitivity(none_predicted)).reshape(-1).tolist())
                right.append(base)
    if not rows:
        return True
    solved = linprog([0.0] * len(sizes), A_ub=rows, b_ub=right, bounds=[(0.0, size) for size in sizes], method="highs")
    return bool(solved.status != 2)
