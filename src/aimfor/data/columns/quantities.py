"""Numbers and dates: how cells are read as either, and how a measured value is scaled.

Numbers come with decimal commas, thousands separators, percent and currency signs, and words in between. Of a date the
moment is a number of days, and month, day, weekday and hour stand beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from ...spelling import iso_time, utc
from .cells import Column
from .coders import Coder, Matrix, Remarks, Strict, unreadable

Floats = NDArray[np.float64]
Moments = NDArray[np.datetime64]
#: Far beyond any sensible value, and still finite in float32.
LARGEST = 1e30


class Scale(Strict):
    """Zero mean and unit deviation on training rows; the median where a value is missing."""

    fill: float
    mean: float
    scale: float
    low: float
    high: float

    @classmethod
    def fit(cls, values: Floats) -> Scale:
        """From the finite values among ``(n,)``, of which there must be one.

        Where a few wild values stretch the deviation so far that float32 could not tell the others apart, the middle
        half of the values sets the scale.
        """
        finite = np.isfinite(values)
        low, quarter, middle, three, high = np.quantile(values[finite], [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
        filled = np.where(finite, values, middle)
        size = max(abs(low), abs(high), 1e-300)  # squares of the values themselves may overflow
        mean, scale = float((filled / size).mean()) * size, float((filled / size).std()) * size
        if 0 < three - quarter < 1e-3 * scale:
            mean, scale = middle, three - quarter
        return cls(fill=middle, mean=mean, scale=scale if scale > 1e-290 else 1.0, low=low, high=high)

    @property
    def constant(self) -> bool:
        return self.low == self.high

    def ordinary(self, values: Floats) -> bool:
        """Whether no value is missing, `far` or beyond float32: told by the two ends, without a pass each."""
        if not len(values):
            return False
        ends = np.array([values.min(), values.max()])
        if not np.isfinite(ends).all() or self.far(ends).any():
            return False
        with np.errstate(over="ignore"):
            return bool((np.abs((ends - self.mean) / self.scale) <= LARGEST).all())

    def apply(self, values: Floats) -> Matrix:
        finite = np.isfinite(values)
        with np.errstate(over="ignore"):
            scaled = (values if finite.all() else np.where(finite, values, self.fill)) - self.mean
            scaled /= self.scale
        return np.clip(scaled, -LARGEST, LARGEST, out=scaled).astype(np.float32)

    def far(self, values: Floats) -> NDArray[np.bool_]:
        """True beyond the training range by more than that range again."""
        width = self.high / 2 - self.low / 2  # halves: the difference itself may overflow
        return np.isfinite(values) & (np.abs(values / 2 - (self.high / 4 + self.low / 4)) > 1.5 * width)


_CURRENCY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)"
_MARKED = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-]?) ?{_CURRENCY}? ?(?P<inner>[+-]?)(?P<body>[\d.,' ]*\d[.,]?(?:[eE][+-]?\d+)?)"
    rf" ?{_CURRENCY}? ?(?P<percent>%?)(?P<close>\))?",
    re.ASCII,
)
_SAME = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'", "−": "-"})
_TRUTH = {"true": 1.0, "false": 0.0}


class Style(Strict):
    """Which mark stands before the fraction, and which one between thousands."""

    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""

    def parse(self, text: str) -> float | None:
        """The number that a cell holds, or None. Percentages are hundredths; ``(5)`` is an accountant's -5."""
        match = _MARKED.fullmatch(text.translate(_SAME))
        if match is None or bool(match["open"]) != bool(match["close"]) or (match["sign"] and match["inner"]):
            return None
        body = match["body"]
        if not _pattern(self.decimal, self.thousands).fullmatch(body):
            return None
        if self.thousands:
            body = body.replace(self.thousands, "")
        value = float(body.replace(",", "."))
        negative = "-" in (match["sign"], match["inner"]) or bool(match["open"])
        return (-value if negative else value) / (100.0 if match["percent"] else 1.0)

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
    shares = {style: _share(style.parse, texts, counts) for style in STYLES}
    best = max(STYLES, key=lambda style: shares[style])  # the first of equals
    grouped = Style(thousands=",")
    if best == Style(decimal=",") and shares[grouped] == shares[best]:
        return grouped, shares[best], True  # 1,234 and the like throughout
    return best, shares[best], False


def _share(parse: Callable[[str], Any], texts: list[str], counts: NDArray[np.int64]) -> float:
    """Of the cells, those that can be read."""
    readable = np.array([parse(text) is not None for text in texts], dtype=bool)
    return float(counts[readable].sum() / counts.sum())


def plain_numbers(column: Column) -> Floats | None:
    """Values ``(n,)`` of a text column whose every cell is missing or a finite number without any marks, else None.

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
    values = np.array([*(np.nan if value is None else value for value in parsed), np.nan])[codes]
    return values, np.array([*(value is None for value in parsed), False], dtype=bool)[codes]


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
        if column.kind == "number" and self.scale.ordinary(column.values):  # what `encode` gives, without its copies
            np.divide(column.values - self.scale.mean, self.scale.scale, out=out[:, 0])
            out[:, 1:] = 0.0  # nothing is missing
        else:
            super().encode_into(column, remarks, out)

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
    name: str, values: Floats, style: Style, words: bool, kind: Literal["number", "boolean"]
) -> Number | str:
    """From training values; a sentence instead when they cannot help."""
    finite = np.isfinite(values)
    if not finite.any():
        return "no value at all"
    scale, missing = Scale.fit(values), not bool(finite.all())
    if scale.constant and not missing:
        return f"constant ({scale.low:g})"
    return Number(name=name, kind=kind, style=style, scale=scale, missing=missing, words=words)


#: Not a pattern for strptime: ISO dates and times in all their lengths, with or without a zone.
ISO = "iso"
_DATES = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%y", "%m/%d/%y",
    "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y",
    "%b %d %Y", "%B %d %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M:%S", " %H:%M", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", " %H:%M:%S.%f")
FORMATS = (ISO, *(day + time for day, time in product(_DATES, _TIMES)), "%H:%M", "%H:%M:%S")


def parse(text: str, form: str) -> np.datetime64 | None:
    """The moment that a cell names, or None."""
    if form == ISO:
        return iso_time(text)
    try:
        return np.datetime64(utc(datetime.strptime(text, form)), "us")
    except ValueError:
        return None


def best_format(texts: list[str], counts: NDArray[np.int64]) -> tuple[str | None, float, str | None]:
    """The format that reads most cells, the share it reads, and another one that reads as many, if there is one."""
    few = texts[:: max(1, len(texts) // 20)][:20]
    if sum(sum(c.isdigit() for c in text) >= 3 for text in few) < 0.7 * len(few):
        return None, 0.0, None
    tried = [form for form in FORMATS if sum(parse(text, form) is not None for text in few) >= 0.6 * len(few)]
    if not tried:
        return None, 0.0, None
    shares = {form: _share(partial(parse, form=form), texts, counts) for form in tried}
    best = max(tried, key=lambda form: shares[form])
    return best, shares[best], next((form for form in tried if form != best and shares[form] == shares[best]), None)


def read_dates(column: Column, form: str) -> tuple[Moments, NDArray[np.bool_]]:
    """Moments ``(n,)``, NaT where missing or unreadable, and a mask of the unreadable."""
    if column.kind == "time":
        return column.values, np.zeros(len(column), dtype=bool)
    codes, texts = column.distinct()
    parsed: list[Any] = [parse(text, form) for text in texts]
    if not form.startswith(("%Y-", ISO)):  # a typed time in a column of mixed cells is written as ISO
        parsed = [iso_time(text) if moment is None else moment for moment, text in zip(parsed, texts, strict=True)]
    moments = np.array([np.datetime64("NaT") if moment is None else moment for moment in [*parsed, None]], "M8[us]")
    return moments[codes], np.array([*(moment is None for moment in parsed), False], dtype=bool)[codes]


def calendar(moments: Moments) -> dict[str, Floats]:
    """Numbers ``(n,)`` a model can use, NaN where missing: days since 1970, month, day, weekday (Monday 0), hour."""
    days, months = moments.astype("M8[D]"), moments.astype("M8[M]")
    since = (moments - np.datetime64(0, "us")) / np.timedelta64(1, "D")
    present = ~np.isnat(moments)
    return {
        "days": since,
        "month": np.where(present, months.astype(np.int64) % 12 + 1.0, np.nan),
        "day": (days - months.astype("M8[D]")) / np.timedelta64(1, "D") + 1.0,
        "weekday": np.where(present, (days.astype(np.int64) + 3) % 7 + 0.0, np.nan),
        "hour": (moments - days) / np.timedelta64(1, "h"),
    }


class DatePart(Strict):
    """One number taken from the date."""

    name: Literal["days", "month", "day", "weekday", "hour"]
    scale: Scale


class Date(Coder):
    """A moment; with one more output where values were missing in training."""

    kind: Literal["date"] = "date"
    format: str
    numbers: tuple[DatePart, ...] = Field(alias="found")
    missing: bool
    #: Whether training rows had words among the dates; then words are missing values, else they are refused.
    words: bool = False

    @property
    def parts(self) -> list[str]:
        return [*(number.name for number in self.numbers), *(["missing"] if self.missing else [])]

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        moments, strange = read_dates(column, self.format)
        if strange.any():
            sample = column.take(np.flatnonzero(strange)[:1]).texts()[0]
            if not self.words:
                raise unreadable(self.name, sample, f"dates ({self.format})")
            remarks.add(self.name, int(strange.sum()), len(column), "hold no date, read as missing", sample)
        values = calendar(moments)
        outputs = []
        for number in self.numbers:
            far = number.scale.far(values[number.name])
            if number.name == "days" and far.any():
                remarks.add(self.name, int(far.sum()), len(column), "are far from the training dates", moments[far][0])
            outputs.append(number.scale.apply(values[number.name]))
        if self.missing:
            outputs.append(np.isnat(moments).astype(np.float32))
        return np.stack(outputs, axis=1)


def fit_date(name: str, moments: Moments, form: str, words: bool) -> Date | str:
    """From training moments; a sentence instead when they cannot help."""
    absent = np.isnat(moments)
    if absent.all():
        return "no date at all"
    scales = {title: Scale.fit(values) for title, values in calendar(moments).items()}
    numbers = tuple(DatePart(name=title, scale=scale) for title, scale in scales.items() if not scale.constant)  # type: ignore[arg-type]
    if not numbers and not absent.any():
        return f"constant ({moments[0]})"
    return Date(name=name, format=form, found=numbers, missing=bool(absent.any()), words=words)
