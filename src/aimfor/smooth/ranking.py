"""Ranked lists: any metric of soft ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..engine import Number, number
from .companions import binary_logistic, graded_logistic
from .form import (
    LazyValue,
    Plain,
    SmoothForm,
    Softness,
    equals,
    held_constant,
    read_value,
    scalar,
    undefined_number,
    value_and_slopes,
    wants_gradient,
    with_gradient,
)
from .ledger import FEW, inverse_means
from .ranks import BoundedRanks, QueriedItems, SoftRanks, sharp_above, sums_of

#: Pairs of scores that a second derivative may take: 128 MB in float64.
MOST_PAIRS = 1 << 24

#: (masses above each query, ``(m, b, p)`` float64, the item's own included; relative softness ``(b, 1)``) to the
#: metric.
RankMeasure = Callable[[Tensor, Tensor | float], Tensor]


@dataclass(frozen=True)
class Ranking(SmoothForm):
    """A metric of the masses ranked above some items of each list.

    Attributes:
        scores: ``(b, l)``, attached to the graph.
        queries: The items whose ranks matter (positives, usually).
        masses: Each ``(b, l)``: what is summed above an item; 0 where an item does not count.
        measure: The metric, a scalar; NaN where undefined.
        grades: ``(b, l)``, bool where there are two: the anchor orders every pair of items with different grades. With
            two, the queries have the higher one, and the last of the masses is that of the items with the lower.
        counted: ``(b, l)`` weight of each item in the anchor, 0 where it does not count; None for ones.
        has_cut: The measure has indicators of its own (a cut at k, a floor) and asks for the relative softness.
        hits: The first of the masses is 0 off the queries, and raises the metric.
        companion: The anchor of given scores ``(b, l)`` and its gradient, where it is not the pairs' logistic loss.
        priced: The measure with its slopes, where they are known: what autograd would find, in fewer steps, and 0 for
            padding.
        exact: The exact metric, where it costs less than exact ranks; for losses that learn from the anchor alone.
        ones: There is one mass, and it is 1 for every item.

    Example:
        >>> import torch, aimfor
        >>> metric = aimfor.AveragePrecision()
        >>> form = metric.smooth_form(metric.check(torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1, 1, 0])))
        >>> form.queries.positions.tolist(), round(form.spread(), 4)
        ([[0, 1]], 1.2247)
    """

    scores: Tensor
    queries: QueriedItems
    masses: tuple[Tensor, ...]
    measure: RankMeasure
    grades: Tensor
    counted: Tensor | None
    has_cut: bool = False
    hits: bool = False
    companion: Callable[[Tensor], tuple[Number, Tensor]] | None = None
    priced: Callable[[Tensor, Number], tuple[Number, Tensor]] | None = None
    exact: Callable[[], LazyValue] | None = None
    ones: bool = False

    def spread(self) -> Number:
        variances = self._variances(self.scores.detach())
        if self.counted is None:
            return number(variances.mean().sqrt()) if self.scores.numel() else 0.0
        size = self.counted.double().sum(1)
        return number(((variances * size).sum() / size.sum().clamp_min(torch.finfo(torch.float64).tiny)).sqrt())

    def _variances(self, scores: Tensor) -> Tensor:
        """``(b,)`` float64, of the items that count in each list."""
        x = scores.double()
        if self.counted is None and x.numel():
            return x.var(1, correction=0)
        mass = torch.ones_like(x) if self.counted is None else self.counted.double()
        size = mass.sum(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
        centre = (x * mass).sum(1, keepdim=True) / size
        return ((x - centre).square() * mass / size).sum(1)

    def _variance_of_one(self) -> float:
        """Of one list. In float32 torch adds up in float64 too, so that only very large scores need more."""
        if self.counted is None and self.scores.numel():
            variance = float(self.scores.detach().var(correction=0))
            if variance < math.inf:
                return variance
        return float(self._variances(self.scores.detach()))

    @cached_property
    def stacked(self) -> Tensor:
        """``(b, l, m)``, each mass by itself in memory."""
        if len(self.masses) == 1:
            return self.masses[0].to(self.scores.dtype).unsqueeze(2)
        return torch.stack(self.masses).to(self.scores.dtype).movedim(0, 2)

    def _width_counts(self, softness: Softness) -> bool:
        """Whether the gradient knows that a cut is as wide as the scores' spread says.

        Without an anchor that is much of it. With one it is 3 % at most, and the slopes known without it cost less.
        """
        return self.has_cut and softness.relative is None and (self.priced is None or softness.anchor == 0.0)

    def holds(self, softness: Softness) -> tuple[str, ...]:
        learns = softness.anchor < 1.0
        width = self.has_cut and learns and softness.relative is None and not self._width_counts(softness)
        names = ("the width of the cut",) * width + softness.constants()
        return names if learns else tuple(name for name in names if name != "the scores' spread")

    def loss(self, softness: Softness) -> tuple[Tensor, LazyValue, Tensor | None]:
        x, share, wanted = self.scores.detach(), softness.anchor, wants_gradient(self.scores)
        # Where nothing is learned from the ranks, they only show a value, and exact ones cost less.
        sharp = softness.indicator == "sigmoid" and (share == 1.0 or equals(softness.temperature, 0.0))
        ranks = None if sharp else self._ranks(x, softness)
        value: LazyValue
        if ranks is None and self.exact is not None:
            value, slopes, wider = self.exact(), x, None
        else:
            above = sharp_above(x, self.queries.positions, self.stacked) if ranks is None else ranks.above().double()
            value, slopes, wider = self._priced(above.movedim(2, 0), softness, learns=ranks is not None)
        if undefined_number(value):
            return self.scores.sum() * 0.0, value, None
        loss, gradient = 0.0 if share == 1.0 else (1.0 - share) * (1.0 - read_value(value)), None
        unit = softness.anchor_temperature
        pairs = None
        if isinstance(ranks, SoftRanks) and share and self.in_pairs and equals(softness.temperature, unit):
            pairs = self.pairs(x, share).unsqueeze(2)  # their sums are those of the ranks
            loss = loss + number(ranks.logistic(pairs))
        if wanted and ranks is not None:
            steep = slopes.movedim(0, 2).to(x) * (share - 1.0)
            by_autograd = self.priced is None or wider is not None  # whose slopes cover padding too
            if self.queries.there is not None and by_autograd:
                steep = steep * self.queries.there.unsqueeze(2)
            if pairs is None:
                gradient = ranks.gradient(steep)
            else:
                gradient = ranks.gradient(steep, pairs)  # type: ignore[call-arg]
            if wider is not None:
                gradient.sub_(wider.to(gradient), alpha=1.0 - share)
        if share and pairs is None:
            companion, slope = self._companion(x / unit)
            loss = loss + share * companion
            if wanted:
                scale = share / unit
                gradient = slope * scale if gradient is None else gradient.add_(slope, alpha=scale)
        if gradient is None:
            return scalar(x, loss), value, None
        return with_gradient(self.scores, loss, gradient, plain_ranking(self, softness)), value, None

    def _priced(self, above: Tensor, softness: Softness, learns: bool) -> tuple[Any, ...]:
        """The metric of what stands above the items; its slopes; and those by the scores, through the cut's width."""
        x = self.scores.detach()
        if learns and self._width_counts(softness):
            return value_and_slopes(lambda at, wide: self.measure(at, self.relative(wide, softness)), above, x)
        relative = self.relative(x, softness) if self.has_cut else above  # without cuts nobody looks at it
        if not learns:
            return number(self.measure(above, relative)), above, None
        if self.priced is not None:
            return *self.priced(above, relative), None
        return *value_and_slopes(lambda leaf: self.measure(leaf, relative), above), None

    @property
    def in_pairs(self) -> bool:
        """Whether the anchor is the logistic loss of pairs of an query and one with the last mass."""
        return self.companion is None and self.grades.dtype == torch.bool

    def pairs(self, x: Tensor, share: float) -> Tensor:
        """``(b, p)`` what an query's pairs weigh in that share of the mean over lists of the mean over pairs."""
        if self.counted is None and self.queries.counts is not None:
            sizes = [float(count * (x.shape[1] - count)) for count in self.queries.counts]
            return self.queries.of_lists(_by_list([share * mean for mean in inverse_means(sizes)], x), x.dtype)
        weight = self.queries.ones(x.dtype) if self.counted is None else self.queries.take(self.counted.to(x))
        above, below = weight.sum(1), self.stacked[..., -1].sum(1)
        if len(x) <= FEW and x.is_cpu:
            sizes = list(map(float.__mul__, above.tolist(), below.tolist()))
            return weight * _by_list([share * mean for mean in inverse_means(sizes)], x)
        pairs = above.double() * below
        defined = pairs > 0
        pairs = torch.where(defined, pairs, torch.inf) * defined.sum().clamp_min(1)
        return weight * (share / pairs)[:, None].to(x)

    def _ranks(self, x: Tensor, softness: Softness) -> SoftRanks | BoundedRanks:
        positions, masses, temperature = self.queries.positions, self.stacked, softness.temperature
        if softness.indicator == "sigmoid":
            return SoftRanks(x, positions, masses, temperature, ones=self.ones)
        if self.has_cut:
            softness.refuse_bounds("a metric that cuts the list at a place or a rate")
        return BoundedRanks(x, positions, masses, temperature, softness.indicator, hits=self.hits)

    def relative(self, scores: Tensor, softness: Softness) -> Tensor | float:
        """The temperature in units of each list's own spread, ``(b, 1)``, or one number for all.

        It is at most 1 where the gradient knows of it, or scores that are all alike would meet every cut.
        """
        if softness.relative is not None:
            return softness.relative
        least = softness.temperature**2 if self._width_counts(softness) else 0.0
        if len(scores) == 1 and not scores.requires_grad and scores.is_cpu:
            return softness.temperature / (math.sqrt(max(self._variance_of_one(), least)) or 1.0)
        variances = self._variances(scores)[:, None].clamp_min(least)
        return softness.temperature / torch.where(variances > 0, variances, 1.0).sqrt()

    def _companion(self, scaled: Tensor) -> tuple[Number, Tensor]:
        """Mean over the lists of the mean logistic loss of their pairs with different grades, and its gradient."""
        if self.companion is not None:
            return self.companion(scaled)
        positions = self.queries.positions
        if self.in_pairs:
            return binary_logistic(self.pairs(scaled, 1.0), self.stacked[..., -1], sums_of(scaled, positions))
        mass = torch.ones_like(scaled) if self.counted is None else self.counted.to(scaled)
        weight = self.queries.take(mass)
        total, slope, weights = graded_logistic(scaled, positions, weight, self.grades.to(scaled), mass)
        defined = weights > 0
        sizes = torch.where(defined, weights, 1.0) * defined.sum().clamp_min(1)
        return number((total / sizes).sum()), slope / sizes[:, None].to(scaled)


def _by_list(numbers: list[float], like: Tensor) -> Tensor | float:
    """``(b, 1)``, or one number."""
    if len(numbers) == 1:
        return numbers[0]
    return torch.tensor([[number] for number in numbers], dtype=like.dtype, device=like.device)


def plain_ranking(form: Ranking, softness: Softness) -> Plain:
    """The loss of a form as a function of its scores, or why it has no second derivative."""
    held, share, positions = form.holds(softness), softness.anchor, form.queries.positions
    if held:
        return held_constant(held)
    if softness.indicator != "sigmoid":
        return "the bounds of ranks are differentiated once."
    if share and not form.in_pairs:
        return "this metric's anchor is differentiated once. SmoothEngine(), without an anchor, has one."
    if positions.numel() * form.scores.shape[1] > MOST_PAIRS:
        return f"it would take more than {MOST_PAIRS} pairs of scores in memory. Take shorter lists."

    def plain(scores: Tensor) -> Tensor:
        gaps = scores[:, None, :] - scores.gather(1, positions)[..., None]
        masses, loss = form.stacked, scores.new_zeros((), dtype=torch.float64)
        if share < 1.0:
            own = masses.gather(1, positions[..., None].expand(-1, -1, masses.shape[2]))
            above = torch.bmm(torch.sigmoid(gaps / softness.temperature), masses) + 0.5 * own
            relative = form.relative(scores, softness) if form.has_cut else above  # without cuts nobody looks at it
            loss = (1.0 - share) * (1.0 - form.measure(above.double().movedim(2, 0), relative))
        if share:
            pairs = functional.softplus(gaps / softness.anchor_temperature, threshold=40.0)
            loss = loss + (form.pairs(scores.detach(), share) * (pairs @ masses[..., -1:])[..., 0]).sum()
        return loss

    return plain
