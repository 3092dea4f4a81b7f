"""Rates as expressions: ``recall >= 0.9``, ``fpr.on(sex=1) - fpr.on(sex=0) <= 0.02``, ``precision.worst("site")``.

A rate is a ratio of counts: the share of the denominator's cells that lie in the numerator's. Expressions are plain
immutable data; nothing is computed until they meet a `Counts` table. They print as the formula they stand for. Bounds
that no rate can reach are refused as they are written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ..checks import number
from ..errors import InputError
from .counts import FN, FP, TN, TP, Array, Counts, divided

ALL_CELLS = (TP, FP, FN, TN)
#: (attribute, label) pairs; the label is a number, or for the attribute "label" the name of a class.
Conditions = tuple[tuple[str, float | str], ...]
Terms = tuple[tuple[float, "Rate"], ...]


class Expression:
    """Anything that can stand on the left of ``>=``: a rate, a sum of rates, a gap or a worst group."""

    def __lt__(self, other: object) -> NoReturn:
        raise InputError("constraint", "a strict inequality", "<= or >=", "Rates are closed: write <= instead of <.")

    def __gt__(self, other: object) -> NoReturn:
        raise InputError("constraint", "a strict inequality", "<= or >=", "Rates are closed: write >= instead of >.")


class Sum(Expression):
    """What rates and linear combinations share: arithmetic, comparison and a value."""

    @property
    def terms(self) -> Terms:
        raise NotImplementedError

    @property
    def constant(self) -> float:
        return 0.0

    def __add__(self, other: Any) -> LinearSum:
        other = as_linear(other)
        return LinearSum(collect((*self.terms, *other.terms)), self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: Any) -> LinearSum:
        factor = number("factor", factor)
        return LinearSum(collect(tuple((factor * c, rate) for c, rate in self.terms)), factor * self.constant)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> LinearSum:
        if isinstance(divisor, Expression):
            raise InputError(
                "divisor",
                repr(divisor),
                "a number",
                "Write a bound on a ratio as a difference: a / b >= t is a - t * b >= 0.",
            )
        return self * (1.0 / number("divisor", divisor, above=0))

    def __neg__(self) -> LinearSum:
        return self * -1.0

    def __sub__(self, other: Any) -> LinearSum:
        return self + -as_linear(other)

    def __rsub__(self, other: Any) -> LinearSum:
        return as_linear(other) - self

    def __ge__(self, other: Any) -> Constraint:
        return compare(self, ">=", other)

    def __le__(self, other: Any) -> Constraint:
        return compare(self, "<=", other)

    def value(self, counts: Counts) -> Array:
        """Exact value on a table of counts, shape ``lead``; NaN where a denominator is empty."""
        total = counts.cells()[..., 0] * 0.0 + self.constant
        for coefficient, rate in self.terms:
            total = total + coefficient * rate.ratio(counts)
        return total


@dataclass(frozen=True)
class Rate(Sum):
    """``#numerator / #denominator`` among the examples that satisfy the conditions; a plain count without denominator.

    Args:
        name: What it is called in print.
        numerator: Cells (of tp, fp, fn, tn) that count.
        denominator: Cells they are a share of, a superset; empty for a count.
        conditions: ``(attribute, label)`` pairs that must all hold.

    Example:
        >>> from aimfor.rates import precision, recall
        >>> recall, recall - 0.5 * precision, recall.gap("sex")
        (recall, recall - 0.5*precision, gap(recall, sex))
    """

    name: str
    numerator: tuple[int, ...]
    denominator: tuple[int, ...]
    conditions: Conditions = ()

    def on(self, *flags: str, **labels: float | str) -> Rate:
        """The same rate among examples with these group labels: ``recall.on(sex=1)``, ``fpr.on("young")``.

        A bare name means a label of 1 (True), so any boolean mask passed as a group is a subset. ``label="fraud"``
        means the decisions about one class of several, against the rest (`decide_labels`).
        """
        wanted: list[tuple[str, float | str]] = [(flag, 1.0) for flag in flags]
        for attribute, label in labels.items():
            if attribute == "label" and isinstance(label, str):
                wanted.append((attribute, label))
            else:
                wanted.append((attribute, number(attribute, int(label) if isinstance(label, bool) else label)))
        if not wanted:
            raise InputError("on", "no group", "at least one group, e.g. recall.on(sex=1)")
        taken = {name for name, _ in self.conditions}
        for name, _ in wanted:
            if name in taken:
                raise InputError("on", f"{name!r} twice", f"each group once; {self!r} is already restricted by it")
            taken.add(name)
        return replace(self, conditions=(*self.conditions, *wanted))

    def gap(self, groups: str) -> Gap:
        """Largest minus smallest value over the labels of a group attribute."""
        return Gap(self, self._free(groups))

    def worst(self, groups: str) -> Worst:
        """The value of the group that is worst off: the smallest under ``>=``, the largest under ``<=``."""
        return Worst(self, self._free(groups))

    def _free(self, groups: str) -> str:
        if not isinstance(groups, str):
            raise InputError("groups", repr(groups), 'the name of a group attribute, e.g. "sex"')
        if groups in [name for name, _ in self.conditions]:
            raise InputError("groups", repr(groups), f"an attribute that {self!r} is not already restricted by")
        return groups

    @property
    def terms(self) -> Terms:
        return ((1.0, self),)

    @property
    def is_count(self) -> bool:
        return not self.denominator

    @property
    def fixed_denominator(self) -> bool:
        """Whether decisions leave the denominator alone, as they do for recall and not for precision."""
        return self.is_count or {
            TP + FN - cell if cell in (TP, FN) else FP + TN - cell for cell in self.denominator
        } == {*self.denominator}

    def successes(self, counts: Counts) -> Array:
        return np.asarray(counts.cells(self.conditions)[..., list(self.numerator)].sum(-1))

    def trials(self, counts: Counts) -> Array:
        """The denominator; for a count, all examples of the subset."""
        return np.asarray(counts.cells(self.conditions)[..., list(self.denominator or ALL_CELLS)].sum(-1))

    def ratio(self, counts: Counts) -> Array:
        return self.successes(counts) if self.is_count else divided(self.successes(counts), self.trials(counts))

    def __repr__(self) -> str:
        return self.name + describe(self.conditions)


@dataclass(frozen=True)
class LinearSum(Sum):
    """A linear combination of rates plus a constant."""

    parts: Terms
    offset: float = 0.0

    @property
    def terms(self) -> Terms:
        return self.parts

    @property
    def constant(self) -> float:
        return self.offset

    def __repr__(self) -> str:
        words = [("-" if c < 0 else "+", repr(r) if abs(c) == 1 else f"{abs(c):g}*{r!r}") for c, r in self.parts]
        if self.offset or not words:
            words.append(("-" if self.offset < 0 else "+", f"{abs(self.offset):g}"))
        text = " ".join(f"{sign} {word}" for sign, word in words)
        return text.removeprefix("+ ") if text.startswith("+ ") else "-" + text.removeprefix("- ")


@dataclass(frozen=True)
class Gap(Expression):
    """Largest minus smallest value of a rate over the labels of one attribute. Can only be bounded from above."""

    rate: Rate
    attribute: str

    def __le__(self, bound: Any) -> Constraint:
        most = {} if self.rate.is_count else {"at_most": 1.0}
        return Constraint(self, "<=", number(f"bound of {self!r}", bound, at_least=0, **most))

    def __ge__(self, bound: Any) -> NoReturn:
        raise InputError("constraint", f"{self!r} >= {bound!r}", f"{self!r} <= bound", "A gap is bounded from above.")

    def __repr__(self) -> str:
        return f"gap({self.rate!r}, {self.attribute})"


@dataclass(frozen=True)
class Worst(Expression):
    """The value of the worst-off group; as an objective, max-min or min-max over groups."""

    rate: Rate
    attribute: str

    def __ge__(self, bound: Any) -> Constraint:
        return Constraint(self, ">=", bound_of(self.rate, ">=", bound))

    def __le__(self, bound: Any) -> Constraint:
        return Constraint(self, "<=", bound_of(self.rate, "<=", bound))

    def __repr__(self) -> str:
        return f"worst({self.rate!r}, {self.attribute})"


@dataclass(frozen=True)
class Constraint:
    """``left sense bound``, with ``sense`` one of ``>=`` and ``<=``.

    Example:
        >>> from aimfor.rates import precision
        >>> (precision >= 0.9).bound, (precision >= 0.9).sense
        (0.9, '>=')
    """

    left: Expression
    sense: str
    bound: float

    def __bool__(self) -> NoReturn:
        raise InputError(
            "constraint",
            f"the truth value of ({self!r})",
            "a list of constraints",
            "Write a <= rate <= b as two constraints; a constraint has a value only on data.",
        )

    def __repr__(self) -> str:
        return f"{self.left!r} {self.sense} {self.bound:g}"


def describe(conditions: Conditions) -> str:
    words = [f"{name}={label if isinstance(label, str) else format(label, 'g')}" for name, label in conditions]
    return "[" + ", ".join(words) + "]" if words else ""


def as_linear(value: Any) -> LinearSum:
    if isinstance(value, LinearSum):
        return value
    if isinstance(value, Sum):
        return LinearSum(value.terms, value.constant)
    if isinstance(value, Expression):
        raise InputError("expression", repr(value), "a rate or a sum of rates", "A gap or worst group stands alone.")
    return LinearSum((), number("expression", value))


def collect(terms: Terms) -> Terms:
    """Equal rates summed, zero coefficients dropped, order kept."""
    total: dict[Rate, float] = {}
    for coefficient, rate in terms:
        total[rate] = total.get(rate, 0.0) + coefficient
    return tuple((c, rate) for rate, c in total.items() if c != 0.0)


def compare(left: Sum, sense: str, right: Any) -> Constraint:
    """``left sense right`` with all rates on the left and the number on the right."""
    if isinstance(left, Rate) and not isinstance(right, Expression):
        return Constraint(left, sense, bound_of(left, sense, right))
    moved = left - right
    if not moved.terms:
        raise InputError("constraint", f"{left!r} {sense} {right!r}", "an inequality that depends on a rate")
    bound = -moved.constant
    bare = LinearSum(moved.terms)
    check_reachable(bare, sense, bound)
    return Constraint(bare, sense, bound + 0.0)


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
