"""Coders of columns, frozen descriptions that are JSON, with cells in and float32 out; those of categories and text.

A category has one output for each frequent level and one for all others; missing is none of them. Where levels are many
there is one more output, the number of the level, in whose place an ensemble puts what the target says about the level.
Free text is counted, words and pairs of neighbours, in a fixed number of outputs by a hash that never changes.
"""

from __future__ import annotations

import re
import shlex
import zlib
from abc import abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ...errors import InputError
from ...spelling import canonical
from .cells import Column

Matrix = NDArray[np.float32]
MOST_LEVELS = 50
_MOST_RARE = 5000
#: Numbers of levels that are hashed; float32 holds them exactly.
_NUMBERS = 2**23
MISSING, UNSEEN = -1.0, -2.0
_OUTPUTS = 128
#: With about ten words in a text, each weighs as much as a level of a category does.
_LENGTH = 3.0
_WORD = re.compile(r"\w+")


def override(name: str, kind: str) -> str:
    """The words that give a column another kind, as a shell takes them: names hold spaces, brackets, quotes.

    Example:
        >>> print(override("zip", "category"), override("unit price", "ignore"))
        --column zip=category --column 'unit price=ignore'
    """
    return f"--column {shlex.quote(f'{name}={kind}')}"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass
class Remarks:
    """What was odd about new rows, one sentence for each column and kind of oddity."""

    sentences: list[str] = field(default_factory=list)

    def add(self, name: str, count: int, rows: int, what: str, sample: Any) -> None:
        if count:
            self.sentences.append(f"column {name!r}: {count} of {rows} rows {what} (such as {str(sample)[:40]!r})")


class Coder(Strict):
    """One input column: what it is, and how its cells become numbers."""

    name: str

    @property
    @abstractmethod
    def parts(self) -> list[str]:
        """What each output column is, in words; empty for "the value itself"."""

    @abstractmethod
    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        """``(n, len(parts))``. A row's numbers depend on that row alone."""

    def encode_into(self, column: Column, remarks: Remarks, out: Matrix) -> None:
        """Writes what `encode` gives to ``out``, of that shape and any order in memory."""
        out[...] = self.encode(column, remarks)


def unreadable(name: str, sample: str, expected: str, remedy: str = "") -> InputError:
    return InputError("data", f"text ({sample[:60]!r}) in the column {name!r}", f"{expected}, as in training", remedy)


class Category(Coder):
    """A column of levels."""

    kind: Literal["category"] = "category"
    levels: tuple[str, ...]
    #: Levels of training rows too rare for an output of their own; None where there are too many to keep.
    rare: tuple[str, ...] | None = ()
    #: Whether ``1.1`` and ``1.10`` are two levels (training rows had such pairs) or one.
    exact: bool = False
    #: Whether one more output is the number of the level: most levels have none of their own.
    numbered: bool = False

    @property
    def parts(self) -> list[str]:
        return [*self.levels, "any other", *(["number of the level"] if self.numbered else [])]

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        index = {level: i for i, level in enumerate(self.levels)}
        codes, texts = column.distinct()
        levels = [text if self.exact else canonical(text) for text in texts]
        ids = np.array([*(index.get(level, len(index)) for level in levels), -1])[codes]
        encoded = np.zeros((len(column), len(self.parts)), dtype=np.float32)
        rows = np.flatnonzero(ids >= 0)
        encoded[rows, ids[rows]] = 1.0
        if self.numbered:
            encoded[:, -1] = np.array([*self._numbers(levels), MISSING], dtype=np.float32)[codes]
        if self.rare is not None:
            trained = index.keys() | set(self.rare)
            unseen = np.flatnonzero(np.array([*(level not in trained for level in levels), False])[codes])
            sample = texts[codes[unseen[0]]] if len(unseen) else ""
            remarks.add(self.name, len(unseen), len(column), "hold a level not seen in training", sample)
        return encoded

    def _numbers(self, levels: list[str]) -> list[float]:
        """The number of a level among all of training, or a hash where those are too many to keep."""
        if self.rare is None:
            return [float(zlib.crc32(level.encode()) % _NUMBERS) for level in levels]
        numbers = {level: float(i) for i, level in enumerate((*self.levels, *self.rare))}
        return [numbers.get(level, UNSEEN) for level in levels]


def fit_category(name: str, column: Column, exact: bool, numbered: bool) -> Category | str:
    """From training rows; a sentence instead when they cannot help. ``numbered``: where levels are many."""
    codes, texts = column.distinct()
    counts: dict[str, int] = {}
    for text, count in zip(texts, np.bincount(codes[codes >= 0], minlength=len(texts)).tolist(), strict=True):
        level = text if exact else canonical(text)
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


class Text(Coder):
    """Free text. Nothing is learned, so a new word needs no rule; two words may share an output, which costs little."""

    kind: Literal["text"] = "text"
    outputs: int = Field(default=_OUTPUTS, ge=1, le=4096, alias="places")

    @property
    def parts(self) -> list[str]:
        return [f"words {i}" for i in range(self.outputs)]

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        codes, texts = column.distinct()
        counted = np.zeros((len(texts) + 1, self.outputs), dtype=np.float32)  # the last row: missing
        for row, text in enumerate(texts):
            counted[row] = self._count(text)
        return counted[codes]

    def _count(self, text: str) -> Matrix:
        """Signed counts brought to one length, so that long texts weigh as much as short ones."""
        words = _WORD.findall(text.casefold())
        counts = np.zeros(self.outputs)
        for token in [*words, *(f"{a} {b}" for a, b in pairwise(words))]:
            number = zlib.crc32(token.encode())
            counts[(number >> 1) % self.outputs] += 1.0 if number & 1 else -1.0
        length = float(np.sqrt((counts**2).sum()))
        return (counts * (_LENGTH / length) if length else counts).astype(np.float32)


def wordy(texts: list[str]) -> bool:
    """Whether most of these are sentences rather than codes or names: three words or more."""
    return sum(len(_WORD.findall(text)) >= 3 for text in texts) > 0.5 * len(texts)
