"""Bounds that the left side of a constraint can reach; others are refused as they are written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..checks import number
from ..errors import InputError

if TYPE_CHECKING:
    from .expressions import Constraint, Expression, LinearSum, Rate


def bound_of(rate: Rate, sense: str, bound: Any) -> float:
    name = f"bound of {rate!r} {sense}"
    if not rate.is_count and isinstance(bound, int | float) and 1.0 < bound <= 100.0:
        remedy = f"Write {bound / 100:g}, or {bound:g}% in words."
        raise InputError(name, f"{bound:g}", "a share between 0 and 1", remedy)
    return number(name, bound, at_least=0) if rate.is_count else number(name, bound, at_least=0, at_most=1)


def check_reachable(left: LinearSum, sense: str, bound: float) -> None:
    """Refuses what no values of the rates in [0, 1] can satisfy."""
    if any(rate.is_count for _, rate in left.terms):
        return
    highest = sum(c for c, _ in left.terms if c > 0)
    lowest = sum(c for c, _ in left.terms if c < 0)
    if (sense == ">=" and bound > highest) or (sense == "<=" and bound < lowest):
        raise InputError(
            "constraint",
            f"{left!r} {sense} {bound:g}",
            f"a bound that the left side can reach; it lies in [{lowest:g}, {highest:g}]",
        )


def refuse_ends(constraints: Sequence[Constraint], argument: str = "subject_to") -> None:
    """Refuses shares of 0 and 1: every decision keeps such a bound, or no number of rows can show that it is kept.

    For promises alone: training may aim at them.
    """
    from .expressions import Gap, Sum, Worst

    for constraint in constraints:
        left, bound, floor = constraint.left, constraint.bound, constraint.sense == ">="
        if isinstance(left, Gap | Worst):
            terms = ((1.0, left.rate),)
        elif isinstance(left, Sum) and len(left.terms) == 1:
            terms = left.terms
        else:
            continue
        ((coefficient, rate),) = terms
        if rate.is_count or bound / coefficient not in (0.0, 1.0):
            continue
        empty = (bound / coefficient == 0.0) == (floor == (coefficient > 0))
        why = "Every decision keeps it: leave it out." if empty else "No number of rows can show that it is kept."
        raise InputError(argument, repr(constraint), "a bound between 0 and 1", why)


def refuse_constant(objective: Expression, argument: str = "subject_to") -> None:
    """Refuses a rate that only rises, or only falls, with the threshold: alone, a constant answer is its best."""
    from .counts import FN, FP, TN, TP
    from .expressions import Rate

    if not isinstance(objective, Rate):
        return
    flagged, others = {TP, FP}, {FN, TN}
    moves = flagged & set(objective.denominator) and others & set(objective.denominator)
    one_sided = set(objective.numerator) <= flagged or set(objective.numerator) <= others
    if one_sided and (moves or objective.is_count):
        raise InputError(
            argument, f"nothing beside {objective!r}", "at least one constraint, or a sum that weighs both errors",
            'Alone, nobody or everybody is best. E.g. "precision >= 0.9", or the objective "5*fnr + fpr".',
        )  # fmt: skip
