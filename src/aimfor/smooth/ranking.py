"""Ranked lists: any metric of soft ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from .form import SmoothForm, Softness, found, value_and_slopes, wants_gradient
from .ranks import SoftRanks, pairwise_logistic


class Asked(NamedTuple):
    """The items whose ranks a metric asks for, list by list.

    Attributes:
        places: ``(b, p)`` positions, padded.
        there: ``(b, p)`` False for padding.
    """

    places: Tensor
    there: Tensor

    def take(self, values: Tensor) -> Tensor:
        """``(b, l)`` values of all items to ``(b, p)`` of the asked ones, 0 for padding."""
        return torch.where(self.there, values.gather(1, self.places), values.new_zeros(()))


def asked_items(mask: Tensor) -> Asked:
    """``(b, l)`` bool to the positions of its True entries."""
    count = mask.sum(1)
    longest = int(count.max()) if count.numel() else 0
    if len(mask) == 1:
        places = mask[0].nonzero().t()
    else:
        places = mask.to(torch.uint8).sort(stable=True, dim=1, descending=True).indices[:, :longest]
    return Asked(places, torch.arange(longest, device=mask.device) < count[:, None])


#: (masses above each asked item, ``(m, b, p)`` float64, the item's own included; relative softness ``(b, 1)``) to the
#: metric.
RankMeasure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Ranking(SmoothForm):
    """A metric of the masses ranked above some items of each list.

    Attributes:
        scores: ``(b, l)``, attached to the graph.
        asked: The items whose ranks matter (positives, usually).
        masses: Each ``(b, l)``: what is summed above an item; 0 where an item does not count.
        measure: The metric, a scalar; NaN where undefined.
        grades: ``(b, l)``: the anchor orders every pair of items with different grades.
        counted: ``(b, l)`` weight of each item in the anchor, 0 where it does not count.
        cuts: The measure has indicators of its own (a cut at k, a floor) and asks for the relative softness.
    """

    scores: Tensor
    asked: Asked
    masses: tuple[Tensor, ...]
    measure: RankMeasure
    grades: Tensor
    counted: Tensor
    cuts: bool = False

    def spread(self) -> float:
        size = self.counted.double().sum(1)
        mean = (self._variances() * size).sum() / size.sum().clamp_min(torch.finfo(torch.float64).tiny)
        return float(mean.sqrt())

    def _variances(self) -> Tensor:
        """``(b,)`` float64, of the items that count in each list."""
        x, mass = self.scores.detach().double(), self.counted.double()
        size = mass.sum(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
        centre = (x * mass).sum(1, keepdim=True) / size
        return ((x - centre).square() * mass / size).sum(1)

    @cached_property
    def _stacked(self) -> Tensor:
        return torch.stack(self.masses, -1).to(self.scores.dtype)

    def loss(self, softness: Softness) -> tuple[Tensor, float, Tensor | None]:
        x = self.scores.detach()
        ranks = SoftRanks(x, self.asked.places, self._stacked, softness.temperature)
        above = ranks.above().double().movedim(-1, 0)
        relative = self._relative(softness) if self.cuts else above.new_ones(())
        value, slopes = value_and_slopes(lambda leaf: self.measure(leaf, relative), above)
        if value != value:
            return self.scores.sum() * 0.0, value, None
        loss, share = (1.0 - softness.anchor) * (1.0 - value), softness.anchor
        gradient = torch.zeros_like(x)
        if wants_gradient(self.scores):
            # Slopes cover padding too, where the metric multiplies by 0.
            steep = slopes.movedim(0, -1).to(x) * self.asked.there[..., None]
            gradient = ranks.gradient(steep) * (-(1.0 - share) * softness.enlarge)
        if share:
            companion, slope = self._companion(x)
            loss += share * companion
            gradient = gradient + share * softness.enlarge * slope
        if not wants_gradient(self.scores):
            return x.new_tensor(loss), value, None
        return found(self.scores, loss, gradient), value, None

    def _relative(self, softness: Softness) -> Tensor:
        """``(b, 1)``: the temperature in units of each list's own spread."""
        spreads = self._variances().sqrt()[:, None]
        if softness.relative is not None:
            return torch.full_like(spreads, softness.relative)
        return softness.temperature / torch.where(spreads > 0, spreads, 1.0)

    def _companion(self, x: Tensor) -> tuple[float, Tensor]:
        """Mean over the lists of the mean logistic loss of their pairs with different grades."""
        total, slope, weights = pairwise_logistic(
            x, self.asked.places, self.asked.there, self.grades.to(x), self.counted.to(x)
        )
        defined = weights > 0
        size = torch.where(defined, weights, 1.0) * defined.sum().clamp_min(1)
        return float((total / size).sum()), slope / size[:, None].to(x)
