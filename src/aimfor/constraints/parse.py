"""Expressions as text: ``parse("gap(fpr, sex) <= 0.05")`` is what ``fpr.gap("sex") <= 0.05`` is in Python.

Both spellings are read, the printed one (``recall[sex=1] - recall[sex=0] >= -0.1``, ``worst(precision, site) >= 0.8``)
and Python's (``recall.on(sex=1)``, ``fpr.gap("sex")``). Percentages are numbers: ``positive_rate <= 2%``. Errors point
at the word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import InputError, nearest
from . import named
from .expressions import Constraint, Expression, Gap, Rate, Worst

_RATES = """recall tpr fnr fpr tnr precision npv positive_rate accuracy error_rate tp fp fn tn predicted_positives"""
NAMES: dict[str, Rate] = {name: getattr(named, name) for name in _RATES.split()}
METHODS = ("on", "gap", "worst")
#: Turns a group label that is a word into its number: (attribute, word) → number.
LabelOf = Callable[[str, str], float]
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?%?|\.\d+%?)|(?P<name>[^\W\d]\w*)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<mark>>=|<=|≥|≤|[-+*/()\[\],.=<>]))"
)


def parse(text: str, label_of: LabelOf | None = None) -> Constraint | Expression:
    """A constraint where the text holds ``<=`` or ``>=``, else the expression itself.

    Args:
        text: Such as ``"precision >= 0.9"``, ``"recall - 0.5*fpr"``.
        label_of: For group labels that are words; without it they have to be numbers.

    Raises:
        InputError: With the word that was not understood, its position, and the nearest known name.

    Example:
        >>> from aimfor.rates import parse
        >>> parse("gap(fpr, sex) <= 5%"), parse("recall[sex=1] >= recall[sex=0] - 0.1")
        (gap(fpr, sex) <= 0.05, recall[sex=1] - recall[sex=0] >= -0.1)
    """
    if not isinstance(text, str):
        raise InputError("expression", repr(text), "text such as 'precision >= 0.9'")
    return _Parser(text, label_of).whole()


def parse_constraint(text: str, label_of: LabelOf | None = None) -> Constraint:
    """As `parse`, for a position where only a constraint will do."""
    parsed = parse(text, label_of)
    if not isinstance(parsed, Constraint):
        raise InputError("constraint", repr(text), "an inequality such as 'precision >= 0.9'")
    return parsed


def parse_objective(text: str, label_of: LabelOf | None = None) -> Expression:
    """As `parse`, for a position where only a value will do."""
    parsed = parse(text, label_of)
    if not isinstance(parsed, Expression):
        raise InputError("objective", repr(text), "a rate or a sum of rates, without an inequality")
    return parsed


class _Parser:
    """Recursive descent over the words, each kept with its position."""

    def __init__(self, text: str, label_of: LabelOf | None) -> None:
        self.text, self.label_of = text, label_of
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                self._fail(text[start], start, "rates, numbers and + - * / ( ) <= >=")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self.tokens.append(("end", "the end", len(text)))
        self.at = 0

    def whole(self) -> Constraint | Expression:
        left = self._sum()
        mark = self._peek()[1]
        if mark in ("<", ">", "=", "=="):
            self._fail(
                mark,
                self._peek()[2],
                "<= or >=",
                f"Rates are closed: write {'>=' if mark == '>' else '<='} instead of {mark}.",
            )
        if mark not in (">=", "<=", "≥", "≤"):
            self._expect_end("<= or >= and a bound")
            return left if isinstance(left, Expression) else self._fail(self.text, 0, "an expression with a rate")
        self.at += 1
        right = self._sum()
        self._expect_end("the end of the constraint")
        if not isinstance(left, Expression):  # 0.9 <= precision
            left, right, mark = right, left, {"<=": ">=", ">=": "<=", "≤": ">=", "≥": "<="}[mark]
        if not isinstance(left, Expression):
            self._fail(self.text, 0, "an inequality that depends on a rate")
        constraint: Constraint = left >= right if mark in (">=", "≥") else left <= right
        return constraint

    def _sum(self) -> Any:
        total = self._product()
        while self._peek()[1] in ("+", "-"):
            sign = self._take()[1]
            term = self._product()
            total = total + term if sign == "+" else total - term
        return total

    def _product(self) -> Any:
        if self._peek()[1] == "-":
            self.at += 1
            return -self._product()
        value = self._atom()
        while self._peek()[1] in ("*", "/"):
            _, mark, position = self._take()
            other = self._atom()
            if isinstance(value, Expression) and isinstance(other, Expression):
                self._fail(mark, position, "a number beside it", "Rates are added and scaled, not multiplied.")
            value = value * other if mark == "*" else value / other
        return value

    def _atom(self) -> Any:
        kind, word, position = self._take()
        if kind == "number":
            return float(word[:-1]) / 100.0 if word.endswith("%") else float(word)
        if word == "(":
            inner = self._sum()
            self._need(")")
            return inner
        if kind != "name":
            self._fail(word, position, "a rate or a number")
        if word in ("gap", "worst"):
            return self._over_groups(word)
        if word not in NAMES:
            self._fail(word, position, "a rate", nearest(word, [*NAMES, "gap", "worst"]))
        return self._restricted(NAMES[word])

    def _over_groups(self, kind: str) -> Gap | Worst:
        self._need("(")
        rate = self._atom()
        if not isinstance(rate, Rate):
            self._fail(self.text, 0, f"{kind}(rate, group)")
        self._need(",")
        attribute = self._name("the name of a group")
        self._need(")")
        return rate.gap(attribute) if kind == "gap" else rate.worst(attribute)

    def _restricted(self, rate: Rate) -> Rate | Gap | Worst:
        """``[sex=1]``, ``.on(sex=1)``, ``.gap("sex")`` and ``.worst("sex")`` after a rate."""
        if self._peek()[1] == "[":
            self.at += 1
            return self._restricted(rate.on(**self._labels("]")))
        if self._peek()[1] != ".":
            return rate
        self.at += 1
        _, method, position = self._take()
        if method not in METHODS:
            self._fail(method, position, "on, gap or worst", nearest(method, METHODS))
        self._need("(")
        if method == "on":
            return self._restricted(rate.on(**self._labels(")")))
        attribute = self._name("the name of a group")
        self._need(")")
        return rate.gap(attribute) if method == "gap" else rate.worst(attribute)

    def _labels(self, closing: str) -> dict[str, float | str]:
        labels: dict[str, float | str] = {}
        while True:
            attribute = self._name("the name of a group")
            if self._peek()[1] == "=":
                self.at += 1
                labels[attribute] = self._label(attribute)
            else:
                labels[attribute] = 1.0
            _, mark, position = self._take()
            if mark == closing:
                return labels
            if mark != ",":
                self._fail(mark, position, f"{closing!r} or ','")

    def _label(self, attribute: str) -> float | str:
        kind, word, position = self._take()
        sign = 1.0
        if word == "-":
            sign, (kind, word, position) = -1.0, self._take()
        if kind == "number" and self.label_of is None:
            return sign * float(word)
        if kind not in ("number", "name", "text"):
            self._fail(word, position, "a label of the group")
        if self.label_of is None and attribute == "label":  # the name of a class: see `decide_labels`
            return word.strip("\"'")
        if self.label_of is None:
            self._fail(word, position, "a number as the label of a group")
        return self.label_of(attribute, ("-" if sign < 0 else "") + word.strip("\"'"))

    def _name(self, expected: str) -> str:
        kind, word, position = self._take()
        if kind not in ("name", "text"):
            self._fail(word, position, expected)
        return word.strip("\"'")

    def _peek(self) -> tuple[str, str, int]:
        return self.tokens[self.at]

    def _take(self) -> tuple[str, str, int]:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def _need(self, mark: str) -> None:
        _, word, position = self._take()
        if word != mark:
            self._fail(word, position, repr(mark))

    def _expect_end(self, expected: str) -> None:
        kind, word, position = self._peek()
        if kind != "end":
            self._fail(word, position, expected)

    def _fail(self, word: str, position: int, expected: str, remedy: str = "") -> NoReturn:
        raise InputError("expression", f"{word!r} at character {position + 1} of {self.text!r}", expected, remedy)
