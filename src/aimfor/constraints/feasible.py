"""Is the problem well posed? At construction by types and intervals, on data by a linear program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .counts import Counts
from .expressions import Constraint, Expression, Gap, Rate, Sum, Worst, collect
from .parts import Part, parts_of


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
    for key in (one for one in lower if one in upper):
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
    usable = [c for c in constraints if all(_is_linear(part) for part in parts_of(c, counts.levels))]
    easy = (counts, *(counts.decided(*who) for who in ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0))))
    if any(all(_holds(constraint, one) for constraint in usable) for one in easy) or _satisfiable(usable, counts):
        return set()
    for constraint in list(usable):  # drop whatever is not needed for the contradiction
        rest = [other for other in usable if other is not constraint]
        if not _satisfiable(rest, counts):
            usable = rest
    return set(usable)


def _is_linear(part: Part) -> bool:
    return part.bounded_ratio is not None or all(rate.fixed_denominator for _, rate in part.terms)


def _holds(constraint: Constraint, counts: Counts) -> bool:
    return all(float(part.slack(counts)) >= 0 for part in parts_of(constraint, counts.levels))


def _satisfiable(constraints: Sequence[Constraint], counts: Counts) -> bool:
    from scipy.optimize import linprog  # a tenth of a second: only where it is asked

    sizes = counts.class_masses().reshape(-1).tolist()
    none_predicted = counts.decided(0.0, 0.0)
    rows, right = [], []
    for constraint in constraints:
        for part in parts_of(constraint, counts.levels):
            base = float(part.slack(none_predicted))
            if base == base:  # a group without examples constrains nothing
                rows.append((-part.sensitivity(none_predicted)).reshape(-1).tolist())
                right.append(base)
    if not rows:
        return True
    solved = linprog([0.0] * len(sizes), A_ub=rows, b_ub=right, bounds=[(0.0, size) for size in sizes], method="highs")
    return bool(solved.status != 2)
