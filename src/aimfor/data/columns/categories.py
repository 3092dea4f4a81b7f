"""Categories: one output for each frequent level, one for all others; missing is none of them.

Where levels are many there is one more output, the number of the level, in whose place an ensemble puts what the target
says about the level.
"""

from __future__ import annotations

import zlib
from typing import Literal

import numpy as np

from ...spelling import canonical
from .cells import Column
from .kinds import Coder, Matrix, Remarks

MOST_LEVELS = 50
_MOST_RARE = 5000
#: Numbers of levels that are hashed; float32 holds them exactly.
_NUMBERS = 2**23
MISSING, UNSEEN = -1.0, -2.0


class Category(Coder):
    """A column of levels."""

    kind: Literal["category"] = "category"
    levels: tuple[str, ...]
    #: Levels that are known but too rare for an output of their own; None where there are too many to keep.
    rare: tuple[str, ...] | None = ()
    #: Whether ``1.1`` and ``1.10`` are two levels (training rows had such pairs) or one.
    exact: bool = False
    #: Whether one more output is the number of the level: most levels have none of their own.
    numbered: bool = False

    @property
    def parts(self) -> list[str]:
        return [*self.levels, "any other", *(["number of the level"] if self.numbered else [])]

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        place = {level: i for i, level in enumerate(self.levels)}
        other = len(place)
        codes, texts = column.distinct()
        levels = [_level(text, self.exact) for text in texts]
        ids = np.array([*(place.get(level, other) for level in levels), -1])[codes]
        encoded = np.zeros((len(column), len(self.parts)), dtype=np.float32)
        rows = np.flatnonzero(ids >= 0)
        encoded[rows, ids[rows]] = 1.0
        if self.numbered:
            encoded[:, -1] = np.array([*self._numbers(levels), MISSING], dtype=np.float32)[codes]
        if self.rare is not None:
            known = place.keys() | set(self.rare)
            unseen = np.flatnonzero(np.array([*(level not in known for level in levels), False])[codes])
            sample = texts[codes[unseen[0]]] if len(unseen) else ""
            remarks.add(self.name, len(unseen), len(column), "hold a level not seen in training", sample)
        return encoded

    def _numbers(self, levels: list[str]) -> list[float]:
        """The place of a level among all that are known, or a hash where those are too many to keep."""
        if self.rare is None:
            return [float(zlib.crc32(level.encode()) % _NUMBERS) for level in levels]
        known = {level: float(i) for i, level in enumerate((*self.levels, *self.rare))}
        return [known.get(level, UNSEEN) for level in levels]


def _level(text: str, exact: bool) -> str:
    return text if exact else canonical(text)


def fit_category(name: str, column: Column, exact: bool, numbered: bool = True) -> Category | str:
    """From training rows; a sentence instead when they cannot help. ``numbered``: where levels are many."""
    codes, texts = column.distinct()
    counts: dict[str, int] = {}
    for text, count in zip(texts, np.bincount(codes[codes >= 0], minlength=len(texts)).tolist(), strict=True):
        level = _level(text, exact)
        counts[level] = counts.get(level, 0) + count
    counts = {level: count for level, count in counts.items() if count}
    if not counts:
        return "no value at all"
    if len(counts) == 1 and sum(counts.values()) == len(column):
        return f"constant ({next(iter(counts))!r})"
    least = 1 if len(counts) <= 10 else max(2, len(column) // 2000)
    ordered = sorted(counts, key=lambda level: (-counts[level], level))
    levels = tuple(level for level in ordered[:MOST_LEVELS] if counts[level] >= least)
    kept = set(levels)
    rare = tuple(level for level in ordered if level not in kept) if len(ordered) <= _MOST_RARE else None
    return Category(name=name, levels=levels, rare=rare, exact=exact, numbered=numbered and len(ordered) > MOST_LEVELS)


def spelled_apart(texts: list[str]) -> tuple[str, str] | None:
    """Two texts that differ in spelling but not in value, such as ``1.1`` and ``1.10``."""
    seen: dict[str, str] = {}
    for text in texts:
        other = seen.setdefault(canonical(text), text)
        if other != text and other.lower() != text.lower():
            return other, text
    return None
