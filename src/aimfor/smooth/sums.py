"""Sums over the items of a list of a function κ of score differences, and their gradient, in O(l) memory.

Items j of a list have scores s_j; p of them, i, are asked. With masses w of the items and v of the asked,

    sums, one for each asked item:   Σ_j w_j κ(s_j − s_i)
    gradient, one for each item k:   ∂/∂s_k Σ_i v_i Σ_j w_j κ(s_j − s_i), for which κ' is given.

κ is the sigmoid, its slope ``sigmoid · (1 − sigmoid)`` ("steep"), or "softplus". `grid` does the same for long lists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Kernel = Literal["sigmoid", "steep", "softplus"]

#: Differences in one block: 1 MB in float32, which stays in the cache.
BLOCK = 1 << 18
#: Up to so many differences in all, their sigmoids are kept instead of being found again.
KEPT = 1 << 21


def kernel_of(kernel: Kernel, gaps: Tensor, soft: Tensor | None = None) -> Tensor:
    """κ of every difference; ``soft`` is their sigmoid, where it is known."""
    if kernel == "softplus":
        return functional.softplus(gaps, threshold=40.0)  # 20, the default, is 2e-9 off in float64
    soft = torch.sigmoid(gaps) if soft is None else soft
    return soft if kernel == "sigmoid" else torch.addcmul(soft, soft, soft, value=-1.0)


class DifferenceSums(ABC):
    """The sums of one batch of lists."""

    @abstractmethod
    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        """``(b, l, m)`` masses of the items to ``(b, p, m)``."""

    @abstractmethod
    def gradient(self, slope: Kernel, masses: Tensor, asked: Tensor) -> Tensor:
        """``(b, l)`` of the sums weighed by ``asked`` ``(b, p, m)``, m after m, added up."""


class Blocks(DifferenceSums):
    """Every difference by itself.

    Args:
        scores: ``(b, l)``.
        places: ``(b, p)`` positions of the asked items.
    """

    def __init__(self, scores: Tensor, places: Tensor) -> None:
        self.scores, self.places = scores, places
        self.asked = scores.gather(1, places)
        keep = scores.numel() * places.shape[1] <= KEPT
        self._kept: dict[tuple[int, int], Tensor] | None = {} if keep else None

    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        parts = [self._matrix(kernel, rows, some) @ masses[rows] for rows, some in self._blocks()]
        return parts[0] if len(parts) == 1 else self._joined(parts, masses.shape[2])

    def gradient(self, slope: Kernel, masses: Tensor, asked: Tensor) -> Tensor:
        parts, to_items = [], torch.zeros_like(masses)
        for rows, some in self._blocks():
            matrix = self._matrix(slope, rows, some)
            parts.append(matrix @ masses[rows])
            to_items[rows] += matrix.mT @ asked[rows, some]
        sums = parts[0] if len(parts) == 1 else self._joined(parts, masses.shape[2])
        return to_items.mul_(masses).sum(-1).scatter_add_(1, self.places, sums.mul_(asked).sum(-1).neg_())

    def _joined(self, parts: list[Tensor], m: int) -> Tensor:
        """The blocks' answers in one tensor ``(b, p, m)``."""
        found = self.scores.new_empty(*self.places.shape, m)
        for (rows, some), part in zip(self._blocks(), parts, strict=True):
            found[rows, some] = part
        return found

    def _matrix(self, kernel: Kernel, rows: slice, some: slice) -> Tensor:
        """``(lists, asked, l)``: κ of the differences of one block."""
        kept = None if self._kept is None else self._kept.get((rows.start, some.start))
        if kept is not None and kernel != "softplus":
            return kernel_of(kernel, kept, kept)
        gaps = self.scores[rows, None, :] - self.asked[rows, some, None]
        if kernel == "softplus":
            return kernel_of(kernel, gaps)
        soft = gaps.sigmoid_()
        if self._kept is not None:
            self._kept[rows.start, some.start] = soft
        return kernel_of(kernel, soft, soft)

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        return blocks(self.places, self.scores.shape[1])


def blocks(places: Tensor, length: int) -> Iterator[tuple[slice, slice]]:
    """Lists × asked items, so that each block has about `BLOCK` differences; whole lists where they fit."""
    lists, asked = places.shape
    rows = max(1, BLOCK // max(1, asked * length))
    some = max(1, min(asked, BLOCK // max(1, length)))
    for first in range(0, lists, rows):
        for start in range(0, asked, some):
            yield slice(first, min(first + rows, lists)), slice(start, min(start + some, asked))
