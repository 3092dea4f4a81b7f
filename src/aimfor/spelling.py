"""One value has one spelling, whatever file it came from: words for "missing", numbers, truth values and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np

MISSING = (
    "", "?", "-", "--", ".", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "-nan", "NAN", "null", "NULL", "Null",
    "None", "none", "NONE", "<NA>", "NaT", "nil",
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CODE = re.compile(r"[+-]?0\d")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?", re.ASCII)


#: Characters that no cell keeps: a terminal obeys some of them. Tabs and line ends stay.
CONTROL = r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]"


def without_control(text: str) -> str:
    """The text as it can be printed anywhere.

    Example:
        >>> without_control("\x1b[31mred\x07")
        '[31mred'
    """
    return re.sub(CONTROL, "", text)


def number_text(value: float) -> str:
    """A number as a person writes it: 1.0 is ``"1"``."""
    whole = np.isfinite(value) and abs(value) < 1e22 and value == int(value)
    return str(int(value)) if whole else repr(float(value))


def time_text(value: Any) -> str:
    """ISO, with the time of day only where there is one."""
    if value == np.datetime64(value, "D"):
        return str(np.datetime64(value, "D"))
    text = str(np.datetime64(value, "us"))
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_number(text: str) -> bool:
    """Whether the text is a number without any marks."""
    return _NUMBER.fullmatch(text) is not None


def canonical(text: str) -> str:
    """One spelling for one value: ``"02139"``, ``"2139"`` and ``"2139.0"`` agree, so do ``"True"`` and ``"true"``."""
    if is_number(text):
        digits = text.lstrip("+-0")
        return text if len(digits) > 15 and digits.isdigit() else number_text(float(text))
    if text.lower() in ("true", "false"):
        return text.lower()
    time = iso_time(text)
    return text if time is None else time_text(time)


def iso_time(text: str) -> np.datetime64 | None:
    """``2024-05-01``, ``2024-05-01 10:00``, ``2024-05-01T10:00:00+02:00``: the moment (in UTC where it has a zone)."""
    if not _ISO.fullmatch(text):
        return None
    try:
        return np.datetime64(utc(datetime.fromisoformat(text)), "us")
    except ValueError:
        return None


def utc(moment: datetime) -> datetime:
    """Without its zone, which is UTC then; a moment without one stays as it is."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def tidy_labels(texts: list[str]) -> list[str]:
    """One spelling for one label: ``1.0`` and ``1`` are one, ``01`` is another."""
    return [canonical(text) if is_number(text) and not _CODE.match(text) else text for text in texts]
