"""What is this column? Decided once, from all rows of the training table (never from its labels)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import InputError, nearest
from ...spelling import is_number
from .cells import Column
from .coders import MOST_LEVELS, override, spelled_apart, wordy
from .quantities import ISO, PLAIN, Style, best_format, best_style, parse, plain_numbers, read_dates, read_numbers

Kind = Literal["number", "boolean", "date", "category", "text", "ignore"]
#: Kinds a user may ask for; a date also with its format, ``date:%d/%m/%Y``.
REQUESTS = ("number", "category", "date", "text", "ignore")
#: Share of the cells that must read as numbers (or dates) for the rest to be taken as words for "unknown".
_MOSTLY = 0.9
_SAMPLE = 20_000
_ID_NAME = re.compile(r"(^|[_\s.-])(id|ids|uuid|guid|key|index|row|nr|no)$|^unnamed|(?<=[a-z])I[Dd]$", re.IGNORECASE)


@dataclass(frozen=True)
class Decision:
    """What a column is, how its cells are read, and what the user should know about that."""

    kind: Kind
    style: Style = PLAIN
    form: str = ISO
    words: bool = False
    exact: bool = False
    note: str = ""


@dataclass(frozen=True)
class _Cells:
    """The different texts of a column, commonest first, and how often each occurs."""

    name: str
    texts: list[str]
    counts: NDArray[np.int64]
    rows: int
    #: How many different texts there are; ``texts`` is cut off at the commonest.
    total: int

    @classmethod
    def of(cls, name: str, column: Column) -> _Cells:
        codes, texts = column.distinct()
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        order = np.argsort(-counts, kind="stable")[:_SAMPLE]
        return cls(name, [texts[i] for i in order], counts[order], len(column), len(texts))


def parse_requested(name: str, requested_type: str) -> tuple[str, str | None]:
    """``"date:%d/%m/%Y"`` as kind and format. Raises `InputError` for an unknown kind."""
    kind, _, form = requested_type.strip().partition(":")
    if kind not in REQUESTS or (form and kind != "date"):
        raise InputError(
            "column",
            f"{name}={requested_type}",
            f"one of {', '.join(REQUESTS)}, a date also with its format: date:%d/%m/%Y",
        )
    if form and "%" not in form:
        raise InputError("column", f"{name}={requested_type}", "a format such as %d/%m/%Y")
    return kind, form or None


def decide(name: str, column: Column, requested_type: str | None = None) -> Decision:
    """What the column is; ``requested_type`` decides where it is given.

    Raises:
        InputError: The request cannot be met: no cell reads as a number or a date.
    """
    if requested_type is not None:
        return _as_requested(name, column, *parse_requested(name, requested_type))
    if column.kind == "unread":
        return Decision("ignore", note=f"its type, {column.values.type}, is not read")
    if column.kind == "number":
        return _whole_numbers(name, column.values, Decision("number"))
    if column.kind == "time":
        return Decision("date")
    plain = plain_numbers(column)
    if plain is not None and not pc.any(pc.match_substring_regex(column.values, r"^0\d")).as_py():
        return _whole_numbers(name, plain, Decision("number"))
    cells = _Cells.of(name, column)
    if not cells.texts:
        return Decision("number")
    if {text.lower() for text in cells.texts} <= {"true", "false"}:
        return Decision("boolean")
    return _with_words(column, _codes(cells) or _numbers(cells) or _dates(cells) or _levels(cells))


def _with_words(column: Column, decision: Decision) -> Decision:
    """Whether any cell, however rare, is a word among numbers or dates."""
    if decision.kind == "number":
        return replace(decision, words=bool(read_numbers(column, decision.style)[1].any()))
    if decision.kind == "date":
        return replace(decision, words=bool(read_dates(column, decision.form)[1].any()))
    return decision


def _whole_numbers(name: str, values: NDArray[np.float64], decision: Decision) -> Decision:
    """Row numbers are left out; other ids are named."""
    n = len(values)
    if n < 50 or not np.isfinite(values).all() or (values != np.floor(values)).any() or len(np.unique(values)) < n:
        return decision
    if bool((np.diff(values) == 1).all()):
        return Decision("ignore", note=f"the rows numbered from {values[0]:g} (to use it: {override(name, 'number')})")
    if _ID_NAME.search(name) or np.ptp(values) < 2 * n:
        note = f"a different whole number in every row; if it is an id, leave it out with {override(name, 'ignore')}"
        return replace(decision, note=note)
    return decision


def _codes(cells: _Cells) -> Decision | None:
    """02139: digits with zeros in front are codes, as long as they are few enough to have an output each."""
    zeros = [text for text in cells.texts if re.fullmatch(r"0\d+", text, re.ASCII)]
    if not zeros or len(cells.texts) > MOST_LEVELS:
        return None
    if sum(text.isdigit() for text in cells.texts) < _MOSTLY * len(cells.texts):
        return None
    note = f"codes, because of {zeros[0]!r} (if they are numbers: {override(cells.name, 'number')})"
    return replace(_category(cells), note=note)


def _numbers(cells: _Cells, least: float = _MOSTLY) -> Decision | None:
    style, share, doubtful = best_style(cells.texts, cells.counts)
    if share < least:
        return None
    notes = []
    marked = [text for text in cells.texts if not is_number(text) and style.parse(text) is not None]
    if marked:
        sample = max(marked, key=lambda text: text.count(".") + text.count(","))  # it shows what the words say
        notes.append(f"{style.words} ({sample!r} is {style.parse(sample):.10g})")
    if doubtful:
        notes.append("the comma might also be a decimal comma")
    if share < 1:
        notes.append(_strays(cells, [text for text in cells.texts if style.parse(text) is None]))
    note = "; ".join(notes) + f" (to keep them as they are: {override(cells.name, 'category')})" if notes else ""
    return Decision("number", style=style, note=note)


def _strays(cells: _Cells, strange: list[str]) -> str:
    unread = set(strange)
    number = sum(int(count) for text, count in zip(cells.texts, cells.counts, strict=True) if text in unread)
    others = {1: "", 2: " and another word"}.get(len(strange), f" and {len(strange) - 1} other words")
    return f"{strange[0][:40]!r}{others} ({number} of {cells.rows} rows) read as missing"


def _dates(cells: _Cells, least: float = _MOSTLY) -> Decision | None:
    form, share, rival = best_format(cells.texts, cells.counts)
    if form is None or share < least:
        return None
    notes = [] if form == ISO else [f"dates, {form}"]
    if rival is not None:
        notes = [f"dates, read as {form}, though {rival} fits as well (then: {override(cells.name, f'date:{rival}')})"]
    if share < 1:
        notes.append(_strays(cells, [text for text in cells.texts if parse(text, form) is None]))
    return Decision("date", form=form, note="; ".join(notes))


def _levels(cells: _Cells) -> Decision:
    n, share = cells.total, best_style(cells.texts, cells.counts)[1]
    numbers = f"{share:.0%} of its values are numbers (to read them: {override(cells.name, 'number')})"
    if n <= 20 or n <= 0.5 * cells.rows:
        decision = _category(cells)
        return (
            replace(decision, note="; ".join([*filter(None, [decision.note]), numbers])) if share >= 0.5 else decision
        )
    if wordy(cells.texts[:1000]):
        return Decision("text", note="free text, its words counted in 128 places")
    once = n - int((cells.counts > 1).sum())
    if once <= 0.5 * cells.rows and share < 0.5:  # most rows share their level with another row, which can tell of it
        return _category(cells)
    use = numbers if share >= 0.5 else f"(to use it: {override(cells.name, 'text')})"
    return Decision("ignore", note=f"{n} different texts in {cells.rows} rows{'; ' if share >= 0.5 else ' '}{use}")


def _category(cells: _Cells) -> Decision:
    pair = spelled_apart(cells.texts)
    note = f"{pair[0]!r} and {pair[1]!r} are kept apart" if pair else ""
    return Decision("category", exact=pair is not None, note=note)


def _as_requested(name: str, column: Column, kind: str, form: str | None) -> Decision:
    if kind == "ignore":
        return Decision("ignore", note="as asked")
    if column.kind == "unread":
        wanted = "a column of numbers, text, dates or booleans"
        raise InputError("column", f"{name}={kind} for the type {column.values.type}", wanted)
    cells = _Cells.of(name, column)
    decision: Decision | None
    if kind == "text":
        return Decision("text")
    if kind == "category":
        return replace(_category(cells), note="")
    if kind == "number":
        decision = Decision("number") if column.kind == "number" else _numbers(cells, least=1e-9)
    elif column.kind == "time":
        decision = Decision("date")
    elif form is None:
        decision = _dates(cells, least=1e-9)
    else:
        readable = any(parse(text, form) is not None for text in cells.texts)
        decision = Decision("date", form=form) if readable else None
    if decision is None:
        sample = cells.texts[0] if cells.texts else "nothing"
        raise InputError("column", f"{name}={kind} for cells such as {sample[:40]!r}", f"cells that read as a {kind}")
    return replace(_with_words(column, decision), note="")


def check_requested(requested: dict[str, str], columns: list[str]) -> None:
    """Raises `InputError` for a request about a column that is not there."""
    for name, requested_type in requested.items():
        parse_requested(name, requested_type)
        if name not in columns:
            raise InputError("column", f"{name}={requested_type}", "a column of the table", nearest(name, columns))
