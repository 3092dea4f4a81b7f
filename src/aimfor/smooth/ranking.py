"""Ranked lists: any metric of soft ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from .bounds import BoundedRanks
from .form import SmoothForm, Softness, found, value_and_slopes, wants_gradient
from .ranks import SoftRanks, binary_logistic, graded_logistic, sharp_above, sums_of
from .sums import DifferenceSums


class Asked(NamedTuple):
    """The items whose ranks a metric asks for, list by list.

    Attributes:
        places: ``(b, p)`` positions, padded.
        there: ``(b, p)`` False for padding; None where there is none.

    Example:
        >>> import torch
        >>> from aimfor.smooth import Asked
        >>> Asked(torch.tensor([[0, 2]]), None).take(torch.tensor([[5.0, 6.0, 7.0]])).tolist()
        [[5.0, 7.0]]
    """

    places: Tensor
    there: Tensor | None

    def take(self, values: Tensor) -> Tensor:
        """``(b, l)`` values of all items to ``(b, p)`` of the asked ones, 0 for padding."""
        taken = values.gather(1, self.places)
        return taken if self.there is None else torch.where(self.there, taken, taken.new_zeros(()))


def asked_items(mask: Tensor) -> Asked:
    """``(b, l)`` bool to the positions of its True entries.

    Example:
        >>> import torch
        >>> from aimfor.smooth import asked_items
        >>> asked_items(torch.tensor([[True, False, True]])).places.tolist()
        [[0, 2]]
    """
    if len(mask) == 1:
        return Asked(mask[0].nonzero().t(), None)
    count = mask.sum(1)
    longest = int(count.max()) if count.numel() else 0
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
        grades: ``(b, l)``, bool where there are two: the anchor orders every pair of items with different grades.
        counted: ``(b, l)`` weight of each item in the anchor, 0 where it does not count.
        cuts: The measure has indicators of its own (a cut at k, a floor) and asks for the relative softness.
        hits: The first of the masses is 0 off the asked items.
        companion: The anchor of given scores ``(b, l)`` and its gradient, where it is not the pairs' logistic loss.
        priced: The measure with its slopes, where they are known: what autograd would find, in fewer steps.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.AveragePrecision()
        >>> form = metric.smooth_form(metric.check(torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1, 1, 0])))
        >>> form.asked.places.tolist(), round(form.spread(), 4)
        ([[0, 1]], 1.2247)
    """

    scores: Tensor
    asked: Asked
    masses: tuple[Tensor, ...]
    measure: RankMeasure
    grades: Tensor
    counted: Tensor
    cuts: bool = False
    hits: bool = False
    companion: Callable[[Tensor], tuple[float, Tensor]] | None = None
    priced: Callable[[Tensor, Tensor], tuple[float, Tensor]] | None = None

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
        x, share, wanted = self.scores.detach(), softness.anchor, wants_gradient(self.scores)
        # Where nothing is learned from the ranks, they only show a value, and exact ones cost less.
        sharp = softness.indicator == "sigmoid" and (share == 1.0 or softness.temperature == 0.0)
        ranks = None if sharp else self._ranks(x, softness)
        above = sharp_above(x, self.asked.places, self._stacked) if ranks is None else ranks.above().double()
        above = above.movedim(-1, 0)
        relative = self._relative(softness) if self.cuts else above.new_ones(())
        if ranks is None:
            value, slopes = float(self.measure(above, relative)), above
        elif self.priced is not None:
            value, slopes = self.priced(above, relative)
        else:
            value, slopes = value_and_slopes(lambda leaf: self.measure(leaf, relative), above)
        if value != value:
            return self.scores.sum() * 0.0, value, None
        loss, gradient = (1.0 - share) * (1.0 - value), None
        if wanted and ranks is not None:
            steep = slopes.movedim(0, -1).to(x) * (-(1.0 - share) * softness.enlarge)
            if self.asked.there is not None:  # slopes cover padding too, where the metric multiplies by 0
                steep = steep * self.asked.there[..., None]
            gradient = ranks.gradient(steep)
        if share:
            unit = softness.anchor_temperature
            sums = None if ranks is None or softness.temperature != unit else ranks.sums
            companion, slope = self._companion(x, unit, sums)
            loss += share * companion
            if wanted:
                scale = share * softness.enlarge / unit
                gradient = slope * scale if gradient is None else gradient.add_(slope, alpha=scale)
        if gradient is None:
            return x.new_tensor(loss), value, None
        return found(self.scores, loss, gradient), value, None

    def _ranks(self, x: Tensor, softness: Softness) -> SoftRanks | BoundedRanks:
        places, masses, temperature = self.asked.places, self._stacked, softness.temperature
        if softness.indicator == "sigmoid":
            return SoftRanks(x, places, masses, temperature, hits=self.hits)
        if self.cuts:
            softness.refuse_bounds("a metric that cuts the list at a place or a rate")
        return BoundedRanks(x, places, masses, temperature, softness.indicator, hits=self.hits)

    def _relative(self, softness: Softness) -> Tensor:
        """``(b, 1)``: the temperature in units of each list's own spread."""
        if softness.relative is not None:
            return self.scores.new_full((len(self.scores), 1), softness.relative, dtype=torch.float64)
        spreads = self._variances().sqrt()[:, None]
        return softness.temperature / torch.where(spreads > 0, spreads, 1.0)

    def _companion(self, x: Tensor, unit: float, sums: DifferenceSums | None) -> tuple[float, Tensor]:
        """Mean over the lists of the mean logistic loss of their pairs with different grades, of scores ``x / unit``.

        With its gradient with respect to ``x / unit``; ``sums`` are those of ``x / unit``, if somebody has them.
        """
        if self.companion is not None:
            return self.companion(x / unit)
        places, mass = self.asked.places, self.counted.to(x)
        weight = self.asked.take(mass)
        if self.grades.dtype == torch.bool:
            below = mass.masked_fill(self.grades, 0.0)
            total, slope, weights = binary_logistic(weight, below, sums or sums_of(x / unit, places))
        else:
            total, slope, weights = graded_logistic(x / unit, places, weight, self.grades.to(x), mass)
        if len(x) == 1:
            size = float(weights)
            return (float(total) / size, slope.div_(size)) if size > 0 else (0.0, slope.zero_())
        defined = weights > 0
        sizes = torch.where(defined, weights, 1.0) * defined.sum().clamp_min(1)
        return float((total / sizes).sum()), slope / sizes[:, None].to(x)
