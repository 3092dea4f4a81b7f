"""Soft ranks: sums over the other items of a list of sigmoids of score differences, in O(l) memory.

For p queries, items of each list whose ranks a metric needs, and masses w (several at once),

    above_i = w_i + Σ_{j ≠ i} w_j sigmoid((s_j − s_i) / T).

With w = 1 it is the soft rank; with w the positives' mass, the soft number of true positives at the threshold s_i. The
item itself would add ``w_i sigmoid(0) = w_i / 2``, so half its mass is added and nothing is left out of the sums.

Logistic bounds in place of the sigmoid keep the smooth metric below, or above, the exact one:

    1 − log₂(1 + exp(−x/T))  ≤  [x > 0]  ≤  log₂(1 + exp(x/T)).

A metric that rises with true positives and falls with false ones is bounded from below ("lower") by the lower bound of
what raises it and the upper bound of what lowers it, from above ("upper") the other way round. The loss of "lower" is
thus never less than 1 − metric, and has a gradient however wrong a decision is. Neither tends to the metric as T → 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..engine import Number
from ..ordering import ordered
from .grid import grid_of
from .ledger import FEW
from .series import Series
from .sums import SMALL, Blocks, DifferenceSums, Term, bounded_scores, divided

#: Up to so many queries of a list, every difference by itself costs less than a sort.
FEW_QUERIES = 64
INDICATORS = ("sigmoid", "lower", "upper")
LOG_2 = math.log(2.0)


class QueriedItems(NamedTuple):
    """The items whose ranks a metric asks for, list by list.

    Attributes:
        positions: ``(b, p)`` positions, padded with items that are none.
        there: ``(b, p)`` False for padding; None where there is none.
        counts: How many each list has, where lists are few.

    Example:
        >>> import torch
        >>> from aimfor.smooth import QueriedItems
        >>> QueriedItems(torch.tensor([[0, 2]]), None).take(torch.tensor([[5.0, 6.0, 7.0]])).tolist()
        [[5.0, 7.0]]
    """

    positions: Tensor
    there: Tensor | None
    counts: list[int] | None = None

    def take(self, values: Tensor) -> Tensor:
        """``(b, l)`` values of all items to ``(b, p)`` of the queries, 0 for padding."""
        taken = values.gather(1, self.positions)
        return taken if self.there is None else torch.where(self.there, taken, taken.new_zeros(()))

    def ones(self, dtype: torch.dtype) -> Tensor:
        """``(b, p)`` 1 for the queries, 0 for padding."""
        return torch.ones_like(self.positions, dtype=dtype) if self.there is None else self.there.to(dtype)

    def of_lists(self, numbers: Tensor | float, dtype: torch.dtype) -> Tensor:
        """``(b, p)``: each list's number, ``(b, 1)`` or one for all, at its queries, and 0 for padding."""
        if self.there is None or not isinstance(numbers, Tensor):
            return self.ones(dtype) * numbers
        return numbers * self.there


def queried_items(mask: Tensor) -> QueriedItems:
    """``(b, l)`` bool to the positions of its True entries.

    Example:
        >>> import torch
        >>> from aimfor.smooth import queried_items
        >>> queried_items(torch.tensor([[True, False, True]])).positions.tolist()
        [[0, 2]]
    """
    if not mask.is_cpu:  # the host would wait for their number: all items, of which those that are none are padding
        return QueriedItems(torch.arange(mask.shape[1], device=mask.device).expand(mask.shape), mask)
    if len(mask) == 1:
        positions = mask[0].nonzero().t()
        return QueriedItems(positions, None, [positions.shape[1]])
    if mask.numel() <= SMALL:
        count = mask.sum(1)
        counts, longest = _plain_counts(count)
        there, positions = mask.view(torch.uint8).topk(longest, dim=1)
        return QueriedItems(positions, there.view(torch.bool), counts)
    at = mask.reshape(-1).nonzero().squeeze(1)
    lists = at // mask.shape[1]
    count = torch.bincount(lists, minlength=len(mask))
    counts, longest = _plain_counts(count)
    numbers = torch.arange(max(longest, len(at)), device=mask.device)
    # Padding must not be a query, whose mass would be there twice; a list that has any has others.
    positions = mask.view(torch.uint8).argmin(1, keepdim=True).repeat(1, longest)
    positions[lists, numbers[: len(at)] - (count.cumsum(0) - count)[lists]] = at - lists * mask.shape[1]
    return QueriedItems(positions, numbers[:longest] < count[:, None], counts)


def _plain_counts(count: Tensor) -> tuple[list[int] | None, int]:
    """The counts as plain numbers, if they are few, and the largest."""
    if len(count) > FEW:
        return None, int(count.max())
    counts = count.tolist()
    return counts, max(counts, default=0)


class SoftRanks:
    """The sums of one batch of lists, and their gradient.

    Args:
        scores: ``(b, l)``, detached.
        positions: ``(b, p)`` positions of the queries; padded with anything, as long as its slope is 0.
        masses: ``(b, l, m)``.
        temperature: > 0.
        ones: There is one mass, and it is 1 for every item.
    """

    def __init__(
        self, scores: Tensor, positions: Tensor, masses: Tensor, temperature: Number, *, ones: bool = False
    ) -> None:
        self.positions, self.masses, self.temperature, self.ones = positions, masses, temperature, ones
        self.sums = sums_of(scores, positions, temperature)

    def above(self) -> Tensor:
        """``(b, p, m)``, the item's own mass included."""
        if self.ones:
            return self.sums.sums("sigmoid", self.masses) + 0.5
        if self.masses.shape[2] == 1:
            own = self.masses[..., 0].gather(1, self.positions).unsqueeze(2)
        else:
            own = self.masses.gather(1, self.positions[..., None].expand(-1, -1, self.masses.shape[2]))
        return torch.add(self.sums.sums("sigmoid", self.masses), own, alpha=0.5)

    def logistic(self, weight: Tensor) -> Tensor:
        """float64: ``Σ v_i w_j log(1 + exp((s_j − s_i) / T))`` of all lists, w the last mass, v ``(b, p, 1)``."""
        return self.sums.weighed("softplus", self.masses, weight)

    def gradient(self, slopes: Tensor, weight: Tensor | None = None) -> Tensor:
        """``(b, l)``: the gradient of ``Σ slopes · above`` with respect to the scores, and of `logistic` if weighed."""
        terms: list[Term] = [("steep", slopes)]
        if weight is not None:
            terms.append(("sigmoid", weight))
        return divided(self.sums.gradients(self.masses, terms), self.temperature, inplace=True)


def sharp_above(scores: Tensor, positions: Tensor, masses: Tensor) -> Tensor:
    """``SoftRanks.above()`` at temperature 0, where ties share their ranks: one sort, and no gradient.

    Args:
        scores: ``(b, l)``, detached.
        positions: ``(b, p)`` positions of the queries.
        masses: ``(b, l, m)``.

    Returns:
        ``(b, p, m)`` float64.
    """
    masses = masses.double()
    ascending, order = ordered(scores)
    sums = functional.pad(masses.gather(1, order[..., None].expand_as(masses)).cumsum(1), (0, 0, 1, 0))
    queried, ascending = scores.gather(1, positions), ascending.contiguous()
    wide = (-1, -1, masses.shape[2])
    below, upto = (
        sums.gather(1, torch.searchsorted(ascending, queried, right=right)[..., None].expand(wide))
        for right in (False, True)
    )
    own = masses.gather(1, positions[..., None].expand(wide))
    return sums[:, -1:] - 0.5 * (below + upto) + 0.5 * own


def sums_of(scores: Tensor, positions: Tensor, temperature: Number = 1.0) -> DifferenceSums:
    """Where queries are few, one by one; else on cells, or by one sort, where the scores lie far apart."""
    scores = scores.contiguous()
    if positions.shape[1] <= FEW_QUERIES or scores.device.type == "mps":
        return Blocks(scores, positions, temperature)
    # Elsewhere to look at the scores would make the host wait.
    grid = grid_of(scores, positions, float(temperature)) if scores.is_cpu else None
    return Series(scores, positions, temperature) if grid is None else grid


def bounded(x: Tensor, raises: Tensor, indicator: str) -> tuple[Tensor, Tensor]:
    """The bound of ``[x > 0]`` and its slope, where ``raises`` says whether the metric rises with it."""
    from_below = raises if indicator == "lower" else ~raises
    mirrored = torch.where(from_below, -x, x)
    excess, slope = functional.softplus(mirrored, threshold=40.0) / LOG_2, torch.sigmoid(mirrored) / LOG_2
    return torch.where(from_below, 1.0 - excess, excess), slope


def extended(measure: Callable[[Tensor], Tensor], counts: Tensor) -> Tensor:
    """A function of counts ``(4, …)`` beyond the counts that there can be, where it goes on straight.

    Bounds of counts may be negative, or larger than everything there is. Along a straight line a metric keeps its
    slope, and what was a bound remains one.
    """
    positives, negatives = counts[0] + counts[2], counts[1] + counts[3]
    tp = torch.minimum(counts[0].clamp_min(0.0), positives)
    fp = torch.minimum(counts[1].clamp_min(0.0), negatives)
    inside = torch.stack((tp, fp, positives - tp, negatives - fp))
    value = measure(inside)
    if not value.requires_grad:
        return value
    (slopes,) = torch.autograd.grad(value, inside, create_graph=True)
    return value + (slopes.nan_to_num(0.0, 0.0, 0.0) * (counts - inside)).sum()


class BoundedRanks:
    """As `SoftRanks`, by bounds: what stands above an item and lowers the metric, and with ``hits`` what raises it.

    Args:
        scores: ``(b, l)``, detached.
        positions: ``(b, p)`` positions of the queries.
        masses: ``(b, l, m)``; with ``hits`` the first raises the metric.
        temperature: > 0.
        indicator: "lower" or "upper", of the metric.
        hits: See masses.
    """

    def __init__(
        self, scores: Tensor, positions: Tensor, masses: Tensor, temperature: Number, indicator: str, *, hits: bool
    ) -> None:
        self.scores, self.positions, self.lower = bounded_scores(scores / temperature), positions, indicator == "lower"
        self.temperature = temperature
        self.masses = masses
        self.sums = sums_of(self.scores, positions)
        #: ``(m,)`` whether a mass is counted by its lower bound.
        raising = torch.arange(masses.shape[2], device=scores.device) < int(hits)
        self._from_below = raising if self.lower else ~raising

    def above(self) -> Tensor:
        """``(b, p, m)``, the item's own mass included."""
        own, counts = self._own(self.masses), self._counts()
        return torch.where(self._from_below, torch.maximum(counts, own), counts)

    def gradient(self, slopes: Tensor) -> Tensor:
        """``(b, l)``: the gradient of ``Σ slopes · above`` with respect to the scores."""
        kept = ~self._from_below | (self._counts() > self._own(self.masses))
        slopes = slopes * kept
        rising = torch.where(self._from_below, -slopes, slopes)
        gradient = self.sums.gradient("sigmoid", self.masses, rising)
        straight = slopes * self._from_below  # the slope from below is 1 − sigmoid
        gradient = gradient + (self.masses * straight.sum(1, keepdim=True)).sum(-1)
        of_queries = (straight * self.masses.sum(1, keepdim=True)).sum(-1)
        return gradient.scatter_add(1, self.positions, -of_queries) / (self.temperature * LOG_2)

    def _counts(self) -> Tensor:
        """From above Σ w log₂(1 + e^d), which has the item itself; from below w_i + Σ w (1 − log₂(1 + e^−d))."""
        above = self.sums.sums("softplus", self.masses) / LOG_2
        queried = self.scores.gather(1, self.positions)[..., None]
        whole = self.masses.sum(1, keepdim=True)
        gaps = (self.masses * self.scores[..., None]).sum(1, keepdim=True) - queried * whole
        return torch.where(self._from_below, whole + gaps / LOG_2 - above + self._own(self.masses), above)

    def _own(self, masses: Tensor) -> Tensor:
        return masses.gather(1, self.positions[..., None].expand(-1, -1, masses.shape[2]))
