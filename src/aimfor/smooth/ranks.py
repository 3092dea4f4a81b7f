"""Soft ranks: sums over the other items of a list of sigmoids of score differences, in O(l) memory.

For p asked items of each list and masses w (several at once),

    above_i = w_i + Σ_{j ≠ i} w_j sigmoid((s_j − s_i) / T).

With w = 1 it is the soft rank; with w the positives' mass, the soft number of true positives at the threshold s_i. The
item itself would add ``w_i sigmoid(0) = w_i / 2``, so half its mass is added and nothing is left out of the sums.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..ordering import ordered
from .grid import grid_of
from .series import Series
from .sums import Blocks, DifferenceSums, Term, blocks, bounded_scores

#: Up to so many asked items of a list, every difference by itself costs less than a sort.
FEW = 64


class SoftRanks:
    """The sums of one batch of lists, and their gradient.

    Args:
        scores: ``(b, l)``, detached.
        places: ``(b, p)`` positions of the asked items; padded with anything, as long as its slope is 0.
        masses: ``(b, l, m)``.
        temperature: > 0.
        ones: There is one mass, and it is 1 for every item.
    """

    def __init__(
        self, scores: Tensor, places: Tensor, masses: Tensor, temperature: float, *, ones: bool = False
    ) -> None:
        self.places, self.masses, self.temperature, self.ones = places, masses, temperature, ones
        self.sums = sums_of(scores, places, temperature)

    def above(self) -> Tensor:
        """``(b, p, m)``, the item's own mass included."""
        if self.ones:
            return self.sums.sums("sigmoid", self.masses) + 0.5
        if self.masses.shape[2] == 1:
            own = self.masses[..., 0].gather(1, self.places).unsqueeze(2)
        else:
            own = self.masses.gather(1, self.places[..., None].expand(-1, -1, self.masses.shape[2]))
        return torch.add(self.sums.sums("sigmoid", self.masses), own, alpha=0.5)

    def logistic(self, weight: Tensor) -> Tensor:
        """float64: ``Σ v_i w_j log(1 + exp((s_j − s_i) / T))`` of all lists, w the last mass, v ``(b, p, 1)``."""
        return self.sums.weighed("softplus", self.masses, weight)

    def gradient(self, slopes: Tensor, weight: Tensor | None = None) -> Tensor:
        """``(b, l)``: the gradient of ``Σ slopes · above`` with respect to the scores, and of `logistic` if weighed."""
        terms: list[Term] = [("steep", slopes)]
        if weight is not None:
            terms.append(("sigmoid", weight))
        gradient = self.sums.gradients(self.masses, terms)
        return gradient if self.temperature == 1.0 else gradient.div_(self.temperature)


def sharp_above(scores: Tensor, places: Tensor, masses: Tensor) -> Tensor:
    """``SoftRanks.above()`` at temperature 0, where ties share their places: one sort, and no gradient.

    Args:
        scores: ``(b, l)``, detached.
        places: ``(b, p)`` positions of the asked items.
        masses: ``(b, l, m)``.

    Returns:
        ``(b, p, m)`` float64.
    """
    masses = masses.double()
    ascending, order = ordered(scores)
    sums = functional.pad(masses.gather(1, order[..., None].expand_as(masses)).cumsum(1), (0, 0, 1, 0))
    asked, ascending = scores.gather(1, places), ascending.contiguous()
    wide = (-1, -1, masses.shape[2])
    below, upto = (
        sums.gather(1, torch.searchsorted(ascending, asked, right=right)[..., None].expand(wide))
        for right in (False, True)
    )
    own = masses.gather(1, places[..., None].expand(wide))
    return sums[:, -1:] - 0.5 * (below + upto) + 0.5 * own


def sums_of(scores: Tensor, places: Tensor, temperature: float = 1.0) -> DifferenceSums:
    """Where few items are asked, one by one; else on cells, or by one sort, where the scores lie far apart."""
    scores = scores.contiguous()
    if places.shape[1] <= FEW or scores.device.type == "mps":
        return Blocks(scores, places, temperature)
    # Elsewhere to look at the scores would make the device wait.
    grid = grid_of(scores, places, temperature) if scores.device.type == "cpu" else None
    return Series(scores, places, temperature) if grid is None else grid


def binary_logistic(weight: Tensor, below: Tensor, sums: DifferenceSums) -> tuple[float, Tensor]:
    """``Σ v_i w_j log(1 + exp(s_j − s_i))`` of all lists, and its gradient.

    Args:
        weight: ``(b, p)`` weight v of the asked items; 0 for padding.
        below: ``(b, l)`` weight w of the items; 0 where an item is no j.
        sums: Of the scores.

    Returns:
        The sum, and ``(b, l)``.
    """
    masses, asked = below[..., None], weight[..., None]
    total = sums.weighed("softplus", masses, asked)
    return float(total), sums.gradient("sigmoid", masses, asked)


def graded_logistic(
    scores: Tensor, places: Tensor, weight: Tensor, grades: Tensor, mass: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Per list, ``Σ (g_i − g_j)₊ v_i w_j log(1 + exp(s_j − s_i))``, its gradient, and the sum of the weights.

    Args:
        scores: ``(b, l)``, detached.
        places: ``(b, p)`` positions of the items i; every item above the lowest grade.
        weight: ``(b, p)`` weight v of the items i; 0 for padding.
        grades: ``(b, l)``.
        mass: ``(b, l)`` weight w of each item, 0 where it does not count.

    Returns:
        ``(b,)``, ``(b, l)``, ``(b,)``.
    """
    scores = bounded_scores(scores)
    own, grade = scores.gather(1, places), grades.gather(1, places)
    total, weights = (scores.new_zeros(len(scores), dtype=torch.float64) for _ in range(2))
    of_items, of_asked = torch.zeros_like(scores), torch.zeros_like(own)
    for rows, some in blocks(places, scores.shape[1]):
        gap = scores[rows, None, :] - own[rows, some, None]
        share = (grade[rows, some, None] - grades[rows, None, :]).clamp_min_(0.0)
        share.mul_(weight[rows, some, None]).mul_(mass[rows, None, :])
        total[rows] += (share * functional.softplus(gap)).sum((1, 2), dtype=torch.float64)
        weights[rows] += share.sum((1, 2), dtype=torch.float64)
        steep = share.mul_(gap.sigmoid_())
        of_items[rows] += steep.sum(1)
        of_asked[rows, some] = steep.sum(2)
    return total, of_items.scatter_add_(1, places, -of_asked), weights
