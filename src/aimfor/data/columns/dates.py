"""Dates and times of day: the moment as a number of days, and the month, day, weekday and hour beside it."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...spelling import iso_time, utc
from .cells import Column
from .kinds import Coder, Floats, Matrix, Remarks, Scale, Strict, unreadable

#: Not a pattern for strptime: ISO dates and times in all their lengths, with or without a zone.
ISO = "iso"
_DATES = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%y", "%m/%d/%y",
    "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y",
    "%b %d %Y", "%B %d %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M:%S", " %H:%M", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", " %H:%M:%S.%f")
FORMATS = (ISO, *(day + time for day, time in product(_DATES, _TIMES)), "%H:%M", "%H:%M:%S")
Moments = NDArray[np.datetime64]


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
    shares = {form: _share(form, texts, counts) for form in tried}
    if not shares:
        return None, 0.0, None
    best = max(tried, key=lambda form: shares[form])
    rivals = [form for form in tried if form != best and shares[form] == shares[best]]
    return best, shares[best], rivals[0] if rivals else None


def _share(form: str, texts: list[str], counts: NDArray[np.int64]) -> float:
    read = np.array([parse(text, form) is not None for text in texts], dtype=bool)
    return float(counts[read].sum() / counts.sum())


def read_dates(column: Column, form: str) -> tuple[Moments, NDArray[np.bool_]]:
    """Moments ``(n,)``, NaT where missing or unreadable, and a mask of the unreadable."""
    if column.kind == "time":
        return column.values, np.zeros(len(column), dtype=bool)
    codes, texts = column.distinct()
    parsed: list[Any] = [parse(text, form) for text in texts]
    if not form.startswith(("%Y-", ISO)):  # a typed time in a column of mixed cells is written as ISO
        parsed = [iso_time(text) if one is None else one for one, text in zip(parsed, texts, strict=True)]
    moments = np.array([np.datetime64("NaT") if one is None else one for one in [*parsed, None]], dtype="M8[us]")
    return moments[codes], np.array([*(one is None for one in parsed), False], dtype=bool)[codes]


def calendar(moments: Moments) -> dict[str, Floats]:
    """Numbers ``(n,)`` a model can use, NaN where missing: days since 1970, month, day, weekday (Monday 0), hour."""
    days, months = moments.astype("M8[D]"), moments.astype("M8[M]")
    since = (moments - np.datetime64(0, "us")) / np.timedelta64(1, "D")
    known = ~np.isnat(moments)
    return {
        "days": since,
        "month": np.where(known, months.astype(np.int64) % 12 + 1.0, np.nan),
        "day": (days - months.astype("M8[D]")) / np.timedelta64(1, "D") + 1.0,
        "weekday": np.where(known, (days.astype(np.int64) + 3) % 7 + 0.0, np.nan),
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
    found: tuple[DatePart, ...]
    missing: bool
    #: Whether training rows had words among the dates; then words are missing values, else they are refused.
    words: bool = False

    @property
    def parts(self) -> list[str]:
        return [*(part.name for part in self.found), *(["missing"] if self.missing else [])]

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        moments, strange = read_dates(column, self.format)
        if strange.any():
            sample = column.take(np.flatnonzero(strange)[:1]).texts()[0]
            if not self.words:
                raise unreadable(self.name, sample, f"dates ({self.format})")
            remarks.add(self.name, int(strange.sum()), len(column), "hold no date, read as missing", sample)
        values = calendar(moments)
        for part in self.found:
            far = part.scale.far(values[part.name]) if part.name == "days" else np.zeros(len(column), dtype=bool)
            if far.any():
                remarks.add(self.name, int(far.sum()), len(column), "are far from the training dates", moments[far][0])
        parts = [part.scale.apply(values[part.name]) for part in self.found]
        if self.missing:
            parts.append(np.isnat(moments).astype(np.float32))
        return np.stack(parts, axis=1)


def fit_date(name: str, moments: Moments, form: str, words: bool) -> Date | str:
    """From training moments; a sentence instead when they cannot help."""
    known = ~np.isnat(moments)
    if not known.any():
        return "no date at all"
    scales = {part: Scale.fit(values) for part, values in calendar(moments).items()}
    found = tuple(DatePart(name=part, scale=scale) for part, scale in scales.items() if not scale.constant)  # type: ignore[arg-type]
    missing = not bool(known.all())
    if not found and not missing:
        return f"constant ({moments[0]})"
    return Date(name=name, format=form, found=found, missing=missing, words=words)
