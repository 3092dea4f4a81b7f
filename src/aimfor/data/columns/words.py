"""Free text: words and pairs of neighbours, counted in a fixed number of places by a hash that never changes."""

from __future__ import annotations

import re
import zlib
from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import Field

from .cells import Column
from .kinds import Coder, Matrix, Remarks

PLACES = 128
#: With about ten words in a text, each weighs as much as a level of a category does.
_LENGTH = 3.0
_WORD = re.compile(r"\w+")


class Text(Coder):
    """Free text. Nothing is learned, so a new word needs no rule; two words may share a place, which costs little."""

    kind: Literal["text"] = "text"
    places: int = Field(default=PLACES, ge=1, le=4096)

    @property
    def parts(self) -> list[str]:
        return [f"words {i}" for i in range(self.places)]

    def encode(self, column: Column, remarks: Remarks) -> Matrix:
        codes, texts = column.distinct()
        counted = np.zeros((len(texts) + 1, self.places), dtype=np.float32)  # the last row: missing
        for row, text in enumerate(texts):
            counted[row] = self._count(text)
        return counted[codes]

    def _count(self, text: str) -> Matrix:
        """Signed counts brought to one length, so that long texts weigh as much as short ones."""
        found = _WORD.findall(text.casefold())
        counts = np.zeros(self.places)
        for token in [*found, *(f"{a} {b}" for a, b in pairwise(found))]:
            number = zlib.crc32(token.encode())
            counts[(number >> 1) % self.places] += 1.0 if number & 1 else -1.0
        length = float(np.sqrt((counts**2).sum()))
        return (counts * (_LENGTH / length) if length else counts).astype(np.float32)


def wordy(texts: list[str]) -> bool:
    """Whether most of these are sentences rather than codes or names: three words or more."""
    return sum(len(_WORD.findall(text)) >= 3 for text in texts) > 0.5 * len(texts)
