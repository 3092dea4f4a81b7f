"""Logistic bounds in place of the sigmoid: the smooth metric is then surely below, or surely above, the exact one.

    1 − log₂(1 + exp(−x/T))  ≤  [x > 0]  ≤  log₂(1 + exp(x/T)).

A metric that rises with true positives and falls with false ones is bounded from below ("lower") by the lower bound of
what raises it and the upper bound of what lowers it, from above ("upper") the other way round. The loss of "lower" is
thus never less than 1 − metric, and has a gradient however wrong a decision is. Neither tends to the metric as T → 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from .ranks import sums_of
from .sums import bounded_scores

INDICATORS = ("sigmoid", "lower", "upper")
LOG_2 = math.log(2.0)


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
        places: ``(b, p)`` positions of the asked items.
        masses: ``(b, l, m)``; with ``hits`` the first raises the metric.
        temperature: > 0.
        indicator: "lower" or "upper", of the metric.
        hits: See masses.
    """

    def __init__(
        self, scores: Tensor, places: Tensor, masses: Tensor, temperature: float, indicator: str, *, hits: bool
    ) -> None:
        self.scores, self.places, self.lower = bounded_scores(scores / temperature), places, indicator == "lower"
        self.temperature = temperature
        self.masses = masses
        self.sums = sums_of(self.scores, places)
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
        of_asked = (straight * self.masses.sum(1, keepdim=True)).sum(-1)
        return gradient.scatter_add(1, self.places, -of_asked) / (self.temperature * LOG_2)

    def _counts(self) -> Tensor:
        """From above Σ w log₂(1 + e^d), which has the item itself; from below w_i + Σ w (1 − log₂(1 + e^−d))."""
        above = self.sums.sums("softplus", self.masses) / LOG_2
        asked = self.scores.gather(1, self.places)[..., None]
        whole = self.masses.sum(1, keepdim=True)
        gaps = (self.masses * self.scores[..., None]).sum(1, keepdim=True) - asked * whole
        return torch.where(self._from_below, whole + gaps / LOG_2 - above + self._own(self.masses), above)

    def _own(self, masses: Tensor) -> Tensor:
        return masses.gather(1, self.places[..., None].expand(-1, -1, masses.shape[2]))
