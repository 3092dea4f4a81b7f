"""The encoder of a table in ONNX: one named input a column, one float32 matrix out, bit for bit as in `predict`.

Numbers and truth values come as float64, missing ones as NaN. Dates come as int64, microseconds since 1970 in UTC,
missing ones as the smallest int64 (numpy's own "not a time"). Categories come as text.
"""

from __future__ import annotations

import re

import numpy as np

from ..data.columns import TableEncoder
from ..data.columns.coders import MISSING as ABSENT
from ..data.columns.coders import UNSEEN, Category, Coder, override
from ..data.columns.quantities import LARGEST, Date, Number, Scale
from ..errors import InputError
from ..spelling import MISSING, is_number, iso_time
from .graph import DOUBLE, FLOAT, INT64, STRING, Graph

NOT_A_TIME = np.iinfo(np.int64).min
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
#: As `is_number`, within what float64 holds: onnxruntime fails on 1e999. Beyond that a text is only equal to itself.
_NUMBER = r"[+-]?(\d{1,99}\.?\d{0,99}|\.\d{1,99})([eE][+-]?0*\d{1,2})?"
#: Whole numbers of more than 15 digits are names, not amounts.
_LONG = r"[+-]?0*[1-9][0-9]{15,}"
#: The outputs' names; a column called so gets another input name.
TAKEN = ("probability", "decision")


def input_name(column: str) -> str:
    """The column's own name, unless an output or an inner value is called so."""
    return f"column {column}" if column in TAKEN or column.startswith("/") else column


def what_it_takes(coder: Coder) -> str:
    """In words, for the file's metadata and for who feeds it."""
    if isinstance(coder, Number):
        return "float64, NaN where missing" + ("; true is 1, false is 0" if coder.kind == "boolean" else "")
    if isinstance(coder, Date):
        return f"int64, microseconds since 1970-01-01 UTC, {NOT_A_TIME} where missing"
    return "string, empty where missing"


def encoded(g: Graph, encoder: TableEncoder) -> str:
    """Adds an input for every column; returns the ``(n, d)`` float32 matrix.

    Raises:
        InputError: A column of free text, whose hashed words ONNX has no operators for.
    """
    columns: list[str] = []
    for coder in encoder.columns:
        if isinstance(coder, Number):
            values = g.input(input_name(coder.name), DOUBLE, ["rows"])
            there = g("Not", g("Or", g("IsNaN", values), g("IsInf", values)))
            columns.append(_scaled(g, values, there, coder.scale))
        elif isinstance(coder, Date):
            moments = g.input(input_name(coder.name), INT64, ["rows"])
            there = g("Not", g("Equal", moments, NOT_A_TIME))
            calendar = _calendar(g, g("Where", there, moments, 0))
            columns += [_scaled(g, calendar[number.name], there, number.scale) for number in coder.numbers]
        elif isinstance(coder, Category):
            columns.append(_category(g, coder))
        else:
            raise _refused(coder, " of free text", "numbers, truth values, dates and categories")
        if isinstance(coder, Number | Date) and coder.missing:
            columns.append(g.column(g.cast(g("Not", there), FLOAT)))
    return g("Concat", *columns, axis=1)


def _refused(coder: Coder, came: str, expected: str) -> InputError:
    remedy = f"Train without it: {override(coder.name, 'ignore')}."
    return InputError("--onnx", f"the column {coder.name!r}{came}", expected, remedy)


def _scaled(g: Graph, values: str, there: str, scale: Scale) -> str:
    filled = g("Where", there, values, scale.fill)
    moved = g("Div", g("Sub", filled, scale.mean), scale.scale)
    return g.column(g.cast(g.bounded(moved, LARGEST), FLOAT))


def _calendar(g: Graph, moments: str) -> dict[str, str]:
    """The numbers of `dates.calendar`, float64.

    Years are counted from the first of March, so that the leap day is the last of its year; 146,097 days are the 400
    years after which the calendar repeats.
    """
    rest = g("Mod", moments, _DAY)  # never negative, so what is left divides without rounding
    days = g("Div", g("Sub", moments, rest), _DAY)
    era = g("Mod", g("Add", days, 719_468), 146_097)
    leaps = g("Add", g("Sub", g("Div", era, 36_524), g("Div", era, 1_460)), g("Mul", g("Div", era, 146_096), -1))
    year = g("Div", g("Add", era, leaps), 365)
    before = g("Add", g("Mul", year, 365), g("Sub", g("Div", year, 4), g("Div", year, 100)))
    of_year = g("Sub", era, before)
    month = g("Div", g("Add", g("Mul", of_year, 5), 2), 153)
    day = g("Add", g("Sub", of_year, g("Div", g("Add", g("Mul", month, 153), 2), 5)), 1)
    whole = {
        "month": g("Add", g("Mod", g("Add", month, 2), 12), 1),
        "day": day,
        "weekday": g("Mod", g("Add", days, 3), 7),
    }
    return {
        **{name: g.cast(value, DOUBLE) for name, value in whole.items()},
        "days": g("Div", g.cast(moments, DOUBLE), float(_DAY)),
        "hour": g("Div", g.cast(rest, DOUBLE), float(_HOUR)),
    }


def _category(g: Graph, coder: Category) -> str:
    """One output for each level and one for all others; a missing value is none of them."""
    text = g.input(input_name(coder.name), STRING, ["rows"])
    missing = g("RegexFullMatch", text, pattern="(?:" + "|".join(re.escape(word) for word in MISSING) + ")")
    levels, there = coder.levels, g.column(g.cast(g("Not", missing), FLOAT))
    if coder.numbered:
        if coder.rare is None:
            raise _refused(coder, ", whose levels are too many to keep and are hashed", "columns of fewer levels")
        levels = (*levels, *coder.rare)
    if not levels:
        return there
    equal = g("Equal", g.column(text), g.texts(levels, (1, len(levels))))
    if not coder.exact:
        equal = g("Or", equal, _same_number(g, text, levels))
        equal = _same_otherwise(g, text, levels, equal)
    every = g("Mul", g.cast(equal, FLOAT), there)
    frequent = every
    if coder.numbered:
        frequent = g("Slice", every, np.array([0]), np.array([len(coder.levels)]), np.array([1]))
    other = g("Sub", there, g("ReduceMax", frequent, np.array([1]), keepdims=1))
    if not coder.numbered:
        return g("Concat", frequent, other, axis=1)
    index = g.cast(g("ArgMax", every, axis=1, keepdims=1), FLOAT)
    new = g("Where", g("Greater", there, np.float32(0.0)), np.float32(UNSEEN), np.float32(ABSENT))
    number = g("Where", g("Greater", g("ReduceMax", every, np.array([1]), keepdims=1), np.float32(0.0)), index, new)
    return g("Concat", frequent, other, number, axis=1)


def _same_number(g: Graph, text: str, levels: tuple[str, ...]) -> str:
    """``2139``, ``02139`` and ``2139.0`` are one level. ``(n, levels)`` of truth values."""
    short = g("Not", g("RegexFullMatch", text, pattern=_LONG))
    number = g("And", g("RegexFullMatch", text, pattern=_NUMBER), short)
    value = g.cast(g("Where", number, text, g.texts(["nan"], ())), DOUBLE)
    amounts = [float(level) if _is_amount(level) else np.nan for level in levels]
    return g("Equal", g.column(value), np.array([amounts]))


def _is_amount(level: str) -> bool:
    return is_number(level) and re.fullmatch(_NUMBER, level) is not None and re.fullmatch(_LONG, level) is None


def _same_otherwise(g: Graph, text: str, levels: tuple[str, ...], equal: str) -> str:
    """Truth values in any case, and moments in any of their lengths (without a zone, or in UTC)."""
    for index, pattern in enumerate(map(_spellings, levels)):
        if pattern is not None:
            here = np.arange(len(levels))[None] == index
            equal = g("Or", equal, g("And", g.column(g("RegexFullMatch", text, pattern=pattern)), here))
    return equal


def _spellings(level: str) -> str | None:
    if level in ("true", "false"):
        return f"(?i){level}"
    if iso_time(level) is None:
        return None
    day, _, clock = level.partition("T")
    hours, minutes, seconds = (clock or "00:00:00").split(":")
    whole, _, fraction = seconds.partition(".")
    tail = rf"\.{fraction}0*" if fraction else r"(\.0+)?"
    seconds = f":{whole}{tail}" if fraction or whole != "00" else f"(:{whole}{tail})?"
    written = rf"[T ]{hours}:{minutes}{seconds}(Z|[+-]00:00)?"
    return day + (written if clock else f"({written})?")
