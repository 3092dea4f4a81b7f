"""Soft ranks by blocks: sums over the other items of a list of sigmoids of score differences, in O(l) memory.

For p asked items of each list and masses w (several at once),

    above_i = w_i + Σ_{j ≠ i} w_j sigmoid((s_j − s_i) / T).

With w = 1 it is the soft rank; with w the positives' mass, the soft number of true positives at the threshold s_i. The
item itself would add ``w_i sigmoid(0) = w_i / 2``, so half its mass is added and nothing is left out of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

#: Differences in one block: 1 MB in float32, which stays in the cache.
BLOCK = 1 << 18
#: Up to so many differences in all, their sigmoids are kept for the gradient instead of being found again.
KEPT = 1 << 21


class SoftRanks:
    """The sums of one batch of lists, and their gradient.

    Args:
        scores: ``(b, l)``, detached.
        places: ``(b, p)`` positions of the asked items; padded with anything, as long as its slope is 0.
        masses: ``(b, l, m)``.
        temperature: > 0.
    """

    def __init__(self, scores: Tensor, places: Tensor, masses: Tensor, temperature: float) -> None:
        self.scores, self.places, self.masses = _bounded(scores / temperature), places, masses
        self.asked = self.scores.gather(1, places)
        self.temperature = temperature
        keep = scores.numel() * places.shape[1] <= KEPT
        self._kept: dict[tuple[int, int], Tensor] | None = {} if keep else None

    def above(self) -> Tensor:
        """``(b, p, m)``, the item's own mass included."""
        own = self.masses.gather(1, self.places[..., None].expand(-1, -1, self.masses.shape[2]))
        sums = torch.empty_like(own)
        for rows, some in _blocks(self.places, self.scores.shape[1]):
            soft = self._sigmoids(rows, some)
            if self._kept is not None:
                self._kept[rows.start, some.start] = soft
            sums[rows, some] = soft @ self.masses[rows]
        return sums + 0.5 * own

    def gradient(self, slopes: Tensor) -> Tensor:
        """``(b, l)``: the gradient of ``Σ slopes · above`` with respect to the scores."""
        of_items, of_asked = torch.zeros_like(self.scores), torch.zeros_like(self.asked)
        for rows, some in _blocks(self.places, self.scores.shape[1]):
            soft = self._sigmoids(rows, some) if self._kept is None else self._kept[rows.start, some.start]
            steep = torch.addcmul(soft, soft, soft, value=-1.0)
            steep.mul_(slopes[rows, some] @ self.masses[rows].mT)
            of_items[rows] += steep.sum(1)
            of_asked[rows, some] = steep.sum(2)
        return of_items.scatter_add_(1, self.places, -of_asked).div_(self.temperature)

    def _sigmoids(self, rows: slice, some: slice) -> Tensor:
        return (self.scores[rows, None, :] - self.asked[rows, some, None]).sigmoid_()


def pairwise_logistic(
    scores: Tensor, places: Tensor, asked: Tensor, grades: Tensor, mass: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Per list, ``Σ (g_i − g_j)₊ w_i w_j log(1 + exp(s_j − s_i))``, its gradient, and the sum of the weights.

    Args:
        scores: ``(b, l)``, detached.
        places: ``(b, p)`` positions of the items i; every item above the lowest grade.
        asked: ``(b, p)`` True where a place is not padding.
        grades: ``(b, l)``.
        mass: ``(b, l)`` weight w of each item, 0 where it does not count.

    Returns:
        ``(b,)``, ``(b, l)``, ``(b,)``.
    """
    scores = _bounded(scores)
    own, grade, weight = (part.gather(1, places) for part in (scores, grades, mass))
    weight = weight * asked
    total, weights = (scores.new_zeros(len(scores), dtype=torch.float64) for _ in range(2))
    of_items, of_asked = torch.zeros_like(scores), torch.zeros_like(own)
    for rows, some in _blocks(places, scores.shape[1]):
        gap = scores[rows, None, :] - own[rows, some, None]
        share = (grade[rows, some, None] - grades[rows, None, :]).clamp_min_(0.0)
        share.mul_(weight[rows, some, None]).mul_(mass[rows, None, :])
        total[rows] += (share * functional.softplus(gap)).sum((1, 2), dtype=torch.float64)
        weights[rows] += share.sum((1, 2), dtype=torch.float64)
        steep = share.mul_(gap.sigmoid_())
        of_items[rows] += steep.sum(1)
        of_asked[rows, some] = steep.sum(2)
    return total, of_items.scatter_add_(1, places, -of_asked), weights


def _bounded(scores: Tensor) -> Tensor:
    """Scores whose differences stay finite."""
    most = 0.125 * torch.finfo(scores.dtype).max
    return scores.clamp(-most, most)


def _blocks(places: Tensor, length: int) -> Iterator[tuple[slice, slice]]:
    """Lists × asked items, so that each block has about `BLOCK` differences; whole lists where they fit."""
    lists, asked = places.shape
    rows = max(1, BLOCK // max(1, asked * length))
    some = max(1, min(asked, BLOCK // max(1, length)))
    for first in range(0, lists, rows):
        for start in range(0, asked, some):
            yield slice(first, min(first + rows, lists)), slice(start, min(start + some, asked))
