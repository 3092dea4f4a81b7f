"""Sums over the items of a list of a function κ of score differences, and their gradient, in O(l) memory.

Items j of a list have scores s_j; p of them, i, are queries. With masses w of the items and weights v of the queries,

    sums, one for each query:      Σ_j w_j κ(s_j − s_i)
    gradient, one for each item k:   ∂/∂s_k Σ_i v_i Σ_j w_j κ(s_j − s_i), for which κ' is given.

κ is the sigmoid, its slope ``sigmoid · (1 − sigmoid)`` ("steep"), or "softplus". `Series` does the same for long lists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ..engine import Number

Kernel = Literal["sigmoid", "steep", "softplus"]
#: A function, and what its sums are weighed by: ``(b, p, q)``, for the last q of the masses.
Term = tuple[Kernel, Tensor]

#: Up to so many items in all, the number of operations counts, and not how they go through memory.
SMALL = 1 << 12
#: Differences in one block: 1 MB in float32, which stays in the cache.
BLOCK = 1 << 18
#: Up to so many differences in all, their sigmoids are kept instead of being found again.
KEPT = 1 << 21


def kernel_of(kernel: Kernel, gaps: Tensor, soft: Tensor | None = None) -> Tensor:
    """κ of every difference; ``soft`` is their sigmoid, where it is known."""
    if kernel == "softplus":
        return functional.softplus(bounded_scores(gaps), threshold=40.0)  # 20, the default, is 2e-9 off in float64
    soft = torch.sigmoid(gaps) if soft is None else soft
    return soft if kernel == "sigmoid" else torch.addcmul(soft, soft, soft, value=-1.0)


def divided(x: Tensor, unit: Number, *, inplace: bool = False) -> Tensor:
    """By the unit of scores; most often it is 1."""
    if not isinstance(unit, Tensor) and unit == 1.0:
        return x
    return x.div_(unit) if inplace else x / unit


def bounded_scores(scores: Tensor) -> Tensor:
    """Scores whose differences stay finite, list after list in memory: columns of a table would be read across it."""
    most = 0.125 * torch.finfo(scores.dtype).max
    if scores.is_contiguous() or scores.numel() <= SMALL:
        return scores.clamp(-most, most)
    return torch.clamp(scores, -most, most, out=scores.new_empty(scores.shape))


class DifferenceSums(ABC):
    """The sums of one batch of lists."""

    @abstractmethod
    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        """``(b, l, m)`` masses of the items to ``(b, p, m)``."""

    @abstractmethod
    def weighed(self, kernel: Kernel, masses: Tensor, weights: Tensor) -> Tensor:
        """float64: the sums of the last q masses, of all lists, times ``(b, p, q)`` weights."""

    @abstractmethod
    def gradients(self, masses: Tensor, terms: Sequence[Term]) -> Tensor:
        """``(b, l)`` of what `weighed` says of each term, added up; a term names the slope of its own function."""

    def gradient(self, slope: Kernel, masses: Tensor, weights: Tensor) -> Tensor:
        """`gradients` of one term."""
        return self.gradients(masses, [(slope, weights)])


class Blocks(DifferenceSums):
    """Every difference by itself.

    Args:
        scores: ``(b, l)``.
        positions: ``(b, p)`` positions of the queries.
        temperature: What differences are divided by.
    """

    def __init__(self, scores: Tensor, positions: Tensor, temperature: Number = 1.0) -> None:
        self.scores, self.positions, self.temperature = scores, positions, temperature
        self.queried = scores.gather(1, positions)
        pairs = scores.numel() * positions.shape[1]
        self._whole = 0 < pairs <= BLOCK
        self._kept: dict[tuple[int, int], Tensor] | None = {} if pairs <= KEPT else None
        self._gaps: Tensor | None = None
        self._last: tuple[Tensor, Kernel, Tensor] | None = None

    def sums(self, kernel: Kernel, masses: Tensor) -> Tensor:
        if self._whole:
            sums = torch.bmm(self._matrix(kernel), masses)
        else:
            blocks = [torch.bmm(self._matrix(kernel, *block), masses[block[0]]) for block in self._blocks()]
            sums = self._joined(blocks, masses.shape[2])
        self._last = masses, kernel, sums
        return sums

    def weighed(self, kernel: Kernel, masses: Tensor, weights: Tensor) -> Tensor:
        kept = self._last
        total = (self.sums(kernel, last(masses, weights.shape[2])) * weights).sum(dtype=torch.float64)
        self._last = kept  # gradients ask for the sums of the ranks again
        return total

    def gradients(self, masses: Tensor, terms: Sequence[Term]) -> Tensor:
        q = max(weights.shape[2] for _, weights in terms)
        of_items, of_queries = None, None
        for slope, weights in sorted(terms, key=lambda term: -term[1].shape[2]):
            at_queries, of_items = self._both_ways(slope, masses, weights, of_items)
            slopes = added(at_queries * weights)
            of_queries = slopes if of_queries is None else of_queries.add_(slopes)
        assert of_items is not None
        assert of_queries is not None
        return added(of_items.mul_(last(masses, q))).scatter_add_(1, self.positions, of_queries.neg_())

    def _both_ways(self, kernel: Kernel, masses: Tensor, weights: Tensor, onto: Tensor | None) -> tuple[Tensor, Tensor]:
        """``(b, p, q)`` sums of the last q masses over the items, and ``(b, l, q)`` of the weights over the queries.

        These are added onto others, of as many masses or more.
        """
        q = weights.shape[2]
        if self._whole:
            matrix, kept = self._matrix(kernel), self._last
            same = kept is not None and kept[0] is masses and kept[1] == kernel
            at_queries = last(kept[2], q) if kept is not None and same else torch.bmm(matrix, last(masses, q))
            if onto is None:
                return at_queries, torch.bmm(matrix.mT, weights)
            last(onto, q).baddbmm_(matrix.mT, weights)
            return at_queries, onto
        own, sums = last(masses, q), []
        onto = torch.zeros_like(own) if onto is None else onto
        to_last = last(onto, q)
        for rows, some in self._blocks():
            matrix = self._matrix(kernel, rows, some)
            sums.append(torch.bmm(matrix, own[rows]))
            to_last[rows] += torch.bmm(matrix.mT, weights[rows, some])
        return self._joined(sums, q), onto

    def _joined(self, sums: list[Tensor], m: int) -> Tensor:
        """The sums of all blocks in one tensor ``(b, p, m)``."""
        joined = self.scores.new_empty(*self.positions.shape, m)
        for (rows, some), block in zip(self._blocks(), sums, strict=True):
            joined[rows, some] = block
        return joined

    def _matrix(self, kernel: Kernel, rows: slice | None = None, some: slice | None = None) -> Tensor:
        """``(lists, queries, l)``: κ of the differences of one block, or of all."""
        at = (rows.start, some.start) if rows is not None and some is not None else (0, 0)
        kept = None if self._kept is None else self._kept.get(at)
        if kept is not None and kernel != "softplus":
            return kernel_of(kernel, kept, kept)
        scores = self.scores if rows is None else self.scores[rows]
        queried = self.queried if rows is None else self.queried[rows, some]
        gaps = self._gaps
        if gaps is None:
            gaps = divided(scores.unsqueeze(1) - queried.unsqueeze(2), self.temperature, inplace=True)
        if kernel == "softplus":
            return kernel_of(kernel, gaps)
        if self._whole:  # one block: softplus may ask for them next
            self._gaps, soft = gaps, gaps.sigmoid()
        else:
            soft = gaps.sigmoid_()
        if self._kept is not None:
            self._kept[at] = soft
        return kernel_of(kernel, soft, soft)

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        return blocks(self.positions, self.scores.shape[1])


def last(masses: Tensor, count: int) -> Tensor:
    """The last so many of ``(b, l, m)`` masses."""
    return masses if masses.shape[2] == count else masses[..., masses.shape[2] - count :]


def added(terms: Tensor) -> Tensor:
    """``(…, m)`` added up along m."""
    return terms[..., 0] if terms.shape[-1] == 1 else terms.sum(-1)


def blocks(positions: Tensor, length: int) -> Iterator[tuple[slice, slice]]:
    """Lists × queries, so that each block has about `BLOCK` differences; whole lists where they fit."""
    lists, queries = positions.shape
    rows = max(1, BLOCK // max(1, queries * length))
    some = max(1, min(queries, BLOCK // max(1, length)))
    for first in range(0, lists, rows):
        for start in range(0, queries, some):
            yield slice(first, min(first + rows, lists)), slice(start, min(start + some, queries))
