"""What all kinds of columns share: a frozen description that is JSON, and cells in, float32 out."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ...errors import InputError
from .cells import Column

Floats = NDArray[np.float64]
Matrix = NDArray[np.float32]
#: Far beyond any sensible value, and still finite in float32.
LARGEST = 1e30


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
        known = values[np.isfinite(values)]
        low, quarter, middle, three, high = (float(one) for one in np.quantile(known, [0.0, 0.25, 0.5, 0.75, 1.0]))
        filled = np.where(np.isfinite(values), values, middle)
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
        if not np.isfinite(ends).all() or self._far(ends).any():
            return False
        with np.errstate(over="ignore"):
            return bool((np.abs((ends - self.mean) / self.scale) <= LARGEST).all())

    def write(self, values: Floats, out: NDArray[np.float32]) -> None:
        """What `apply` gives, for values that are `ordinary`, without a copy of it."""
        np.divide(values - self.mean, self.scale, out=out)

    def apply(self, values: Floats) -> Matrix:
        known = np.isfinite(values)
        with np.errstate(over="ignore"):
            scaled = (values if known.all() else np.where(known, values, self.fill)) - self.mean
            scaled /= self.scale
        return np.clip(scaled, -LARGEST, LARGEST, out=scaled).astype(np.float32)

    def far(self, values: Floats) -> NDArray[np.bool_]:
        """True beyond the training range by more than that range again."""
        return np.zeros(len(values), dtype=bool) if self.ordinary(values) else self._far(values)

    def _far(self, values: Floats) -> NDArray[np.bool_]:
        width = self.high / 2 - self.low / 2  # halves: the difference itself may overflow
        return np.isfinite(values) & (np.abs(values / 2 - (self.high / 4 + self.low / 4)) > 1.5 * width)


def unreadable(name: str, sample: str, wanted: str, remedy: str = "") -> InputError:
    return InputError("data", f"text ({sample[:60]!r}) in the column {name!r}", f"{wanted}, as in training", remedy)
