"""Numbers, also with decimal commas, thousands separators, percent and currency signs, and words in between."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .cells import Column
from .kinds import Coder, Floats, Matrix, Remarks, Scale, Strict, unreadable

_CURRENCY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)"
_DRESSED = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-]?) ?{_CURRENCY}? ?(?P<inner>[+-]?)(?P<body>[\d.,' ]*\d[.,]?(?:[eE][+-]?\d+)?)"
    rf" ?{_CURRENCY}? ?(?P<percent>%?)(?P<close>\))?",
    re.ASCII,
)
_ALIKE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "−": "-"})
_TRUTH = {"true": 1.0, "false": 0.0}


class Style(Strict):
    """Which mark stands before the fraction, and which one between thousands."""

    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""

    def parse(self, text: str) -> float | None:
        """The number that a cell holds, or None. Percentages are hundredths; ``(5)`` is an accountant's -5."""
        found = _DRESSED.fullmatch(text.translate(_ALIKE))
        if found is None or bool(found["open"]) != bool(found["close"]) or (found["sign"] and found["inner"]):
            return None
        body = found["body"]
        if not _pattern(self.decimal, self.thousands).fullmatch(body):
            return None
        if self.thousands:
            body = body.replace(self.thousands, "")
        value = float(body.replace(",", "."))
        negative = "-" in (found["sign"], found["inner"]) or bool(found["open"])
        return (-value if negative else value) / (100.0 if found["percent"] else 1.0)

    @property
    def words(self) -> str:
        text = "numbers with a decimal comma" if self.decimal == "," else "numbers"
        marks = {"": "", " ": "spaces", "'": "apostrophes", ",": "commas", ".": "points"}[self.thousands]
        joined = "and" if self.decimal == "," else "with"
        return f"{text} {joined} {marks} between thousands" if marks else text


@lru_cache(maxsize=16)
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    point = re.escape(decimal)
    grouped = rf"|[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+(?:{point}\d*)?" if thousands else ""
    return re.compile(rf"(?:\d+{point}?\d*|{point}\d+)(?:[eE][+-]?\d+)?{grouped}", re.ASCII)


PLAIN = Style()
STYLES = (
    PLAIN, Style(decimal=","), Style(thousands=","), Style(decimal=",", thousands="."), Style(thousands=" "),
    Style(decimal=",", thousands=" "), Style(thousands="'"), Style(decimal=",", thousands="'"),
)  # fmt: skip


def best_style(texts: list[str], counts: NDArray[np.int64]) -> tuple[Style, float, bool]:
    """The style that reads most cells, the share it reads, and whether another one would read them otherwise."""
    shares = {style: _share(style, texts, counts) for style in STYLES}
    best = max(STYLES, key=lambda style: shares[style])  # the first of equals
    grouped = Style(thousands=",")
    if best == Style(decimal=",") and shares[grouped] == shares[best]:
        return grouped, shares[best], True  # 1,234 and the like throughout
    return best, shares[best], False


def _share(style: Style, texts: list[str], counts: NDArray[np.int64]) -> float:
    read = np.array([style.parse(text) is not None for text in texts], dtype=bool)
    return float(counts[read].sum() / counts.sum())


def plain_numbers(column: Column) -> Floats | None:
    """Values ``(n,)`` of a text column in which every known cell is a finite number without any marks, else None.

    The common case, in which Arrow reads all cells at once; it rounds as Python does.
    """
    if column.kind != "text":
        return None
    try:
        values = np.array(column.values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:
        return None
    return values if bool((np.isfinite(values) | column.missing).all()) else None


def read_numbers(column: Column, style: Style) -> tuple[Floats, NDArray[np.bool_]]:
    """Values ``(n,)``, NaN where missing or unreadable, and a mask of the unreadable."""
    if column.kind == "number":
        return column.values, np.zeros(len(column), dtype=bool)
    plain = plain_numbers(column) if style == PLAIN else None
    if plain is not None:
        return plain, np.zeros(len(column), dtype=bool)
    codes, texts = column.distinct()
    parsed = [_TRUTH.get(text.lower(), style.parse(text)) if column.kind == "text" else None for text in texts]
    values = np.array([np.nan if one is None else one for one in [*parsed, np.nan]])[codes]
    strange = np.array([*(one is None for one in parsed), False], dtype=bool)[codes]
    return values, strange


class Number(Coder):
    """A measured number, or a truth value as 0 and 1; with a second output where values were missing in training."""

    kind: Literal["number", "boolean"] = "number"
    style: Style = PLAIN
    scale: Scale
    missing: bool
    #: Whether training rows had words among the numbers; then words are missing values, else they are refused.
    words: bool = False

    @property
    def parts(self) -> list[str]:
        return ["", "missing"] if self.missing else [""]

    def encode_into(self, column: Column, remarks: Remarks, out: Matrix) -> None:
        if column.kind != "number" or not self.scale.ordinary(column.values):
            super().encode_into(column, remarks, out)
            return
        self.scale.write(column.values, out[:, 0])
        out[:, 1:] = 0.0  # nothing is missing

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        values, strange = read_numbers(column, self.style)
        if strange.any():
            sample = column.take(np.flatnonzero(strange)[:1]).texts()[0]
            if not self.words:
                remedy = "" if self.style == PLAIN else f"The column was learned as {self.style.words}."
                raise unreadable(self.name, sample, "numbers", remedy)
            remarks.add(self.name, int(strange.sum()), len(column), "hold words, read as missing", sample)
        far = self.scale.far(values)
        if far.any():
            bounds = f"{self.scale.low:g} to {self.scale.high:g}"
            remarks.add(self.name, int(far.sum()), len(column), f"are far outside {bounds}", f"{values[far][0]:g}")
        scaled = self.scale.apply(values)
        return np.stack((scaled, ~np.isfinite(values)), axis=1) if self.missing else scaled[:, None]


def fit_number(
    name: str, values: Floats, style: Style, words: bool, kind: Literal["number", "boolean"] = "number"
) -> Number | str:
    """From training values; a sentence instead when they cannot help."""
    known = np.isfinite(values)
    if not known.any():
        return "no value at all"
    scale, missing = Scale.fit(values), not bool(known.all())
    if scale.constant and not missing:
        return f"constant ({scale.low:g})"
    return Number(name=name, kind=kind, style=style, scale=scale, missing=missing, words=words)
