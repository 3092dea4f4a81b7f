"""What counts are worth where rows are few: plain numbers, as tensors of a few entries cost more than their sums.

A metric that is a ratio of lines in the counts (F_β, IoU, accuracy, …), of one row or of several, has its value and its
slopes in closed form. `Ledger` has what `Decisions` and `ClassDecisions` make of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError

Coefficients = tuple[float, float, float, float]

#: Up to so many rows; those of more are summed as tensors.
FEW = 32


@dataclass(frozen=True)
class Ratio:
    """One line in the counts over another, of every row.

    Attributes:
        above: Coefficients of (tp, fp, fn, tn).
        below: The same, below the line.
        summed: The ratio of the rows' summed counts; else the mean of their ratios, without those that are 0/0 and
            without those that have nothing to find (`only_finds`).

    Example:
        >>> from aimfor.smooth.ledger import Ratio
        >>> Ratio((1, 0, 0, 0), (1, 0, 1, 0)).of([[3.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])[0]
        0.625
    """

    above: Coefficients
    below: Coefficients
    summed: bool = False
    weighted: bool = False

    @property
    def only_finds(self) -> bool:
        """Whether it counts true positives alone above the line (F_β, IoU), so that a row without a positive is 0.

        Nothing can be learned from such a row. The exact metric is 0/0 there if nothing is decided, which soft
        decisions never are: it is left out.
        """
        return not any(self.above[1:])

    @property
    def fixed_prices(self) -> bool:
        """Whether a decision is worth the same whatever the others are: what is below the line does not change."""
        return self.below[0] == self.below[2] and self.below[1] == self.below[3]

    @property
    def fixed_when_summed(self) -> bool:
        """The same for the sum over classes of which one is decided: a wrong decision is one fp, one fn and no tn."""
        right, false, missed, rest = self.below
        return self.summed and right + rest == false + missed

    def of(self, counts: list[list[float]]) -> tuple[float, list[float], list[float]]:
        """The value, and for each row what one more right and one more wrong decision for it are worth."""
        rows = list(zip(*counts, strict=True))
        whole = [tuple(map(sum, counts))] if self.summed else rows
        above, below = ([sum(map(float.__mul__, line, row)) for row in whole] for line in self._lines())
        any_row = not self.only_finds
        kept = [d != 0.0 and (any_row or row[0] + row[2] > 0.0) for d, row in zip(below, whole, strict=True)]
        shares = [(row[0] + row[2] if self.weighted else 1.0) * use for row, use in zip(whole, kept, strict=True)]
        total = sum(shares)
        if not total:
            return float("nan"), [0.0] * len(rows), [0.0] * len(rows)
        (u, v, w, z), (a, b, c, e) = self._lines()
        value, up, down = 0.0, [], []
        for n, d, share in zip(above, below, shares, strict=True):
            each, own = (share / (d * total), n / d) if share else (0.0, 0.0)
            value += own * share / total
            up.append(((u - w) - own * (a - c)) * each)
            down.append(((v - z) - own * (b - e)) * each)
        copies = len(rows) if self.summed else 1
        return value, up * copies, down * copies

    def of_many(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same from ``(4, r)`` float64 counts, in tensors."""
        rows = counts.shape[1]
        counts = counts.sum(1, keepdim=True) if self.summed else counts
        above, below = (_lines_on(self, counts.device) @ counts).unbind(0)
        kept = below != 0.0
        if self.only_finds:
            kept &= counts[0] + counts[2] > 0.0
        shares = kept * (counts[0] + counts[2]) if self.weighted else kept.to(counts)
        shares = shares.div_(shares.sum())  # NaN where none counts, and so the value
        each = shares.nan_to_num(0.0) / torch.where(kept, below, 1.0)
        (u, v, w, z), (a, b, c, e) = self._lines()
        own = above / torch.where(kept, below, torch.inf)
        up, down = each * ((u - w) - own * (a - c)), each * ((v - z) - own * (b - e))
        return (own * shares).sum(), up.expand(rows), down.expand(rows)

    def _lines(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return tuple(map(float, self.above)), tuple(map(float, self.below))


@lru_cache(maxsize=64)
def _lines_on(ratio: Ratio, device: torch.device) -> Tensor:
    return torch.tensor(ratio._lines(), dtype=torch.float64, device=device)


@dataclass(frozen=True)
class MeanOfRatios:
    """The mean of several ratios of the same counts, undefined where one of them is (balanced accuracy).

    The exact metric leaves out a class that is not there; a batch without it says nothing about the balance of classes.

    Example:
        >>> from aimfor.smooth.ledger import MeanOfRatios, Ratio
        >>> both = MeanOfRatios((Ratio((1, 0, 0, 0), (1, 0, 1, 0)), Ratio((0, 0, 0, 1), (0, 1, 0, 1))))
        >>> both.of([[3.0], [1.0], [1.0], [1.0]])[0]
        0.625
    """

    parts: tuple[Ratio, ...]

    @property
    def fixed_prices(self) -> bool:
        return all(ratio.fixed_prices for ratio in self.parts)

    def of(self, counts: list[list[float]]) -> tuple[float, list[float], list[float]]:
        values, ups, downs = zip(*(ratio.of(counts) for ratio in self.parts), strict=True)
        share = 1.0 / len(self.parts)
        up, down = ([share * sum(row) for row in zip(*parts, strict=True)] for parts in (ups, downs))
        return share * sum(values), up, down

    def of_many(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, ups, downs = zip(*(ratio.of_many(counts) for ratio in self.parts), strict=True)
        share = 1.0 / len(self.parts)
        value, up, down = (share * sum(parts[1:], parts[0]) for parts in (values, ups, downs))
        return value, up, down


class Correlation:
    """Of one row's decisions with the truth (MCC): 0 where all decisions are alike, undefined where all truth is.

    Example:
        >>> from aimfor.smooth import Correlation
        >>> Correlation().of([[2.0], [0.0], [0.0], [2.0]])
        (1.0, [0.5], [-0.5])
    """

    fixed_prices = False

    def of(self, counts: list[list[float]]) -> tuple[float, list[float], list[float]]:
        tp, fp, fn, tn = (row[0] for row in counts)
        decided, left, there, others = tp + fp, tn + fn, tp + fn, tn + fp
        if not (there > 0.0 and others > 0.0):
            return float("nan"), [0.0], [0.0]
        if not (decided > 0.0 and left > 0.0):
            return 0.0, [0.0], [0.0]
        root = math.sqrt(decided * left) * math.sqrt(there * others)
        value = (tp * tn - fp * fn) / root
        shift = 0.5 * value * (1.0 / decided - 1.0 / left)  # another decision changes the spread of decisions alone
        return value, [others / root - shift], [-there / root - shift]


class Ledger(NamedTuple):
    """Counts of r rows, (tp, fp, fn, tn) each, and what they are worth.

    Attributes:
        own: This batch's counts.
        joined: With those of the past.
        enlarge: How many times more the joined are.
        value: Of the joined counts; NaN where undefined.
        up: ``∂/∂tp − ∂/∂fn`` of each row.
        down: ``∂/∂fp − ∂/∂tn`` of each row.
    """

    own: list[list[float]]
    joined: list[list[float]]
    enlarge: float
    value: float
    up: list[float]
    down: list[float]

    def price(self) -> float:
        """``max(0, up) · positives + max(0, −down) · negatives``, of all that was counted."""
        tp, fp, fn, tn = self.joined
        right = sum(max(0.0, u) * (t + f) for u, t, f in zip(self.up, tp, fn, strict=True))
        return right - sum(min(0.0, d) * (f + t) for d, f, t in zip(self.down, fp, tn, strict=True))


def refuse_other_rows(rows: int, past: Tensor) -> None:
    """Raises `InputError` where counts of the past are of another number of classes."""
    if past.numel() != 4 * rows:
        raise InputError(
            "scores",
            f"{rows} rows of counts, one for each class (pair of classes for pairwise F_β)",
            f"{past.numel() // 4}, as in the bank",
            "Make a new loss for a model with another number of classes.",
        )


def ledger(
    ratio: Ratio | MeanOfRatios | Correlation, sums: list[list[float]], everything: list[float], past: Tensor | None
) -> Ledger:
    """From three sums of each row (soft decisions of positives, all soft decisions, positives) and all its mass."""
    tp, decided, positives = sums
    fp = [max(0.0, d - t) for d, t in zip(decided, tp, strict=True)]
    fn = [max(0.0, p - t) for p, t in zip(positives, tp, strict=True)]
    tn = [max(0.0, e - p - f) for e, p, f in zip(everything, positives, fp, strict=True)]
    own, enlarge = [tp, fp, fn, tn], 1.0
    joined = own
    if past is not None:
        refuse_other_rows(len(tp), past)
        joined = [list(map(float.__add__, a, b)) for a, b in zip(own, past.reshape(4, -1).tolist(), strict=True)]
        size = sum(map(sum, own))
        enlarge = sum(map(sum, joined)) / size if size > 0 else 1.0
    return Ledger(own, joined, enlarge, *ratio.of(joined))


def inverse_means(sizes: list[float]) -> list[float]:
    """What a sum over each row is multiplied by in the mean over rows of their means; 0 for rows without a size.

    Example:
        >>> from aimfor.smooth.ledger import inverse_means
        >>> inverse_means([2.0, 0.0, 4.0])
        [0.25, 0.0, 0.125]
    """
    number = sum(size > 0.0 for size in sizes)
    return [1.0 / (size * number) if size > 0.0 else 0.0 for size in sizes]
